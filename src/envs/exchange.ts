/**
 * A WebSocket on which every message is answered by one. An answer that does not come in time, and a socket that breaks, is an `EnvError`, and the socket
 * is of no use from then on. A server may speak first, to say why it hangs up; that is the answer to the first question. What it says unasked later breaks
 * the exchange, because answers would no longer belong to questions.
 */
import WebSocket from "ws";
import { EnvError, errorMessage } from "../core/errors.ts";

/** What OpenEnv's own client takes. */
const MAX_BYTES = 100 * 1024 * 1024;

type Waiting = { readonly done: (said: string) => void; readonly fail: (error: Error) => void };

export class Exchange {
  readonly #socket: WebSocket;
  readonly #url: string;
  readonly #timeoutMs: number;
  #waiting: Waiting | undefined;
  #early: string | undefined;
  #hasAsked = false;
  #broken: EnvError | undefined;

  private constructor(socket: WebSocket, url: string, timeoutMs: number) {
    this.#socket = socket;
    this.#url = url;
    this.#timeoutMs = timeoutMs;
    // From the start: a message may come with the handshake.
    socket.on("message", (data) => this.#hear(String(data)));
    socket.on("error", (error) => this.#break(new EnvError(`${url} can't be reached: ${errorMessage(error)}`)));
    socket.on("close", (code) => this.#break(new EnvError(`${url} closed the connection (${code}).`)));
  }

  static open(url: string, headers: Readonly<Record<string, string>>, timeoutMs: number): Promise<Exchange> {
    const socket = new WebSocket(url, {
      headers: { ...headers },
      handshakeTimeout: timeoutMs,
      maxPayload: MAX_BYTES,
      followRedirects: false,
    });
    const exchange = new Exchange(socket, url, timeoutMs);
    return new Promise((done, fail) => {
      socket.once("open", () => done(exchange));
      socket.once("close", () => fail(exchange.#broken ?? new EnvError(`${url} can't be reached.`)));
    });
  }

  get isOpen(): boolean {
    return this.#socket.readyState === WebSocket.OPEN;
  }

  async ask(message: string): Promise<string> {
    const early = this.#early;
    this.#early = undefined;
    this.#hasAsked = true;
    if (early !== undefined) return early;
    if (this.#broken !== undefined) throw this.#broken;
    if (this.#waiting !== undefined) throw new EnvError(`${this.#url}: one request at a time.`);
    const late = setTimeout(() => {
      this.#break(new EnvError(`${this.#url} gave no answer within ${this.#timeoutMs} ms.`));
    }, this.#timeoutMs);
    try {
      return await new Promise<string>((done, fail) => {
        this.#waiting = { done, fail };
        this.#socket.send(message);
      });
    } finally {
      clearTimeout(late);
      this.#waiting = undefined;
    }
  }

  /** Says a last thing and hangs up. */
  end(last?: string): void {
    if (this.isOpen && last !== undefined) this.#socket.send(last);
    this.#broken ??= new EnvError("The connection is closed: call reset first.");
    this.#socket.close();
    this.#waiting?.fail(this.#broken);
  }

  #hear(said: string): void {
    if (this.#waiting !== undefined) this.#waiting.done(said);
    else if (!this.#hasAsked && this.#early === undefined) this.#early = said;
    else this.#break(new EnvError(`${this.#url} sent an unexpected message: ${said.slice(0, 200)}`));
  }

  #break(error: EnvError): void {
    this.#broken ??= error;
    this.#socket.terminate();
    this.#waiting?.fail(this.#broken);
  }
}
