/**
 * One step of training beside TRL's GRPOTrainer on this machine's CPU: the same weights (a Qwen3-VL folder that both load), rollouts, turns,
 * ids, images and threads; AdamW, one update a step. TRL runs twice: as it comes, and without two defaults that cost time on a CPU. `npm run bench -- train [rows …]`; rows: one, four, env1, env3, env6. BENCH_ROUNDS is
 * how many steps each side makes, in turns (5), BENCH_THREADS how many threads each has (2). Our step is what the trainer does: publish,
 * play groups through the rollout, update. Without Python and TRL only our own figures are printed.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { update } from "../src/train/update.ts";
import { maskedIds, noiseImage } from "./engine-data.ts";
import { Peer, ratio, table } from "./peer.ts";
import {
  chatModel,
  createFolder,
  defineEnv,
  EnvHost,
  Image,
  image,
  kernelInfo,
  type Learner,
  loadFolder,
  type ModelFolder,
  NativeEngine,
  parameterCount,
  playGroups,
  register,
  resolveRecipe,
  text,
  tokenAgent,
  user,
} from "./saccade.ts";

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5);
/** Steps before anything is timed: JavaScript is compiled while it runs, which takes a few; a run has hundreds. */
const [WARMUP, PEER_WARMUP] = [15, 2];
const THREADS = Number(process.env.BENCH_THREADS ?? 2);
const TOKENS = 32;
const SIBLINGS = 8;
const PROMPT = "Look at the image and say where to go.";

/** `turns`: tool turns of an environment that answers each with a frame; 0: one reply to `images` frames. */
type Shape = { readonly rollouts: number; readonly images: number; readonly turns: number; readonly what: string };
const SHAPES: Readonly<Record<string, Shape>> = {
  one: { rollouts: 64, images: 1, turns: 0, what: "64 single-turn rollouts, one image" },
  four: { rollouts: 64, images: 4, turns: 0, what: "64 single-turn rollouts, four images" },
  env1: { rollouts: 16, images: 1, turns: 1, what: "16 rollouts, 1 tool turn" },
  env3: { rollouts: 16, images: 1, turns: 3, what: "16 rollouts, 3 tool turns" },
  env6: { rollouts: 16, images: 1, turns: 6, what: "16 rollouts, 6 tool turns" },
};

const noise = noiseImage(0, 64);
let frames = 0;
/** A frame that nobody has seen before. Drawing it costs nothing: no environment is measured here. */
function newFrame() {
  const data = noise.data.slice();
  new DataView(data.buffer).setUint32(0, frames++);
  return image(new Image(64, 64, data));
}

/** Siblings share the frames of a single-turn prompt; episodes of an environment see frames of their own, which is the harder case for us. */
const prompts = new Map<number, ReturnType<typeof newFrame>[]>();
const walk = defineEnv({
  id: "bench_walk",
  options: z.strictObject({ turns: z.int().default(0), images: z.int().default(1) }),
  create({ turns, images }) {
    let turn = 0;
    return {
      reset(seed) {
        turn = 0;
        if (turns > 0) return [user(text(PROMPT), newFrame())];
        const frames = prompts.get(seed) ?? Array.from({ length: images }, newFrame);
        prompts.set(seed, frames);
        return [user(...frames, text(PROMPT))];
      },
      step() {
        const over = turn++ >= turns;
        const rewards = [{ name: "task", value: over ? Math.random() : 0 }];
        return {
          observation: over ? [] : [{ role: "tool", content: [newFrame(), text("You moved. Move again.")] }],
          rewards,
          terminated: over,
          truncated: false,
          info: { actions: [], parsed: true, wellFormed: true, valid: true },
        };
      },
    };
  },
});

