/**
 * The quickstart over the real vLLM, on a schedule of minutes: it learns what the embedded run learns, with the server's pixels and with ours, and two servers of
 * which one is killed play on. Prints the tables of docs/guide/vllm.md.
 *
 * `SACCADE_VLLM_PYTHON=… npm run prove -- vllm`: the Python of an environment with vLLM (python/vllm_cpu.py makes one).
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Json } from "../core/json.ts";
import type { EngineConfig } from "../engine/registry.ts";
import { startVllm, type VllmServer } from "../engine/vllm/launch.ts";
import type { Metrics } from "../run/events.ts";
import { loadRecipe } from "./recipes.ts";
import { train } from "./train.ts";
import "../index.ts";

const python = process.env.SACCADE_VLLM_PYTHON;
/** Shares that differ by 0.03 differ by more than twice their standard error. */
const LAKES = 2048;
/** Of the quickstart: a quarter of a step's episodes in as many updates, and so few steps at its rates. */
const GROUPS = 32;
const SIBLINGS = 4;
const EPISODES = GROUPS * SIBLINGS;
const STEPS = 20;
const TURNS = 8;
const NO_PROBES = { sight: { every: 0 }, evaluate: { every: 1000, before: false, greedy: false, decisions: false } };
const SHORT = { ...NO_PROBES, steps: STEPS, groups: GROUPS, siblings: SIBLINGS, minibatch: EPISODES / 4 };
const LEARNER = { name: "native", threads: 2 };

type Run = { readonly model: string; readonly steps: readonly Metrics[]; readonly played: readonly string[] };

describe.runIf(python)("the quickstart on the real vLLM", () => {
  let root = "";
  /** The quickstart after a short warm start. */
  let start = "";
  const servers: VllmServer[] = [];
  const launch = async () => {
    servers.push(await startVllm({ python: python as string, model: start, contextTokens: 512, images: 16 }));
  };
  const urls = () => servers.map(({ url }) => url);

  const run = async (
    name: string,
    engine: EngineConfig,
    changes: Readonly<Record<string, unknown>> = {},
    onStep?: (step: number) => void,
  ): Promise<Run> => {
    const steps: Metrics[] = [];
    const played: string[] = [];
    const { warmStart: _, ...recipe } = loadRecipe("quickstart", { ...SHORT, model: start, engine, ...changes });
    const { finished, model } = await train({
      // Pays nothing; it is shown every training episode once, when it is over.
      recipe: {
        ...recipe,
        judge: async ({ id }) => {
          played.push(id);
          return [];
        },
      },
      folder: join(root, name),
      onEvent: ({ kind, metrics }) => {
        if (kind !== "train") return;
        steps.push(metrics);
        onStep?.(steps.length);
      },
    });
    expect(finished).toBe(true);
    return { model, steps, played };
  };
  const onVllm = (sampler: Readonly<Record<string, Json>> = {}): EngineConfig => ({
    learner: LEARNER,
    sampler: { vllm: urls(), ...sampler },
  });

  /** On held-out lakes, sampled and greedy, in process. */
  const success = async (name: string, model: string): Promise<number[]> => {
    let found: Metrics = {};
    const evaluate = { seeds: [1_000_000_000, 1_000_000_000 + LAKES - 1], greedy: true };
    const { warmStart: _, ...recipe } = loadRecipe("quickstart", { model, steps: 0, engine: LEARNER, evaluate });
    const onEvent = ({ kind, metrics }: { kind: string; metrics: Metrics }) => {
      if (kind === "eval") found = metrics;
    };
    await train({ recipe, folder: join(root, `${name}-success`), onEvent });
    return [found["eval/success"], found["eval/success_greedy"]] as number[];
  };

  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), "saccade-prove-vllm-"));
    const changes = { ...NO_PROBES, steps: 0, engine: LEARNER, warmStart: { episodes: 12_000 } };
    ({ model: start } = await train({ recipe: loadRecipe("quickstart", changes), folder: join(root, "warm") }));
    await launch();
  }, 3_600_000);
  afterAll(async () => {
    await Promise.all(servers.map((server) => server.close()));
    await rm(root, { recursive: true, force: true });
  });

  test("learns what the embedded run learns, and drifts by less than 1e-4 at every turn", async () => {
    const embedded = await run("native", LEARNER);
    const there = await run("vllm", onVllm());
    const rows = [
      ["after the warm start", await success("start", start)],
      ["learned in process", await success("native", embedded.model)],
      ["learned on vLLM", await success("vllm", there.model)],
    ] as const;
    print(
      `success on ${LAKES} lakes, sampled and greedy`,
      rows.map(([name, found]) => [name, ...found.map(share)]),
    );
    const own = await run("own", onVllm({ renderer: "own" }), { steps: 4 });
    print("drift: mean, then the largest of each turn", [driftRow("its pixels", there), driftRow("our pixels", own)]);
    for (const one of [there, own]) expectNoDrift(one);
    expectOnce(there, STEPS);
    expectOnce(own, 4);
    // Both learned, and equally much.
    const [[, before], [, ours], [, theirs]] = rows;
    for (const [i, share] of ours.entries()) expect(Math.abs((theirs[i] as number) - share)).toBeLessThanOrEqual(0.03);
    for (const after of [ours, theirs]) expect(after[0]).toBeGreaterThan((before[0] as number) + 0.06);
  });

  test("two servers, one of which is killed −9 in the middle of play: nothing is lost, nothing is trained twice", async () => {
    await launch();
    const { pid } = servers[0] as VllmServer;
    const after = await run("two", onVllm(), { steps: 4 }, (step) => {
      // Episodes of the next step are under way on both.
      if (step === 2) setTimeout(() => process.kill(-pid, "SIGKILL"), 1000);
    });
    expectOnce(after, 4);
    expectNoDrift(after);
    await expect(fetch(`${urls()[0]}/health`)).rejects.toThrow();
  });
});

/** The largest over all steps. */
const most = ({ steps }: Run, key: string) => Math.max(...steps.map((metrics) => metrics[key] ?? 0));
const turn = (index: number) => `drift/turn/${index}`;

function expectNoDrift(run: Run): void {
  for (let i = 0; i < TURNS; i++) expect(most(run, turn(i)), turn(i)).toBeLessThanOrEqual(1e-4);
  expect(most(run, turn(TURNS - 1))).toBeGreaterThan(0);
}

/** Every episode that was asked for was played to its end and handed to the learner, once. */
function expectOnce({ steps, played }: Run, wanted: number): void {
  expect(steps.length).toBe(wanted);
  expect(played.length).toBe(wanted * EPISODES);
  expect(new Set(played).size).toBe(wanted * EPISODES);
  for (const metrics of steps) expect(metrics).toMatchObject({ "episodes/engine_errors": 0, "episodes/retries": 0 });
}

function driftRow(name: string, run: Run): string[] {
  const turns = Array.from({ length: TURNS }, (_, i) => most(run, turn(i)));
  return [name, ...[most(run, "drift/mean"), ...turns].map((gap) => gap.toExponential(1))];
}

const share = (value: number) => value.toFixed(3);

function print(title: string, rows: readonly (readonly string[])[]): void {
  process.stdout.write(`\n${title}\n${rows.map((row) => `  ${row.join("  ")}`).join("\n")}\n`);
}
