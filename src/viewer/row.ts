/** From a trajectory's record to its row in lists: small, and all that filters and sorting need. */
import { createHash } from "node:crypto";
import type { TrajectoryRecord } from "../run/trajectories.ts";
import type { TrajectoryRow } from "./api.ts";

/** Names a trajectory in its run. A row that was played again after a crash has the key of the one it replaces. */
export function keyOf({ step, split, temperature, id }: TrajectoryRecord): string {
  return createHash("sha256")
    .update(JSON.stringify([step, split, temperature, id]))
    .digest("hex")
    .slice(0, 12);
}

/** Undefined when the record lacks what a row needs. */
export function rowOf(record: TrajectoryRecord): TrajectoryRow | undefined {
  const { id, step, split, env, seed, group, sibling, temperature, reward, success, end, error, kept, turns } = record;
  const ending = endingOf(record);
  if (typeof id !== "string" || !Array.isArray(turns) || typeof step !== "number" || typeof env !== "string") {
    return undefined;
  }
  const drift = worstDrift(record);
  const sight = turns.map((turn) => turn.sight ?? null);
  const first = turns[0]?.frames[0];
  const last = record.final?.frames[0] ?? turns.at(-1)?.frames[0];
  return {
    key: keyOf(record),
    id,
    step,
    split,
    env,
    seed,
    group,
    sibling,
    temperature,
    reward,
    success,
    end,
    ...(ending !== undefined && { ending }),
    ...(error !== undefined && { error }),
    ...(kept !== undefined && { kept }),
    turns: turns.length,
    parseFailures: turns.filter(({ parsed }) => !parsed).length,
    ...(record.advantage && { advantage: record.advantage.mean }),
    ...(drift !== undefined && { drift }),
    hasTokens: record.tokens !== undefined,
    ...(sight.some((gap) => gap !== null) && { sight }),
    frames: compareHashes(record),
    ...(first !== undefined && { firstFrame: first }),
    ...(last !== undefined && { lastFrame: last }),
  };
}

/** How the world ended it, short: "You fell into a hole." becomes "fell into a hole". Runs of older versions have it as feedback. */
function endingOf({ end, ending, turns }: TrajectoryRecord): string | undefined {
  if (end !== "done") return undefined;
  const told = ending ?? turns.at(-1)?.feedback;
  const last = told
    ?.trim()
    .split(/(?<=[.!?])\s+/)
    .at(-1);
  const short = last?.replace(/^You /, "").replace(/[.!]$/, "").slice(0, MAX_ENDING);
  return short === "" ? undefined : short;
}
const MAX_ENDING = 60;

function worstDrift({ tokens = [] }: TrajectoryRecord): number | undefined {
  let worst: number | undefined;
  for (const { kinds, samplerLogprobs, learnerLogprobs, updatesBefore = 0 } of tokens) {
    if (learnerLogprobs === undefined || updatesBefore > 0) continue;
    for (let i = 0; i < kinds.length; i++) {
      const [sampler, learner] = [samplerLogprobs[i], learnerLogprobs[i]];
      if (kinds[i] !== "s" || typeof sampler !== "number" || typeof learner !== "number") continue;
      worst = Math.max(worst ?? 0, Math.abs(learner - sampler));
    }
  }
  return worst;
}

/** A frame agrees when the sampler was given one that was rendered for it, and the learner was given the same. */
function compareHashes({ turns, tokens = [] }: TrajectoryRecord): TrajectoryRow["frames"] {
  const rendered = new Set(turns.flatMap(({ frames, modelFrames = [] }) => [...frames, ...modelFrames]));
  const images = tokens.flatMap((sequence) => sequence.images);
  const differs = images.filter(
    ({ hash, learnerHash }) => !rendered.has(hash) || (learnerHash !== undefined && learnerHash !== hash),
  );
  return { checked: images.length, mismatched: differs.length };
}
