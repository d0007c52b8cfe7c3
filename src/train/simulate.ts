/**
 * The loop of an asynchronous run, played through with costs instead of models: groups are issued as the trainer issues them (those of step s once version s − 1 − maxStaleness
 * is out), episodes take their turns at samplers that decode a batch at a time, the learner takes whole steps in their order. It says what a step will take, and who waits for whom,
 * before there are machines to try it on.
 */
import { NumpyRandom } from "../core/random-numpy.ts";

/** Seconds, and tokens. */
export type LoopCosts = {
  readonly groups: number;
  readonly siblings: number;
  readonly maxStaleness: number;
  /** Most episodes at a time. */
  readonly live: number;
  /** Turns of an episode, between these, each as likely. */
  readonly turns: readonly [least: number, most: number];
  /** Tokens of a reply. */
  readonly reply: number;
  /** Seconds that an environment takes for a turn. */
  readonly env: number;
  readonly samplers: number;
  /** One decoding step of a sampler: `base` + `each` for every sequence in its batch. */
  readonly decode: { readonly base: number; readonly each: number };
  /** Reading a turn's prompt, in decoding steps that take as long. */
  readonly prefill: number;
  /** One update, all of it, and giving new weights to the samplers. */
  readonly learn: number;
  readonly publish: number;
};

export type LoopReport = {
  /** Seconds of a step, after the first ones. */
  readonly step: number;
  /** Of a step: the learner waits for episodes. */
  readonly wait: number;
  /** Share of the time in which a sampler has anything to do, over all samplers. */
  readonly busy: number;
};

type Episode = { turnsLeft: number; readonly sampler: number; readonly step: number };
type Sampler = { readonly active: Map<Episode, number>; at: number; busy: number };

/** `steps` steps; the same costs and seed give the same report. */
export function simulateLoop(costs: LoopCosts, steps = 24, seed = 0): LoopReport {
  const random = new NumpyRandom(seed);
  const samplers: Sampler[] = Array.from({ length: costs.samplers }, () => ({ active: new Map(), at: 0, busy: 0 }));
  /** Episodes that wait for a place, then for their environment: [ready, episode]. */
  const waiting: Episode[] = [];
  let away: [number, Episode][] = [];
  const left = new Array<number>(steps).fill(costs.groups * costs.siblings);
  let [now, live, issued, next] = [0, 0, 0, 0];
  const ends: number[] = [];
  const waits: number[] = [];
  let learning: { until: number; waited: number } | undefined;
  let idleSince = 0;
  const issue = () => {
    for (let i = 0; i < costs.groups * costs.siblings; i++) {
      const turns = random.integers(costs.turns[0], costs.turns[1] + 1);
      waiting.push({ turnsLeft: turns, sampler: (issued + i) % costs.samplers, step: issued });
    }
    issued++;
  };
  for (let step = 0; step <= Math.min(costs.maxStaleness, steps - 1); step++) issue();
  while (ends.length < steps) {
    // Whatever can happen now, happens.
    while (waiting.length > 0 && live < costs.live) {
      away.push([now + costs.env, waiting.shift() as Episode]);
      live++;
    }
    const ready = away.filter(([at]) => at <= now);
    away = away.filter(([at]) => at > now);
    for (const [, episode] of ready) {
      if (episode.turnsLeft > 0) samplers[episode.sampler]?.active.set(episode, costs.reply + costs.prefill);
      else {
        left[episode.step] = (left[episode.step] ?? 0) - 1;
        live--;
      }
    }
    if (ready.some(([, { turnsLeft }]) => turnsLeft === 0)) continue;
    if (learning !== undefined && learning.until <= now) {
      ends.push(now);
      waits.push(learning.waited);
      learning = undefined;
      idleSince = now;
      if (issued < steps) issue();
      continue;
    }
    if (learning === undefined && left[next] === 0) {
      learning = { until: now + costs.learn + costs.publish, waited: now - idleSince };
      next++;
    }
    // Until the next thing happens, samplers decode at the pace of their batches.
    const moments = [...away.map(([at]) => at), ...(learning ? [learning.until] : [])];
    for (const { active } of samplers)
      if (active.size > 0) moments.push(now + Math.min(...active.values()) * pace(costs, active.size));
    const then = Math.min(...moments);
    for (const sampler of samplers) {
      const count = sampler.active.size;
      if (count === 0) continue;
      sampler.busy += then - now;
      const done = (then - now) / pace(costs, count);
      for (const [episode, tokens] of sampler.active) {
        if (tokens - done > 1e-9) {
          sampler.active.set(episode, tokens - done);
          continue;
        }
        sampler.active.delete(episode);
        episode.turnsLeft--;
        away.push([then + costs.env, episode]);
      }
    }
    now = then;
  }
  // The first steps fill the pipe.
  const from = Math.min(costs.maxStaleness + 1, steps - 1);
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const step = from === 0 ? now : (now - (ends[from - 1] as number)) / (steps - from);
  return {
    step,
    wait: mean(waits.slice(from)),
    busy: mean(samplers.map(({ busy }) => busy)) / now,
  };
}

/** The fewest samplers with which the learner waits for at most `share` of a step; undefined where no number up to `most` does. */
export function samplersNeeded(costs: LoopCosts, share = 0.1, most = 256): number | undefined {
  for (let samplers = 1; samplers <= most; samplers++) {
    const { step, wait } = simulateLoop({ ...costs, samplers });
    if (wait <= share * step) return samplers;
  }
  return undefined;
}

function pace({ decode }: LoopCosts, count: number): number {
  return decode.base + decode.each * count;
}

/**
 * The costs of a run that was made, from its logged steps: all is measured but the pace of its sampler, which is set so that playing the run through again with that
 * one sampler takes the step that it took. `share`: how much slower a decoding step is for each further sequence, as a share of the first.
 */
export function costsOfRun(
  steps: readonly Readonly<Record<string, number>>[],
  recipe: Pick<LoopCosts, "groups" | "siblings" | "maxStaleness" | "live">,
  env: number,
  share = 0.02,
): LoopCosts {
  // The first steps fill the pipe.
  const settled = steps.slice(Math.min(recipe.maxStaleness + 1, steps.length - 1));
  const of = (name: string) =>
    settled.reduce((sum, metrics) => sum + (metrics[name] ?? 0), 0) / Math.max(1, settled.length);
  const turns = Math.max(1, of("train/turns"));
  const spread: [number, number] = [Math.max(1, Math.floor(turns)), Math.max(1, Math.ceil(turns))];
  const measured = of("time/step");
  const [learn, publish] = [of("time/learn") + Math.max(0, of("time/other")), of("time/publish")];
  const fixed = { ...recipe, turns: spread, reply: Math.max(1, of("train/reply_tokens")), env, learn, publish };
  const at = (base: number): LoopCosts => ({ ...fixed, samplers: 1, prefill: 1, decode: { base, each: share * base } });
  let [low, high] = [0, measured];
  for (let i = 0; i < 30; i++) {
    const middle = (low + high) / 2;
    if (simulateLoop(at(middle), 12).step < measured) low = middle;
    else high = middle;
  }
  return at(high);
}
