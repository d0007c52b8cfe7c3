/**
 * The whole algorithm in one file: a tiny Qwen3-VL, made here, learns to cross a frozen lake that it sees. First it imitates noisy play, then it learns from
 * reward alone (GRPO). The trainer behind `saccade train` does the same with many more episodes at a time, checkpoints, evaluations and alarms.
 *
 *   npx jiti examples/loop.ts                  a few minutes
 *   npx jiti examples/loop.ts 2 1 2 4          demonstration batches, steps, groups, siblings
 */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  createFolder,
  type Datum,
  type Learner,
  type Message,
  makeWorldEnv,
  mixSeed,
  openEngine,
  playDemo,
  type Sampler,
  type Sequence,
  sumRewards,
  TokenLedger,
  textOf,
  type WorldEnv,
} from "saccade";

const [demoBatches = 200, steps = 30, groups = 16, siblings = 8] = process.argv.slice(2).map(Number);
const LAKE = { minSteps: 3, cellSize: 32, protocol: "keyword", prompt: "brief", feedback: false, maxTurns: 8 } as const;
const CONTEXT = 512;

// A model is a Hugging Face folder; an engine opens it. The learner has the weights, a sampler is a snapshot of them.
const path = join(mkdtempSync(join(tmpdir(), "saccade-loop-")), "model");
await createFolder(path, { preset: "nano", seed: 0 });
const engine = await openEngine("native");
const { renderer, imageToken, visionIds, generation } = await engine.chat(path);
const learner: Learner = await engine.learner({ folder: path, seed: 0 });

/** The one truth of an episode: the ids that were given and those that were sampled, in the order they came. */
const newLedger = () => new TokenLedger({ contextTokens: CONTEXT, imageToken, visionIds });

// 1. Warm start: imitate an oracle that plays a random move in 40 % of turns. It knows the way and does not always take it.
const teacher = await makeWorldEnv("frozen_lake", LAKE);
for (let batch = 0; batch < demoBatches; batch++) {
  const sequences: Sequence[] = [];
  for (let i = 0; i < 32; i++) {
    const seed = mixSeed("demo", batch, i);
    const { messages } = await playDemo("frozen_lake", teacher, seed, {}, { probability: 0.4, labels: "played" });
    sequences.push(await demonstration(messages));
  }
  const tokens = sequences.reduce((sum, { sampled }) => sum + count(sampled), 0);
  const data = sequences.map((sequence) => datum(sequence, 1 / tokens, 1));
  const { loss } = await learner.forwardBackward(data, { name: "cross-entropy" });
  await learner.step({ name: "muon", learningRate: 0.01, adamLearningRate: 0.003, maxGradNorm: 1 });
  if ((batch + 1) % 20 === 0 || batch + 1 === demoBatches)
    print(`demonstrations ${batch + 1}: loss ${loss.toFixed(3)}`);
}

// Moments of imitation say nothing about rewards.
await learner.freshOptimizer();

// 2. Reinforcement learning: siblings of one seed play the same lake, and each is compared with the others.
for (let step = 0; step < steps; step++) {
  const sampler = await learner.publish();
  const played = await Promise.all(
    Array.from({ length: groups }, (_, group) =>
      Promise.all(
        Array.from({ length: siblings }, (_, sibling) => play(sampler, mixSeed("lake", step, group), sibling)),
      ),
    ),
  );
  await sampler.close();
  const episodes = played.flat();

  // GRPO: the advantage of an episode is its reward against its siblings', in standard deviations. Equal siblings teach nothing.
  const advantages = played.flatMap((group) => {
    const mean = group.reduce((sum, { reward }) => sum + reward, 0) / group.length;
    const variance = group.reduce((sum, { reward }) => sum + (reward - mean) ** 2, 0) / (group.length - 1);
    return group.map(({ reward }) => (reward - mean) / (Math.sqrt(variance) + 1e-6));
  });
  const tokens = episodes.reduce((sum, { sequence }) => sum + count(sequence.sampled), 0);
  const data = episodes.map(({ sequence }, i) => datum(sequence, 1 / tokens, advantages[i] as number));
  const { outputs } = await learner.forwardBackward(data, { name: "ppo", clipLow: 0.8, clipHigh: 1.28 });
  if (advantages.some((advantage) => advantage !== 0)) {
    await learner.step({ name: "muon", learningRate: 0.001, adamLearningRate: 0.0002, maxGradNorm: 1 });
  } else learner.discard();
  const success = episodes.filter(({ reward }) => reward > 0).length / episodes.length;
  print(`step ${step + 1}: success ${success.toFixed(3)}, tokens ${tokens}, drift ${drift(data, outputs)}`);
}
await engine.close();

