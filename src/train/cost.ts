/** What a run costs at an engine that is paid for by the token: a bound before it, the count after it. */
import type { Bill, Capabilities, Tokens } from "../engine/engine.ts";
import { listEnvs } from "../envs/registry.ts";
import type { Recipe } from "./recipe.ts";

/** Where an environment does not say how long its episodes may be. */
const USUAL_TURNS = 20;

/** As if every episode filled its context and met its last turn. */
export async function mostTokens(
  recipe: Recipe,
  { exactLogprobs }: Pick<Capabilities, "exactLogprobs">,
  warm: number,
): Promise<Tokens> {
  const { steps, groups, siblings, epochs, evaluate, sight, sampling, refill, refillLimit } = recipe;
  const { contextTokens, maxTokens } = sampling;
  const turns = Math.max(1, ...(await Promise.all(recipe.envs.map(turnsOf))));
  const played = steps * groups * siblings * (refill ? refillLimit : 1);
  const scorings = Number(!exactLogprobs || recipe.correction !== undefined) + Number(recipe.kl !== undefined);
  const seeds = evaluate.seeds[1] - evaluate.seeds[0] + 1;
  const evaluations = evaluate.every > 0 ? Math.ceil(steps / evaluate.every) + Number(evaluate.before) : 0;
  const watched = evaluations * seeds * (evaluate.repeats + Number(evaluate.greedy));
  // With frames, with grey ones, and scored with its own and another's.
  const probes = sight.every > 0 ? (Math.ceil(steps / sight.every) + 1) * sight.episodes : 0;
  const episodes = played + watched + 2 * probes;
  return {
    prefill: contextTokens * (episodes * turns + played * scorings + 2 * probes),
    sample: episodes * Math.min(turns * maxTokens, contextTokens),
    train: contextTokens * (played * epochs + warm * (recipe.warmStart?.batch ?? 0)),
  };
}

export function billed(words: string, tokens: Tokens, bill: Bill): string {
  const cost = bill.cost(tokens);
  const million = (count: number) => (count / 1e6).toPrecision(3);
  const counts = `${million(tokens.prefill)} M prefill, ${million(tokens.sample)} M sampled and ${million(tokens.train)} M training tokens`;
  return `${words} ${counts}${cost === undefined ? " (set engine.prices to see dollars)" : `: $${cost.toFixed(2)}`}.`;
}

async function turnsOf(source: Recipe["envs"][number]): Promise<number> {
  if (!("env" in source)) return USUAL_TURNS;
  const own = source.options.maxTurns;
  if (typeof own === "number") return own;
  return (await listEnvs()).find(({ id }) => id === source.env)?.maxTurns ?? USUAL_TURNS;
}