/** Our side of a row: every call makes one step and says what it cost. */
function stepper(engine: NativeEngine, learner: Learner, folder: ModelFolder, { rollouts, images, turns }: Shape) {
  const env = { id: "bench_walk", options: { turns, images } };
  const groups = rollouts / SIBLINGS;
  const recipe = resolveRecipe({
    name: "bench",
    model: folder.path,
    envs: [{ env: env.id, options: env.options }],
    steps: 1000,
    groups,
    siblings: SIBLINGS,
    optimizer: { learningRate: 1e-4 },
    loss: { name: "ppo", clipLow: 0.8, clipHigh: 1.2 },
  });
  const host = new EnvHost("inline");
  let steps = 0;
  return async () => {
    const [before, cpu] = [engine.stats(), process.cpuUsage()];
    const start = performance.now();
    const sampler = await learner.publish();
    const agent = tokenAgent({
      // Nothing ends a reply early, as with the peer.
      model: { ...chatModel(folder), generation: { eos: [] } },
      sampler: () => sampler,
      temperature: 1,
      maxTokens: TOKENS,
    });
    const requests = Array.from({ length: groups }, (_, i) => ({ env, seed: steps * groups + i, siblings: SIBLINGS }));
    const trajectories = [];
    for await (const group of playGroups(requests, { agent, host, samplingSeed: steps, live: rollouts })) {
      trajectories.push(...group.trajectories);
    }
    steps += 1;
    const sampled = performance.now();
    const { metrics } = await update({ policy: learner, exact: true }, trajectories, recipe, steps, 0);
    await sampler.close();
    const end = performance.now();
    const used = process.cpuUsage(cpu);
    prompts.clear();
    const after = engine.stats();
    const ids = trajectories.flatMap(({ sequences }) => sequences.map(({ sampled }) => sampled.filter(Boolean).length));
    if (trajectories.length !== rollouts || ids.some((count) => count !== TOKENS * (turns + 1))) {
      throw new Error("A rollout did not have the turns and ids it should have.");
    }
    if (metrics["groups/trained"] !== groups || metrics["optimizer/updates"] !== 1) throw new Error("No update.");
    return {
      ms: end - start,
      cpu: (used.user + used.system) / 1000,
      sampling: sampled - start,
      encoded: after.encoded - before.encoded,
      distinct: after.distinctFrames - before.distinctFrames,
      length: Math.max(...trajectories.flatMap(({ sequences }) => sequences.map(({ ids }) => ids.length))),
    };
  };
}

type PeerStep = { ms: number; cpu: number; sampling: number; learning: number; length: number };

function missing(): string | undefined {
  const { status, stderr } = spawnSync(process.env.PYTHON ?? "python3", ["-c", "from trl import GRPOTrainer"], {
    encoding: "utf8",
  });
  return status === 0 ? undefined : (stderr?.trim().split("\n").at(-1) ?? "python3 is not there");
}

const median = (values: readonly number[]) => {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
};
const seconds = (values: readonly number[]) => (median(values) / 1000).toFixed(3);

const asked = process.argv.slice(3);
const unknown = asked.filter((name) => !Object.hasOwn(SHAPES, name));
if (unknown.length > 0) throw new Error(`no row ${unknown.join(", ")}; there are ${Object.keys(SHAPES).join(", ")}`);

