/**
 * Whitening: advantages of a batch to mean 0 and variance 1 over its sampled tokens, (x − mean) / sqrt(var + 1e-8), var unbiased. A batch
 * whose advantages are all alike comes out as 0.
 */
import { zerosLike } from "./episodes.ts";
import type { TokenRow } from "./tokens.ts";

export function whiten(rows: readonly TokenRow[], advantages: readonly Float32Array[]): Float32Array[] {
  let count = 0;
  let sum = 0;
  forEachSampled(rows, (r, i) => {
    count += 1;
    sum += (advantages[r] as Float32Array)[i] as number;
  });
  const mean = count === 0 ? 0 : sum / count;
  let squares = 0;
  forEachSampled(rows, (r, i) => {
    squares += (((advantages[r] as Float32Array)[i] as number) - mean) ** 2;
  });
  const scale = 1 / Math.sqrt((count < 2 ? 0 : squares / (count - 1)) + 1e-8);
  const result = zerosLike(rows);
  forEachSampled(rows, (r, i) => {
    (result[r] as Float32Array)[i] = (((advantages[r] as Float32Array)[i] as number) - mean) * scale;
  });
  return result;
}

function forEachSampled(rows: readonly TokenRow[], visit: (row: number, index: number) => void): void {
  rows.forEach(({ sampled }, r) => {
    for (let i = 0; i < sampled.length; i++) if (sampled[i] !== 0) visit(r, i);
  });
}
