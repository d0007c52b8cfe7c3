/**
 * What our models read and write, as text for training a tokenizer: for every registered world and protocol the prompts in
 * both styles, replies of an oracle and of a random player, and what the world answers. The same every time.
 */

import { assistant, type Message, textOf } from "../core/message.ts";
import { NumpyRandom } from "../core/random-numpy.ts";
import { mixSeed } from "../core/seed.ts";
import { listEnvs, makeWorldEnv, protocolNames, type WorldEnv } from "../envs/index.ts";

/** Turns of each episode that are heard. */
const TURNS = 4;

let collected: Promise<readonly string[]> | undefined;

/** Collected once per process. */
export function collectCorpus(): Promise<readonly string[]> {
  collected ??= collect();
  return collected;
}

async function collect(): Promise<readonly string[]> {
  const texts: string[] = [];
  for (const { id, kind } of listEnvs()) {
    if (kind !== "world") continue;
    for (const protocol of protocolNames) {
      for (const prompt of ["full", "brief"] as const) {
        const env = makeWorldEnv(id, { protocol, prompt, observation: prompt === "brief" ? "text" : "image" });
        await listen(env, mixSeed("corpus", id, protocol, prompt), texts);
        await env.close();
      }
    }
  }
  return texts;
}

async function listen(env: WorldEnv, seed: number, texts: string[]): Promise<void> {
  const random = new NumpyRandom(seed);
  const hear = (messages: readonly Message[]) => {
    // The role is encoded together with the first words.
    for (const message of messages) texts.push(`${message.role}\n${textOf(message)}`);
  };
  hear(await env.reset(seed));
  for (let turn = 0; turn < TURNS; turn++) {
    // A random move may have made the episode hopeless: then there is no plan to print.
    const plan = (turn % 2 === 0 ? env.world.solve?.() : undefined) ?? [];
    const { protocol, world } = env;
    const reply =
      plan.length === 0 ? env.randomReply(random) : protocol.print(plan.slice(0, protocol.maxActions), world.actions);
    hear([assistant(reply)]);
    const step = await env.step(reply);
    hear(step.observation);
    if (step.terminated || step.truncated) return;
  }
}
