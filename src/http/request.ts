/**
 * What a handler sees of a request. A `Request` of the web's is one; what the server hands over is lighter, since Node's takes longer to make and
 * to read than a small answer takes to compute.
 */
export type HttpRequest = {
  readonly method: string;
  /** Only its path and query mean something: who was asked for is in the Host header, where a guard checks it. */
  readonly url: string;
  readonly headers: { get(name: string): string | null };
  /** Aborted when the client leaves before it has its answer. */
  readonly signal: AbortSignal;
  readonly body: AsyncIterable<Uint8Array> | null;
  /** Calls it once the answer is out or the client has left: what the request held can be given back. A `Request` of the web's has no end. */
  readonly onEnd?: (then: () => void) => void;
};
