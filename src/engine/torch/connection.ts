/**
 * Requests to one worker. `node:http` and not `fetch`: a step of a large model may take longer than fetch waits for headers. A connection that breaks is a
 * `WorkerLost`; whoever called decides whether asking again is safe.
 */
import { Agent, type IncomingMessage, request } from "node:http";
import type { Readable } from "node:stream";
import { errorMessage } from "../../core/errors.ts";
import { WorkerLost } from "./lost.ts";
import { type Body, pack, reviveError, unpack } from "./wire.ts";

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

  async call(op: string, body: Body, signal?: AbortSignal): Promise<Body> {
    return this.#read(await this.send("POST", "/call", pack({ op, ...body }), signal));
  }

  /** Messages come as they are ready; the last one is the answer. */
  async stream(op: string, body: Body, take: (message: Body) => void, signal?: AbortSignal): Promise<Body> {
    const response = await this.send("POST", "/call", pack({ op, stream: true, ...body }), signal);
    if (response.statusCode !== 200) return this.#read(response);
    let rest: Uint8Array = new Uint8Array(0);
    let last: Body | undefined;
    for await (const part of received(response, signal)) {
      rest = Buffer.concat([rest, part]);
      for (;;) {
        const length = rest.length < 4 ? Number.POSITIVE_INFINITY : Buffer.from(rest).readUInt32LE(0);
        if (rest.length < 4 + length) break;
        if (last !== undefined) take(last);
        last = unpack(rest.subarray(4, 4 + length));
        rest = rest.subarray(4 + length);
      }
    }
    if (last === undefined) throw new WorkerLost("The PyTorch worker broke off its answer.");
    return checked(last);
  }

  async frames(frames: readonly Body[]): Promise<void> {
    await this.#read(await this.send("POST", "/frames", pack({ frames })));
  }

  async upload(path: string, content: Readable | Uint8Array): Promise<void> {
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

  send(method: string, path: string, content?: Uint8Array | Readable, signal?: AbortSignal): Promise<IncomingMessage> {
    const { host, port, key } = this.address;
    const length = content instanceof Uint8Array ? { "Content-Length": content.byteLength } : {};
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
      if (content === undefined || content instanceof Uint8Array) sent.end(content);
      else content.on("error", fail).pipe(sent);
    });
  }

  async #read(response: IncomingMessage): Promise<Body> {
    const parts: Uint8Array[] = [];
    for await (const part of received(response)) parts.push(part);
    return checked(unpack(Buffer.concat(parts)));
  }
}

async function* received(response: IncomingMessage, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
  try {
    for await (const part of response) yield part as Uint8Array;
  } catch (error) {
    signal?.throwIfAborted();
    throw new WorkerLost(`The PyTorch worker broke off its answer: ${errorMessage(error)}.`);
  }
}

function checked(body: Body): Body {
  if (body.error !== undefined) throw reviveError(body.error);
  return body;
}
