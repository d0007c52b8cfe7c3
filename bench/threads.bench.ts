/**
 * What threads are worth: warm-start steps (forward, backward, Muon) of `maze-2d-sft` and of the quickstart on 1, 2, 4, 8 and 16 threads, beside as many processes of
 * one thread each, which share nothing but the machine, and beside transformers on as many threads where Python has it. `npm run bench -- threads [recipe …]`.
 * BENCH_ROUNDS: steps each makes, in turns (5; the best counts). BENCH_THREADS: which numbers ("1,2,4"; default: those the machine has cores for).
 * A second table says where the best step's time went. Loss and gradient norm must be the same bits on any number of threads; the benchmark fails otherwise.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { availableParallelism, cpus, loadavg, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { scheduled } from "../src/train/policy-loss.ts";
import { forPeer } from "./engine-data.ts";
import { inTurns, milliseconds, missingPeers, ms, Peer, ratio, table } from "./peer.ts";
import {
  chatModel,
  createFolder,
  type Datum,
  type Learner,
  loadFolder,
  loadRecipe,
  makeEnv,
  NativeEngine,
  playDemo,
  type Recipe,
  sequencesOf,
  sftBatch,
} from "./saccade.ts";

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 5);
const CORES = availableParallelism();
const THREADS = (process.env.BENCH_THREADS ?? [1, 2, 4, 8, 16].filter((count) => count <= CORES).join())
  .split(",")
  .map(Number);
/** How long processes side by side are counted, in milliseconds. */
const WINDOW = 4000;

type Plan = NonNullable<Recipe["warmStart"]>;

/** A batch of the recipe's warm start: the commonest length alone, since the peer pads nothing. */
async function batchOf({ envs: [first], warmStart, sampling }: Recipe, folder: string): Promise<Datum[]> {
  const { env: id, options } = first as { env: string; options: Record<string, unknown> };
  const { batch } = warmStart as Plan;
  const loaded = await loadFolder(folder);
  const model = { ...chatModel(loaded), encodeReply: (reply: string) => loaded.renderer.reply(reply) };
  const env = await makeEnv(id, options);
  const found = new Map<number, Awaited<ReturnType<typeof sequencesOf>>>();
  for (let seed = 0; ; seed++) {
    const [sequence] = await sequencesOf(await playDemo(id, env, seed), model, {
      contextTokens: sampling.contextTokens,
    });
    const same = found.get(sequence!.ids.length) ?? [];
    found.set(sequence!.ids.length, [...same, sequence!]);
    if (same.length + 1 === batch) return sftBatch([...same, sequence!]);
  }
}

/** `bits`: the numbers that must not depend on threads. Times in milliseconds; `main`: how long the main thread was busy. */
type Step = { readonly bits: string; readonly gradient: number; readonly optimizer: number; readonly main: number };

async function step(learner: Learner, data: readonly Datum[], { optimizer, schedule }: Plan): Promise<Step> {
  const before = performance.eventLoopUtilization();
  const start = performance.now();
  const { loss } = await learner.forwardBackward(data, { name: "cross-entropy" });
  const between = performance.now();
  const { gradNorm } = await learner.step(scheduled(optimizer, { schedule, steps: 100 }, 50));
  return {
    bits: `${loss} ${gradNorm}`,
    gradient: between - start,
    optimizer: performance.now() - between,
    main: performance.eventLoopUtilization(before).active,
  };
}

/** Processes of one thread each, all at once: what they do together in a step's time, in milliseconds per step. */
async function sideBySide(count: number, name: string, folder: string): Promise<number> {
  const jiti = join(dirname(createRequire(import.meta.url).resolve("jiti/package.json")), "lib/jiti-cli.mjs");
  const children = Array.from({ length: count }, () =>
    spawn(process.execPath, [jiti, import.meta.filename], {
      stdio: ["ignore", "ignore", "inherit", "ipc"],
      env: { ...process.env, BENCH_SIDE: JSON.stringify([name, folder]) },
    }),
  );
  const heard = (child: ChildProcess) =>
    new Promise<number>((resolve, reject) => {
      child.once("message", (value) => resolve(Number(value)));
      child.once("exit", (code) => reject(new Error(`a process beside others ended with ${code}`)));
    });
  await Promise.all(children.map(heard));
  const rates = children.map(heard);
  for (const child of children) child.send("go");
  const perSecond = (await Promise.all(rates)).reduce((sum, rate) => sum + rate, 0);
  return 1000 / perSecond;
}

