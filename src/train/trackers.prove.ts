/**
 * `npm run prove -- trackers`, second half: a tracking server that hangs, and one that refuses, cost a run nothing. The same run without trackers, with a
 * server that never answers and with one that answers 503: the same losses, one note, and steps that take as long. Prints the times; needs no Python.
 */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { NativeEngine } from "../engine/index.ts";
import { type TestFolder, testFolder, tinyRecipe } from "./test-run.ts";
import { train } from "./train.ts";

/** Seconds, so that trackers are told several times. */
const STEPS = 400;
const ROUNDS = 3;
/** Medians of runs of seconds, on a machine that may be busy. */
const SLOWER = 1.25;
/** What the end of a run may wait for its trackers, and time for the rest. */
const MAX_END_MS = 10_000 + 5_000;
const KINDS = ["none", "hang", "refuse"] as const;
type Kind = (typeof KINDS)[number];

const engine = new NativeEngine({ threads: 2 });
const servers = new Map<Kind, { readonly server: Server; readonly url: string; asked: number }>();
let folder: TestFolder;
beforeAll(async () => {
  folder = await testFolder();
  for (const kind of ["hang", "refuse"] as const) {
    const server = createServer((_, response) => {
      const one = servers.get(kind);
      if (one !== undefined) one.asked += 1;
      if (kind === "refuse") response.writeHead(503).end("down for repairs");
    });
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    servers.set(kind, { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked: 0 });
  }
});
afterAll(async () => {
  for (const { server } of servers.values()) {
    server.closeAllConnections();
    server.close();
  }
  await engine.close();
  await folder.remove();
});

async function run(kind: Kind, round: number) {
  const url = servers.get(kind)?.url;
  const recipe = tinyRecipe(folder.model, {
    steps: STEPS,
    checkpoint: { every: STEPS },
    ...(url !== undefined && { trackers: ["tensorboard", { name: "mlflow", url }] }),
  });
  const at: number[] = [];
  const losses: unknown[] = [];
  const problems: string[] = [];
  await train({
    recipe,
    folder: join(folder.root, `${kind}-${round}`),
    engine,
    onEvent: ({ kind: what, metrics, message }) => {
      if (what === "train") {
        at.push(performance.now());
        losses.push([metrics["policy/loss"], metrics["optimizer/grad_norm"], metrics["train/reward"]]);
      }
      if (message?.includes("does not take this run's metrics")) problems.push(message);
    },
  });
  const [first, last] = [at[0] as number, at.at(-1) as number];
  return { stepMs: (last - first) / (STEPS - 1), endMs: performance.now() - last, losses, problems };
}

const median = (values: readonly number[]) => [...values].sort((a, b) => a - b)[values.length >> 1] as number;

test("servers that hang or refuse neither slow nor stop a run", async () => {
  const times: Record<Kind, { step: number[]; end: number[] }> = {
    none: { step: [], end: [] },
    hang: { step: [], end: [] },
    refuse: { step: [], end: [] },
  };
  let plain: unknown[] = [];
  // One after another, so that whatever else the machine does meets all three.
  for (let round = 0; round < ROUNDS; round++) {
    for (const kind of KINDS) {
      const { stepMs, endMs, losses, problems } = await run(kind, round);
      if (round === 0 && kind === "none") plain = losses;
      expect(losses).toEqual(plain);
      expect([kind, problems.length]).toEqual([kind, kind === "none" ? 0 : 1]);
      times[kind].step.push(stepMs);
      times[kind].end.push(endMs);
    }
  }
  for (const kind of KINDS) {
    const { step, end } = times[kind];
    console.log(
      `${kind}: a step ${median(step).toFixed(1)} ms, the end ${(median(end) / 1000).toFixed(1)} s; asked ${servers.get(kind)?.asked ?? 0} times`,
    );
    expect(median(step)).toBeLessThan(SLOWER * median(times.none.step));
    expect(Math.max(...end)).toBeLessThan(MAX_END_MS);
  }
});
