/**
 * For tests: a stand-in for the hub on this machine. It speaks the routes of an upload (repositories, pre-upload, large files, commits), keeps
 * what it was sent, and checks large files against their announced hash. `NARROW` is a token that may write but not make repositories.
 */
import { createHash } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";

export const TOKEN = "hf_stand_in";
export const NARROW = "hf_narrow";

export type HubRepo = { visibility: string | undefined; files: Map<string, Buffer>; titles: string[] };

export class TestHub {
  readonly repos = new Map<string, HubRepo>();
  /** Large files by SHA-256, and how often one was sent. */
  readonly large = new Map<string, Buffer>();
  sent = 0;
  url = "";
  readonly #server = createServer(async (request, response) => {
    try {
      const [status, answer] = await this.#answer(request);
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(answer));
    } catch (error) {
      // A client that stops an upload closes its connection in the middle of a body.
      if (!request.destroyed) throw error;
    }
  });

  async open(): Promise<void> {
    await new Promise<void>((done) => this.#server.listen(0, "127.0.0.1", done));
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #answer(request: IncomingMessage): Promise<[number, unknown]> {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const body = Buffer.concat(parts);
    const [path = "", method = ""] = [request.url?.split("?")[0], request.method];
    // Large files go to storage, whose addresses carry their own right.
    if (method === "PUT" && path.startsWith("/lfs/")) return this.#store(path.slice(5), body);
    const token = request.headers.authorization?.replace("Bearer ", "");
    if (token !== TOKEN && token !== NARROW) return [401, { error: "Invalid credentials in Authorization header" }];
    if (path === "/api/repos/create") {
      return token === NARROW ? [403, { error: "You have no right to create a model here" }] : this.#create(body);
    }
    const [, id = "", action = ""] =
      /^\/api\/models\/([^/]+\/[^/]+)(?:\/(preupload|commit)\/main)?$/.exec(path) ??
      /^\/([^/]+\/[^/]+)\.git\/info\/lfs\/objects\/(batch)$/.exec(path) ??
      [];
    const repo = this.repos.get(id);
    if (repo === undefined) return [404, { error: "Repository not found" }];
    if (action === "preupload") return preupload(body);
    if (action === "batch") return this.#batch(body);
    if (action === "commit") return this.#commit(repo, body);
    return [200, { id }];
  }

  #create(body: Buffer): [number, unknown] {
    const { organization, name, visibility } = JSON.parse(body.toString());
    const id = `${organization}/${name}`;
    if (this.repos.has(id)) return [409, { error: "You already created this model repo" }];
    this.repos.set(id, { visibility, files: new Map(), titles: [] });
    return [200, { url: `${this.url}/${id}`, id }];
  }

  /** Where to send the large files that are not here yet. */
  #batch(body: Buffer): [number, unknown] {
    const asked: { oid: string; size: number }[] = JSON.parse(body.toString()).objects;
    const objects = asked.map((object) => ({
      ...object,
      ...(!this.large.has(object.oid) && { actions: { upload: { href: `${this.url}/lfs/${object.oid}` } } }),
    }));
    return [200, { transfer: "basic", objects }];
  }

  #store(announced: string, body: Buffer): [number, unknown] {
    const oid = createHash("sha256").update(body).digest("hex");
    if (announced !== oid) return [422, { error: "The content is not what was announced" }];
    this.large.set(oid, body);
    this.sent += 1;
    return [200, {}];
  }

  #commit(repo: HubRepo, body: Buffer): [number, unknown] {
    for (const line of body.toString().split("\n")) {
      const { key, value } = JSON.parse(line);
      if (key === "header") repo.titles.push(value.summary);
      if (key === "file") repo.files.set(value.path, Buffer.from(value.content, value.encoding));
      if (key === "lfsFile") repo.files.set(value.path, this.large.get(value.oid) as Buffer);
    }
    return [200, { commitOid: "c0ffee", commitUrl: `${this.url}/commit/c0ffee`, success: true }];
  }
}

function preupload(body: Buffer): [number, unknown] {
  const asked: { path: string }[] = JSON.parse(body.toString()).files;
  const mode = (path: string) => (path.endsWith(".safetensors") ? "lfs" : "regular");
  return [200, { files: asked.map(({ path }) => ({ path, uploadMode: mode(path) })) }];
}
