/**
 * What the rooms below `train` need of the machine they run on, as Node gives it. In a browser `platform-browser.ts` takes this file's place (the
 * bundler of `/lab` swaps them), so both export the same names. Everything else that needs Node (files, processes, servers) is in files
 * that a page never reaches.
 */
import { createHash } from "node:crypto";
import { setMaxListeners } from "node:events";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { setFlagsFromString } from "node:v8";

/** The SHA-256 digest of these pieces, one after the other. */
export function sha256(...pieces: readonly (string | Uint8Array)[]): Uint8Array {
  const hash = createHash("sha256");
  for (const piece of pieces) hash.update(piece);
  return hash.digest();
}

/** Runs after what already waits for its turn, messages included. */
export function soon(work: () => void): void {
  setImmediate(work);
}

/** How many threads run at once. */
export function coreCount(): number {
  return availableParallelism();
}

/** A file's URL as this system writes its path. */
export function pathOf(file: URL): string {
  return fileURLToPath(file);
}

/** Memory with anything in it, every byte of which is to be written: `new Uint8Array` would write large frames twice. */
export function freshBytes(length: number): Uint8Array {
  return new Uint8Array(Buffer.allocUnsafeSlow(length).buffer);
}

/** Many may listen to this signal: no warning. */
export function expectListeners(signal: AbortSignal): void {
  setMaxListeners(0, signal);
}

/** Makes large, short-lived frames cheap; once for each thread that draws. */
export function tuneMemory(): void {
  // V8 looks through the young objects after every 32 MB of frames and frees those frames on another thread. Where that thread comes too late (a busy machine,
  // one core) there are 64 MB, and V8 looks through the whole heap instead, time and again: drawing then takes two to three times as long. Freed at once, they never add up.
  setFlagsFromString("--no-concurrent-array-buffer-sweeping");
  // glibc hands freed frames back to the system, and page faults then cost more than the pixels, until it has once freed a
  // block of this size: from then on it keeps up to twice as much. The block is never touched, so it costs no memory, and nobody holds it.
  Buffer.alloc(31 * 1024 * 1024);
}
