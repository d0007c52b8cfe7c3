/**
 * WebSockets for a server of ours, on the library `ws`. Messages of a connection are answered one after another, in their order. A peer can't fill the
 * memory: messages and what waits of them are bounded, and one that does not read its answers is let go. A peer that no longer answers pings is dropped.
 */
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { type RawData, type WebSocket, WebSocketServer } from "ws";
import { errorMessage } from "../core/errors.ts";

export type Conversation = {
  /** A text message; what it returns is sent. It must not throw. */
  answer(message: Buffer): Promise<string | undefined>;
  /** The connection is over, whoever ended it. */
  close(): void;
};

export type SocketOptions = {
  /** Longest message in bytes. */
  readonly maxBytes: number;
  /** Messages that may wait for their answer. */
  readonly maxWaiting: number;
  readonly maxUnreadBytes: number;
  readonly pingMs: number;
};

const DEFAULTS: SocketOptions = {
  maxBytes: 4 * 1024 * 1024,
  maxWaiting: 64,
  maxUnreadBytes: 64 * 1024 * 1024,
  pingMs: 30_000,
};
/** Codes of RFC 6455. */
const GOING_AWAY = 1001;
const UNSUPPORTED = 1003;
const POLICY = 1008;

export class Sockets {
  readonly #options: SocketOptions;
  readonly #server: WebSocketServer;

  constructor(options: Partial<SocketOptions> = {}) {
    this.#options = { ...DEFAULTS, ...options };
    const { maxBytes: maxPayload } = this.#options;
    this.#server = new WebSocketServer({ noServer: true, maxPayload, perMessageDeflate: false });
  }

  /** Takes a connection over that asked for it. */
  accept(incoming: IncomingMessage, socket: Duplex, head: Buffer, open: () => Conversation): void {
    this.#server.handleUpgrade(incoming, socket, head, (peer) => this.#talk(peer, open()));
  }

  close(): void {
    for (const peer of this.#server.clients) {
      peer.close(GOING_AWAY);
      peer.terminate();
    }
    this.#server.close();
  }

  #talk(peer: WebSocket, conversation: Conversation): void {
    const { maxWaiting, maxUnreadBytes, pingMs } = this.#options;
    let waiting = 0;
    let last = Promise.resolve();
    let isThere = true;
    const ping = setInterval(() => {
      if (!isThere) return peer.terminate();
      isThere = false;
      peer.ping();
    }, pingMs).unref();
    const take = async (message: Buffer) => {
      const said = await conversation.answer(message).catch((error: unknown) => {
        peer.close(POLICY, errorMessage(error).slice(0, 100));
        return undefined;
      });
      waiting -= 1;
      if (said === undefined || peer.readyState !== peer.OPEN) return;
      if (peer.bufferedAmount > maxUnreadBytes) peer.terminate();
      else peer.send(said);
    };
    peer.on("pong", () => {
      isThere = true;
    });
    peer.on("message", (data: RawData, isBinary: boolean) => {
      isThere = true;
      if (isBinary) return peer.close(UNSUPPORTED, "Send text.");
      if (waiting >= maxWaiting) return peer.close(POLICY, "Too many messages wait for an answer.");
      waiting += 1;
      last = last.then(() => take(data as Buffer));
    });
    // A message that is too long or no frame at all; `close` follows.
    peer.on("error", () => {});
    peer.on("close", () => {
      clearInterval(ping);
      // After the answer under way: the conversation is never ended in the middle of one.
      last = last.then(() => conversation.close());
    });
  }
}
