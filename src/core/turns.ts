/**
 * Turns on the main thread. Work that takes milliseconds waits for its turn: there is one per round of the event loop, so that short requests are
 * answered in between, however many long ones arrive at once. (`setImmediate` alone lets all that wait run in the same round.)
 */
import { setImmediate } from "node:timers/promises";

/** Milliseconds of work in one turn. */
const MAX_TURN_MS = 10;

let last: Promise<void> = Promise.resolve();

/** Resolves in a round of the event loop in which no other turn begins. */
export function turn(): Promise<void> {
  last = last.then(() => setImmediate());
  return last;
}

/** For loops: `rest` gives the turn up when enough work was done in it. */
export class Pace {
  #since = performance.now();

  async rest(): Promise<void> {
    if (performance.now() - this.#since < MAX_TURN_MS) return;
    await turn();
    this.#since = performance.now();
  }
}