/** One episode: render what is new, sample a reply, step the environment, until it is over. Only sampled ids will carry loss. */
async function play(sampler: Sampler, seed: number, sibling: number): Promise<{ sequence: Sequence; reward: number }> {
  const env: WorldEnv = await makeWorldEnv("frozen_lake", LAKE);
  const ledger = newLedger();
  const sequence = `${seed}/${sibling}`;
  let reward = 0;
  let given = await renderer.prompt(await env.reset(seed));
  for (let turn = 0; ledger.room > given.ids.length; turn++) {
    ledger.give(given);
    const sample = await sampler.sample(
      ledger.prompt(),
      {
        maxTokens: Math.min(12, ledger.room),
        temperature: 1,
        seed: mixSeed(seed, sibling, turn),
        stopIds: generation.eos,
      },
      { sequence },
    );
    ledger.sample(sample, turn);
    const step = await env.step(renderer.decode(sample.ids).text);
    reward += sumRewards(step.rewards);
    if (step.terminated || step.truncated) break;
    given = await renderer.delta(step.observation, { ended: sample.ids.at(-1) === renderer.endOfTurn });
  }
  sampler.release(sequence);
  return { sequence: ledger.sequence(), reward };
}

/** A conversation as a sequence, through the same ledger; what the assistant says counts as sampled. */
async function demonstration(messages: readonly Message[]): Promise<Sequence> {
  const ledger = newLedger();
  let given: Message[] = [];
  let turn = 0;
  for (const message of messages) {
    if (message.role !== "assistant") {
      given.push(message);
      continue;
    }
    ledger.give(await (turn === 0 ? renderer.prompt(given) : renderer.delta(given, { ended: true })));
    const ids = await renderer.reply(textOf(message));
    ledger.sample({ ids, logprobs: new Float32Array(ids.length), stopReason: "stop", version: 0 }, turn++);
    given = [];
  }
  return ledger.sequence();
}

/** What the learner trains on: position i predicts id i + 1, so everything moves one place to the left. */
function datum(
  { ids, images, sampled, samplerLogprobs: logprobs }: Sequence,
  weight: number,
  advantage: number,
): Datum {
  const trained = Uint8Array.from(ids, (_, i) => sampled[i + 1] ?? 0);
  return {
    input: { ids, images },
    targets: Int32Array.from(trained, (flag, i) => (flag === 1 ? (ids[i + 1] as number) : -1)),
    weights: Float32Array.from(trained, (flag) => flag * weight),
    advantages: Float32Array.from(trained, (flag) => flag * advantage),
    oldLogprobs: Float32Array.from(trained, (flag, i) => (flag === 1 ? (logprobs[i + 1] as number) : 0)),
    temperature: 1,
  };
}

/** The largest difference between what the sampler drew with and what the learner saw. Here it is 0, to the bit. */
function drift(data: readonly Datum[], outputs: readonly Float32Array[]): number {
  return Math.max(
    ...data.flatMap(({ targets, oldLogprobs = [] }, k) =>
      [...targets].map((id, i) =>
        id < 0 ? 0 : Math.abs((outputs[k]?.[i] ?? Number.NaN) - (oldLogprobs[i] as number)),
      ),
    ),
  );
}

function count(flags: Uint8Array): number {
  return flags.reduce((sum, flag) => sum + flag, 0);
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