/** The one-thread process: says that it is warm, waits for the others, then says how many steps a second it makes. */
async function side(name: string, folder: string): Promise<void> {
  const recipe = loadRecipe(name);
  const data = await batchOf(recipe, folder);
  const engine = new NativeEngine({ threads: 1 });
  const learner = await engine.learner({ folder, seed: 0 });
  for (let i = 0; i < 2; i++) await step(learner, data, recipe.warmStart as Plan);
  const go = new Promise((resolve) => process.once("message", resolve));
  process.send!(0);
  await go;
  const start = performance.now();
  let steps = 0;
  while (performance.now() - start < WINDOW) {
    await step(learner, data, recipe.warmStart as Plan);
    steps += 1;
  }
  process.send!((1000 * steps) / (performance.now() - start));
  await engine.close();
}

async function compare(name: string, scratch: string, peers: boolean): Promise<void> {
  const recipe = loadRecipe(name);
  const plan = recipe.warmStart as Plan;
  if (typeof recipe.model === "string") throw new Error(`${name} trains a folder, not a fresh model`);
  const folder = join(scratch, name);
  await createFolder(folder, { preset: recipe.model.preset, ...recipe.model.set });
  const data = await batchOf(recipe, folder);
  const tokens = data.reduce((sum, { input }) => sum + input.ids.length, 0);
  const rows: (string | number)[][] = [];
  const parts: (string | number)[][] = [];
  const bits = new Set<string>();
  let alone = 0;
  for (const threads of THREADS) {
    const engine = new NativeEngine({ threads });
    const learner = await engine.learner({ folder, seed: 0 });
    const steps: Step[] = [];
    const peer = peers ? new Peer("qwen3vl.py") : undefined;
    await peer?.ask("threads", { count: threads });
    await peer?.ask("load", { folder });
    const inputs = data.map(({ input }) => input);
    const targets = data.map((datum) => [...datum.targets]);
    await peer?.ask("batch", {
      ...forPeer(await loadFolder(folder), inputs, join(scratch, `${threads}.f32`)),
      targets,
    });
    const [own = 0, theirs] = await inTurns(ROUNDS, [
      () => milliseconds(async () => steps.push(await step(learner, data, plan))),
      ...(peer ? [async () => (await peer.ask("train")).ms!] : []),
    ]);
    peer?.close();
    await engine.close();
    bits.add(steps.map((one) => one.bits).join());
    const [best] = steps.toSorted((a, b) => a.gradient + a.optimizer - b.gradient - b.optimizer);
    parts.push([threads, ...[best!.gradient, best!.optimizer, best!.main].map(ms)]);
    alone ||= own;
    const together = threads === 1 ? own : await sideBySide(threads, name, folder);
    rows.push([
      threads,
      ms(own),
      Math.round((1000 * tokens) / own),
      ratio(alone, own),
      threads === 1 ? "–" : (together / own).toFixed(2),
      theirs === undefined ? "–" : ms(theirs),
      ratio(theirs, own),
    ]);
  }
  console.log(
    `### Warm-start step of \`${name}\`: ${data.length} episodes, ${tokens} ids; best of ${ROUNDS}; the same bits: ${bits.size === 1}\n`,
  );
  table(
    [
      "threads",
      "ms",
      "ids/s",
      `against ${THREADS[0]} thread${THREADS[0] === 1 ? "" : "s"}`,
      "share of as many one-thread processes",
      "transformers (AdamW) ms",
      "faster",
    ],
    rows,
  );
  console.log(`\nWhere a step's time goes:\n`);
  table(["threads", "forward and backward ms", "adding up and Muon ms", "main thread busy ms"], parts);
  if (bits.size !== 1) throw new Error("loss and gradient norm depend on the number of threads");
}

if (process.env.BENCH_SIDE !== undefined) {
  const [name, folder] = JSON.parse(process.env.BENCH_SIDE) as [string, string];
  await side(name, folder);
} else {
  const scratch = mkdtempSync(join(tmpdir(), "saccade-bench-"));
  try {
    console.log(`${cpus()[0]?.model.trim()}, ${CORES} cores; Node ${process.versions.node}.`);
    const missing = missingPeers();
    if (missing !== undefined) console.log(`No peer (${missing}): only our own figures.`);
    const [load = 0] = loadavg();
    if (load > 0.5) console.log(`The machine is busy (load ${load.toFixed(1)}): these figures mean little.`);
    const asked = process.argv.slice(3);
    for (const name of asked.length > 0 ? asked : ["maze-2d-sft", "quickstart"]) {
      await compare(name, scratch, missing === undefined);
    }
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}
