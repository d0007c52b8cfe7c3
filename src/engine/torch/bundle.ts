/**
 * Folders of models between here and a worker. One that shares our disk reads and writes them itself. To one elsewhere they travel, with what lies beside
 * them (`policy.state.safetensors` beside `policy`), and come back to a draft that is moved into place when it is whole.
 */
import { randomUUID } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import { move } from "../../core/move.ts";
import type { Connection } from "./connection.ts";
import { Gone, WorkerLost } from "./lost.ts";
import type { WorkerSource } from "./process.ts";

const ADAPTER = "adapter_config.json";

/** Times that files are sent or fetched before giving up. */
const JOURNEYS = 4;

export class Bundles {
  readonly #source: WorkerSource;
  /** Folders that one process of the worker was sent, by their path. */
  readonly #sent = new Map<string, Promise<string>>();

  constructor(source: WorkerSource) {
    this.#source = source;
  }

  /** What the worker calls this folder. `keep`: it does not change, so one journey is enough. */
  async send(folder: string, options: { readonly keep: boolean }): Promise<string> {
    const path = resolve(folder);
    if (!this.#source.remote) return path;
    const { instance } = await this.#source.link();
    const key = `${instance}:${path}`;
    const known = options.keep ? this.#sent.get(key) : undefined;
    if (known !== undefined) return known;
    const journey = this.#travel(instance, (connection) => upload(connection, path));
    if (options.keep) this.#sent.set(key, journey);
    journey.catch(() => this.#sent.delete(key));
    return journey;
  }

  /** The folder that has tokenizer and processor: an adapter's are its base's. */
  async home(folder: string): Promise<string> {
    return (await baseOf(folder)) ?? folder;
  }

  /** An adapter's base, as the worker must call it; undefined for a whole model or where the adapter's own word will do. */
  async base(folder: string): Promise<string | undefined> {
    const base = this.#source.remote ? await baseOf(folder) : undefined;
    return base === undefined ? undefined : this.send(base, { keep: true });
  }

  /** Lets the worker write a folder (`write` gets its name for it), which then lies here. `base`: what an adapter belongs to, here. */
  async receive(folder: string, base: string, write: (remote: string) => Promise<unknown>): Promise<void> {
    const path = resolve(folder);
    if (!this.#source.remote) {
      await write(path);
      return;
    }
    const bundle = randomUUID();
    const { instance } = await this.#source.link();
    await write(`bundle:${bundle}/${basename(path)}`);
    await this.#travel(instance, async (connection) => {
      await download(connection, bundle, path, resolve(base));
      await connection.remove(bundle);
    });
  }

  /** A journey that broke off is made again as long as it leads to the same process; what another one had is gone. */
  async #travel<T>(instance: string, journey: (connection: Connection) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      const link = await this.#source.link();
      if (link.instance !== instance) throw new Gone();
      try {
        return await journey(link.connection);
      } catch (error) {
        if (!broken(error) || attempt === JOURNEYS) throw error;
        this.#source.doubt();
      }
    }
  }
}

function broken(error: unknown): boolean {
  return (
    error instanceof WorkerLost ||
    ["ECONNRESET", "ERR_STREAM_PREMATURE_CLOSE", "EPIPE"].includes((error as NodeJS.ErrnoException).code ?? "")
  );
}

/** Undefined for a whole model. */
async function baseOf(folder: string): Promise<string | undefined> {
  const text = await readFile(join(folder, ADAPTER), "utf8").catch(() => undefined);
  if (text === undefined) return undefined;
  const named = (JSON.parse(text) as { base_model_name_or_path?: unknown }).base_model_name_or_path;
  return typeof named === "string" && (await exists(named)) ? named : undefined;
}

async function upload(connection: Connection, path: string): Promise<string> {
  const bundle = randomUUID();
  const name = basename(path);
  const inside = (await readdir(path, { withFileTypes: true })).filter((entry) => entry.isFile());
  const beside = (await readdir(dirname(path))).filter(
    (file) => file.startsWith(`${name}.`) && file.endsWith(".safetensors"),
  );
  const files = [...inside.map((entry) => `${name}/${entry.name}`), ...beside];
  for (const file of files) {
    await connection.upload(`${bundle}/${encodePath(file)}`, createReadStream(join(dirname(path), file)));
  }
  return `bundle:${bundle}/${name}`;
}

async function download(connection: Connection, bundle: string, path: string, base: string): Promise<void> {
  const name = basename(path);
  const parent = dirname(path);
  await mkdir(parent, { recursive: true });
  const draft = await mkdtemp(join(parent, `.${name}-`));
  try {
    const files = await connection.files(bundle);
    for (const file of files) {
      const to = join(draft, file);
      await mkdir(dirname(to), { recursive: true });
      await pipeline(await connection.download(`${bundle}/${encodePath(file)}`), createWriteStream(to));
    }
    const adapter = join(draft, name, ADAPTER);
    if (await exists(adapter)) {
      // The worker named its own copy of the base.
      const config = JSON.parse(await readFile(adapter, "utf8")) as object;
      await writeFile(adapter, `${JSON.stringify({ ...config, base_model_name_or_path: base }, null, 2)}\n`);
    }
    // State that belongs to older weights must not be found beside new ones.
    for (const file of await readdir(parent)) {
      if (file.startsWith(`${name}.`) && file.endsWith(".safetensors")) await rm(join(parent, file));
    }
    if (await exists(path))
      for (const file of await readdir(join(draft, name))) await move(join(draft, name, file), join(path, file));
    else await move(join(draft, name), path);
    for (const file of files.filter((file) => !file.includes("/"))) await move(join(draft, file), join(parent, file));
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

function encodePath(path: string): string {
  return path.split("/").map(encodeURIComponent).join("/");
}

function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