const scratch = mkdtempSync(join(tmpdir(), "saccade-bench-"));
const engine = new NativeEngine({ threads: THREADS });
try {
  const path = join(scratch, "nano");
  const parameters = parameterCount(await createFolder(path, { preset: "nano" }));
  const folder = await loadFolder(path);
  // Not before: a fresh tokenizer learns from the environments there are.
  register(walk);
  const { name, isa } = await kernelInfo();
  const why = missing();
  const [load = 0] = loadavg();
  console.log(
    `${cpus()[0]?.model.trim()}, ${cpus().length} cores; Node ${process.versions.node}; kernels: ${name}, ${isa}; ${THREADS} threads a side.`,
  );
  if (why !== undefined) console.log(`No peer (${why}): only our own figures. pip install trl==1.13.0 datasets.`);
  if (load > 0.5) {
    console.log(
      `The machine is busy (load ${load.toFixed(1)}): PyTorch's threads spin while they wait for each other, so TRL looks far slower than it is. Measure on a quiet one.`,
    );
  }
  const rows: (string | number)[][] = [];
  let versions = "";
  for (const [row, shape] of Object.entries(SHAPES)) {
    if (asked.length > 0 && !asked.includes(row)) continue;
    const learner = await engine.learner({ folder: path, seed: 0 });
    const ourStep = stepper(engine, learner, folder, shape);
    // As it comes, and tuned.
    const peers = why === undefined ? [false, true].map((tuned) => ({ tuned, peer: new Peer("trl_grpo.py") })) : [];
    for (const { tuned, peer } of peers) {
      const found = await peer.ask<{ trl: string; transformers: string; torch: string }>("open", {
        tuned,
        folder: path,
        out: join(scratch, "trl"),
        rollouts: shape.rollouts,
        siblings: SIBLINGS,
        tokens: TOKENS,
        images: shape.images,
        turns: shape.turns,
        prompt: PROMPT,
        masked: [...new Set([...maskedIds(folder), ...folder.generation.eos])],
        // One more than is asked for: its training never ends by itself.
        steps: ROUNDS + PEER_WARMUP + 1,
        threads: THREADS,
      });
      versions = `TRL ${found.trl}, transformers ${found.transformers}, torch ${found.torch}`;
      for (let step = 0; step < PEER_WARMUP; step++) await peer.ask("step");
    }
    for (let step = 0; step < WARMUP; step++) await ourStep();
    const ours: Awaited<ReturnType<typeof ourStep>>[] = [];
    const theirs: PeerStep[][] = peers.map(() => []);
    for (let round = 0; round < ROUNDS; round++) {
      ours.push(await ourStep());
      for (const [i, { peer }] of peers.entries()) theirs[i]?.push(await peer.ask<PeerStep>("step"));
    }
    for (const { peer } of peers) peer.close();
    await learner.close();
    const mine = ours.map(({ ms }) => ms);
    const last = ours.at(-1)!;
    const plain = theirs[0]?.at(-1);
    const expected = shape.turns > 0 ? shape.rollouts * (shape.turns + 1) : (shape.rollouts / SIBLINGS) * shape.images;
    if (last.distinct !== expected) throw new Error(`${last.distinct} distinct frames, ${expected} were shown.`);
    rows.push([
      shape.what,
      seconds(mine),
      seconds(ours.map(({ sampling }) => sampling)),
      ...[0, 1].flatMap((i) => {
        const other = theirs[i]?.map(({ ms }) => ms);
        return other === undefined ? ["–", "–"] : [seconds(other), ratio(median(other), median(mine))];
      }),
      [ours, ...theirs].map((steps) => seconds(steps.map(({ cpu }) => cpu))).join(" / "),
      `${last.length} / ${plain?.length ?? "–"}`,
      last.distinct,
      last.encoded,
      plain?.sampling ?? "–",
    ]);
  }
  console.log(
    `\`nano\`, a Qwen3-VL of ${Math.round(parameters / 1000)}k parameters; images of 64×64, ${TOKENS} ids a reply, ${SIBLINGS} siblings a prompt. Median of ${ROUNDS} steps in turns. ${versions}\n`,
  );
  table(
    [
      "a step",
      "ours s",
      "of it sampling",
      "TRL s",
      "faster",
      "TRL tuned s",
      "faster",
      "CPU s, ours / TRL / tuned",
      "ids a rollout, ours / TRL",
      "distinct frames",
      "encoded to sample: ours",
      "TRL",
    ],
    rows,
  );
  console.log(
    "Tool turns run through TRL's own `environment_factory` loop, with one change: a random model writes no tool calls, so every reply is taken for one. k tool turns are k + 1 replies. Tuned: TRL without bf16 autocast and gradient checkpointing, which are its defaults and cost time on a CPU.",
  );
} finally {
  await engine.close();
  rmSync(scratch, { recursive: true, force: true });
}
