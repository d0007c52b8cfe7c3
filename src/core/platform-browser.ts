/** What `platform.ts` gives, in a browser: the same names, the same digests. */
import type * as node from "./platform.ts";
import { digest } from "./sha256.ts";

/** What TypeScript knows only together with the DOM. */
declare const navigator: { readonly hardwareConcurrency?: number };

const sha256: typeof node.sha256 = (...pieces) => {
  const encoder = new TextEncoder();
  return digest(pieces.map((piece) => (typeof piece === "string" ? encoder.encode(piece) : piece)));
};

// A timer would wait 4 ms once it is nested; a message does not.
const waiting: (() => void)[] = [];
const { port1, port2 } = new MessageChannel() as unknown as {
  readonly port1: { onmessage: () => void };
  readonly port2: { postMessage(message: null): void };
};
port1.onmessage = () => waiting.shift()?.();

const soon: typeof node.soon = (work) => {
  waiting.push(work);
  port2.postMessage(null);
};

const coreCount: typeof node.coreCount = () => navigator.hardwareConcurrency ?? 1;
const pathOf: typeof node.pathOf = (file) => decodeURIComponent(file.pathname);
const freshBytes: typeof node.freshBytes = (length) => new Uint8Array(length);
const expectListeners: typeof node.expectListeners = () => {};
const tuneMemory: typeof node.tuneMemory = () => {};

export { coreCount, expectListeners, freshBytes, pathOf, sha256, soon, tuneMemory };
