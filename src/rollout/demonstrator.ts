/**
 * Demonstrations of a program that brings its own loop: its oracle answers in the model's place, through the same endpoint and the same conversations, so a warm start
 * sees the very sequences that reinforcement learning will.
 */
import { ConfigError, EnvError } from "../core/errors.ts";
import { NumpyRandom } from "../core/random-numpy.ts";
import { mixSeed } from "../core/seed.ts";
import type { Sampler } from "../engine/engine.ts";
import type { Env } from "../envs/env.ts";
import type { ChatModel } from "../model/chat.ts";
import { Conversations } from "./conversations.ts";
import { playDriven } from "./drive.ts";
import type { EpisodeRequest } from "./episode.ts";
import { isOurFault, type Sequence } from "./trajectory.ts";

export type DemonstrationOptions = {
  readonly contextTokens?: number;
  /** How often the random agent answers in the oracle's place. */
  readonly noise?: number;
};

/** The sequences of an episode that its oracle plays. Throws where the program fails. */
export async function demonstrate(
  name: string,
  env: Env,
  seed: number,
  model: ChatModel,
  { contextTokens = model.maxPositions, noise = 0 }: DemonstrationOptions = {},
): Promise<readonly Sequence[]> {
  const { driver } = env;
  if (driver === undefined) throw new EnvError(`${name} is not a program.`);
  const random = new NumpyRandom(mixSeed("demo", seed));
  const conversations = new Conversations({
    ...{ model, contextTokens, sampler: SILENT, temperature: 1, maxTokens: contextTokens, name: "demo", seed: [seed] },
  });
  const episode = {
    name,
    env,
    seed,
    agent: {
      temperature: 1,
      reply: () => Promise.reject(new EnvError("A demonstration of a program has no turns to reply to.")),
      converse: () => ({
        ...{ kind: "tokens", conversations, model, maxTokens: contextTokens, clientLimits: "exclude" },
        async recite(messages) {
          const slips = noise > 0 && random.random() < noise;
          const asked = { seed, draw: random.integers(0, 2 ** 31), messages };
          const said = await driver.reply?.(slips ? "random" : "oracle", asked);
          if (said === undefined) throw new ConfigError(noOracle(name));
          return model.renderer.reply(said);
        },
      }),
      sequences: () => conversations.sequences(),
    },
  } satisfies EpisodeRequest;
  const trajectory = await playDriven(episode, driver);
  if (isOurFault(trajectory) || trajectory.end !== "done") {
    throw new EnvError(`The demonstration of ${name}, seed ${seed}, failed: ${trajectory.error ?? trajectory.end}`);
  }
  return trajectory.sequences;
}

export function noOracle(name: string): string {
  return `${name} has no oracle(request), which answers in the model's place, so a warm start can't play it: give defineAgent one, or name recorded episodes in warmStart.files.`;
}

/** Nothing is sampled. */
const SILENT: Sampler = {
  version: 0,
  sample: () => Promise.reject(new EnvError("A demonstration samples nothing.")),
  score: () => Promise.reject(new EnvError("A demonstration has no log-probabilities.")),
  release() {},
  async close() {},
};
