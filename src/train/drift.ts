/**
 * Drift: how far the learner's log-probabilities are from those the sampler drew with, per turn. On the native engine, on policy, it is exactly 0; anything
 * else says that what is trained is not what was played.
 */
import type { Sequence } from "../rollout/trajectory.ts";
import type { TokenRow } from "./tokens.ts";

export type DriftReport = { readonly metrics: Record<string, number>; readonly byTurn: readonly number[] };

/** `outputs` are the learner's, aligned to predictions. */
export function driftOf(
  lines: readonly { readonly row: TokenRow; readonly sequence: Sequence }[],
  outputs: readonly Float32Array[],
): DriftReport {
  const byTurn: number[] = [];
  let sum = 0;
  let count = 0;
  let max = 0;
  lines.forEach(({ row, sequence }, k) => {
    const output = outputs[k] as Float32Array;
    for (let i = 1; i < sequence.ids.length; i++) {
      const turn = row.turns[i] as number;
      if (turn < 0) continue;
      const gap = Math.abs((output[i - 1] as number) - (sequence.samplerLogprobs[i] as number));
      byTurn[turn] = Math.max(byTurn[turn] ?? 0, gap);
      max = Math.max(max, gap);
      sum += gap;
      count += 1;
    }
  });
  const metrics: Record<string, number> = { "drift/max": max, "drift/mean": count === 0 ? 0 : sum / count };
  byTurn.forEach((gap, turn) => {
    metrics[`drift/turn/${turn}`] = gap;
  });
  return { metrics, byTurn };
}
