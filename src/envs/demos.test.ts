import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { imagesOf, textOf } from "../core/message.ts";
import { countDemos, type Demo, type DemoPlan, DemoWriter, type Labels, playDemo, readDemos } from "./demos.ts";
import { makeWorldEnv } from "./registry.ts";
import "./index.ts";

const folder = mkdtempSync(join(tmpdir(), "saccade-demos-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** A file as `saccade data demos` writes it, three episodes long. */
async function file(name: string, plan: DemoPlan): Promise<string> {
  const path = join(folder, name);
  writeFileSync(path, "");
  const writer = new DemoWriter(path, true);
  const env = await makeWorldEnv(plan.env, plan.options);
  for (let i = 0; i < 3; i++) {
    appendFileSync(path, `${writer.row(await playDemo(plan.env, env, plan.seed + i, plan.options, plan.noise))}\n`);
  }
  return path;
}

test("labels: a slip is said as played, as the oracle's move, or as played and not learned; the same moves are made", async () => {
  const options = { prompt: "brief", protocol: "keyword" } as const;
  const env = await makeWorldEnv("maze_2d/easy", options);
  const demo = (labels: Labels) => playDemo("maze_2d/easy", env, 3, options, { probability: 0.4, labels });
  const [played, oracle, agreed] = [await demo("played"), await demo("oracle"), await demo("agreed")];
  const frames = ({ messages }: Demo) => messages.flatMap(imagesOf).map(({ hash }) => hash);
  expect(frames(agreed)).toEqual(frames(played));
  expect(frames(agreed)).toEqual(frames(oracle));
  const replies = ({ messages }: Demo) => messages.filter(({ role }) => role === "assistant").map(textOf);
  expect(replies(agreed)).toEqual(replies(played));
  expect(agreed.learn).toEqual(replies(agreed).map((reply, turn) => reply === replies(oracle)[turn]));
  expect(agreed.learn).toContain(false);
  expect([played.learn, oracle.learn]).toEqual([undefined, undefined]);
});

test("labels: oracle learns nothing where the oracle knows no way on: a random move there is no lesson", async () => {
  const options = { prompt: "brief", protocol: "keyword" } as const;
  const env = await makeWorldEnv("sokoban", options);
  let dead = 0;
  for (let seed = 0; seed < 40; seed++) {
    const known: boolean[] = [];
    const noise = { probability: 0.5, labels: "oracle" } as const;
    const demo = await playDemo("sokoban", env, seed, options, noise, async () => {
      known.push((await env.builtinReply("oracle", seed)) !== null);
    });
    expect(demo.learn ?? known.map(() => true)).toEqual(known);
    dead += known.filter((one) => !one).length;
  }
  expect(dead).toBeGreaterThan(0);
});

test("what an environment throws in a demonstration is told with its line, seed and reply", async () => {
  const env = await makeWorldEnv("maze_2d/easy", { protocol: "keyword" });
  env.step = () => {
    throw new TypeError("Cannot read properties of undefined (reading 'points')");
  };
  const failure = await playDemo("./mine.ts", env, 7).catch((error: Error) => error);
  expect(failure).toMatchObject({ name: "EnvError" });
  expect((failure as Error).message.split("\n")).toEqual([
    "The environment failed in a demonstration: Cannot read properties of undefined (reading 'points')",
    expect.stringMatching(/^ {2}at .*demos\.test\.ts:\d+:\d+\)$/),
    ...Array(3).fill(expect.stringMatching(/^ {2}at /)),
    "  environment ./mine.ts, seed 7, played by the oracle agent",
    expect.stringMatching(/^ {2}reply "<action>\w+<\/action>"$/),
  ]);
});

test("which replies are to be learned survives a file", async () => {
  const noise = { probability: 0.5, labels: "agreed" } as const;
  const path = await file("agreed.jsonl", { env: "frozen_lake", seed: 5, noise });
  const found = [];
  for await (const demo of readDemos(path)) found.push(demo.learn);
  expect(found.flat()).toContain(false);
});

describe("a file of demonstrations that is gone on with", () => {
  const plan: DemoPlan = { env: "frozen_lake", seed: 5, options: { prompt: "brief" } };
  const noise = { probability: 0.5, labels: "played" } as const;

  test("counts its episodes, noisy ones too", async () => {
    expect(await countDemos(await file("plain.jsonl", plan), plan)).toBe(3);
    const path = await file("noisy.jsonl", { ...plan, noise });
    expect(await countDemos(path, { ...plan, noise })).toBe(3);
    for await (const demo of readDemos(path)) expect(demo.noise).toEqual(noise);
  });

  test.each<[string, Partial<DemoPlan>]>([
    ["env", { env: "sokoban" }],
    ["options", { options: { prompt: "full" } }],
    ["seed", { seed: 6 }],
    ["noise", { noise }],
  ])("is refused with another %s: nothing is mixed in silence", async (key, change) => {
    const path = await file(`${key}.jsonl`, plan);
    await expect(countDemos(path, { ...plan, ...change })).rejects.toThrow(
      new RegExp(`${key}\\.jsonl:1 has ${key} .*choose another --out`),
    );
  });
});
