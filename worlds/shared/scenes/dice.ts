/**
 * Quick random numbers for images: thirty-two bits at a time, made of integer operations alone. Every part of a scene
 * rolls dice of its own (`fork`), so that a change to the trees leaves the houses where they were.
 */
import { seedWords } from "../../../src/core/index.ts";

/** A well-mixed 32-bit number from up to three whole numbers. */
export function hash32(a: number, b = 0, c = 0): number {
  let h = Math.imul(a ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(b ^ (b >>> 15), 0xc2b2ae35) ^ Math.imul(c, 0x27d4eb2f);
  h = Math.imul(h ^ (h >>> 15), 0x2c1b3c6d);
  h = Math.imul(h ^ (h >>> 12), 0x297a2d39);
  return (h ^ (h >>> 15)) >>> 0;
}

export class Dice {
  readonly #key: number;
  #state: number;

  constructor(seed: number, label = "") {
    const [low = 0, high = 0] = seedWords(seed);
    let key = hash32(low | 0, high | 0, 0x5acade);
    for (let i = 0; i < label.length; i++) key = hash32(key, label.charCodeAt(i), i);
    this.#key = key;
    this.#state = key;
  }

  /** Other dice that depend on this one's seed and the label, not on what was rolled before. */
  fork(label: string): Dice {
    return new Dice(this.#key, label);
  }

  /** A real in [0, 1). */
  roll(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    return hash32(this.#state, this.#key) / 0x1_0000_0000;
  }

  between(low: number, high: number): number {
    return low + (high - low) * this.roll();
  }

  /** A whole number in `low..high`, both included. */
  whole(low: number, high: number): number {
    return low + Math.floor(this.roll() * (high - low + 1));
  }

  chance(probability: number): boolean {
    return this.roll() < probability;
  }

  sign(): number {
    return this.roll() < 0.5 ? -1 : 1;
  }

  pick<const T>(items: readonly T[]): T {
    return items[Math.floor(this.roll() * items.length)] as T;
  }

  shuffle<T>(items: readonly T[]): T[] {
    const out = [...items];
    for (let i = out.length - 1; i > 0; i--) {
      const j = this.whole(0, i);
      [out[i], out[j]] = [out[j] as T, out[i] as T];
    }
    return out;
  }
}
