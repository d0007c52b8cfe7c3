/**
 * Requests to one worker. `node:http` and not `fetch`: a step of a large model may take longer than fetch waits for headers. A connection that breaks is a
 * `WorkerLost`; whoever called decides whether asking again is safe.
 */
import { Agent, type IncomingMessage, request } from "node:http";
import { Readable } from "node:stream";
import { errorMessage } from "../../core/errors.ts";
import { WorkerLost } from "./lost.ts";
import { type Body, type FrameBody, pack, reviveError, unpack } from "./wire.ts";

export type Address = { readonly host: string; readonly port: number; readonly key: string };

export class Connection {
  readonly address: Address;
  readonly #agent = new Agent({ keepAlive: true });

  constructor(address: Address) {
    this.address = address;
  }

  async health(signal?: AbortSignal): Promise<Body> {
    return this.#read(await this.send("GET", "/health", undefined, signal));
  }

  async call(op: string, body: Body, frames: readonly FrameBody[]): Promise<Body> {
    return this.#read(await this.send("POST", "/call", pack({ op, ...body }, frames)));
  }

  /** An answer in messages, which come as they are ready. */
  async stream(op: string, body: Body, frames: readonly FrameBody[], take: (message: Body) => void): Promise<void> {
    const response = await this.send("POST", "/call", pack({ op, ...body }, frames));
    if (response.statusCode !== 200) {
      await this.#read(response);
      return;
    }
    let rest = Buffer.alloc(0);
    for await (const part of received(response)) {
      rest = rest.length === 0 ? Buffer.from(part) : Buffer.concat([rest, part]);
      while (rest.length >= 4) {
        const end = 4 + rest.readUInt32LE(0);
        if (rest.length < end) break;
        take(unpack(rest.subarray(4, end)));
        rest = rest.subarray(end);
      }
    }
  }

  async frames(frames: readonly FrameBody[]): Promise<void> {
    await this.#read(await this.send("POST", "/frames", pack({}, frames)));
  }

  async upload(path: string, content: Readable): Promise<void> {
    await this.#read(await this.send("PUT", `/files/${path}`, content));
  }

  async download(path: string): Promise<IncomingMessage> {
    const response = await this.send("GET", `/files/${path}`);
    if (response.statusCode !== 200) await this.#read(response);
    return response;
  }

  async files(bundle: string): Promise<string[]> {
    return (await this.#read(await this.send("GET", `/files/${bundle}`))).files as string[];
  }

  async remove(bundle: string): Promise<void> {
    await this.#read(await this.send("DELETE", `/files/${bundle}`));
  }

  close(): void {
    this.#agent.destroy();
  }

  send(
    method: string,
    path: string,
    content?: readonly Uint8Array[] | Readable,
    signal?: AbortSignal,
  ): Promise<IncomingMessage> {
    const { host, port, key } = this.address;
    const parts = content instanceof Readable ? undefined : (content ?? []);
    const length = parts && { "Content-Length": parts.reduce((sum, { byteLength }) => sum + byteLength, 0) };
    return new Promise((resolve, reject) => {
      const fail = (error: Error) =>
        reject(
          signal?.aborted ? signal.reason : new WorkerLost(`The PyTorch worker can't be reached: ${error.message}.`),
        );
      const sent = request(
        {
          host,
          port,
          method,
          path,
          agent: this.#agent,
          headers: { Authorization: `Bearer ${key}`, ...length },
          signal,
        },
        resolve,
      );
      sent.on("error", fail);
      if (content instanceof Readable) content.on("error", fail).pipe(sent);
      else {
        sent.cork();
        for (const part of parts ?? []) sent.write(part);
        sent.uncork();
        sent.end();
      }
    });
  }

  async #read(response: IncomingMessage): Promise<Body> {
    const parts: Uint8Array[] = [];
    for await (const part of received(response)) parts.push(part);
    return checked(unpack(Buffer.concat(parts)));
  }
}

async function* received(response: IncomingMessage): AsyncGenerator<Uint8Array> {
  try {
    for await (const part of response) yield part as Uint8Array;
  } catch (error) {
    throw new WorkerLost(`The PyTorch worker's answer broke off: ${errorMessage(error)}.`);
  }
}

function checked(body: Body): Body {
  if (body.error !== undefined) throw reviveError(body.error);
  return body;
}
