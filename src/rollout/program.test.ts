/** Programs as episodes: one process each, or one for many; what they say they earned; and that none outlives its episode. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { Program } from "../envs/program.ts";
import { openSource } from "../envs/sources.ts";
import { tokenAgent } from "./agents.ts";
import { playGroups } from "./groups.ts";
import { EnvHost } from "./hosts.ts";
import { ScriptedSampler, testModel } from "./test-model.ts";
import type { Trajectory } from "./trajectory.ts";

// Starting processes takes as long as the machine is busy.
vi.setConfig({ testTimeout: 120_000 });

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "saccade-program-"));
  const tasks = ["left", "right", "up"].map((answer) => JSON.stringify({ answer }));
  await writeFile(join(folder, "tasks.jsonl"), tasks.join("\n"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const ASK = `
async function ask(baseURL, apiKey) {
  const answer = await fetch(baseURL + "/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json", authorization: "Bearer " + apiKey },
    body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "where?" }] }),
  });
  const body = await answer.json();
  if (!answer.ok) throw new Error(JSON.stringify(body));
  return body.choices[0].message.content;
}
const { OPENAI_BASE_URL: url, OPENAI_API_KEY: key, SACCADE_TASK: file } = process.env;
const task = () => JSON.parse(require("node:fs").readFileSync(file, "utf8"));
`;

async function play(code: string, more: Partial<Program> = {}, seeds = [0, 1], siblings = 1) {
  const file = join(folder, `${Math.random().toString(36).slice(2)}.cjs`);
  await writeFile(file, ASK + code);
  const settings = { command: [process.execPath, file], tasks: join(folder, "tasks.jsonl"), ...more };
  const { envs } = await openSource({ program: settings });
  const host = new EnvHost("processes");
  const sampler = new ScriptedSampler(() => "left");
  const agent = tokenAgent({ model: testModel, sampler: () => sampler, temperature: 1, maxTokens: 20 });
  const options = { agent, host, samplingSeed: 1, live: 4, retries: 0 };
  const played: Trajectory[] = [];
  const requests = seeds.map((seed) => ({
    env: { id: envs[0]?.env ?? "", options: envs[0]?.options ?? {} },
    seed,
    siblings,
  }));
  for await (const group of playGroups(requests, options)) played.push(...group.trajectories, ...group.dropped);
  await host.close();
  return played;
}

const rewards = (played: readonly Trajectory[]) => played.map(({ reward }) => reward);

describe("A program's reward", () => {
  test("is the last line of its output", async () => {
    const played = await play(`(async () => {
      console.log("starting");
      const said = await ask(url, key);
      console.log(JSON.stringify({ reward: said === task().answer ? 1 : 0.25 }));
    })();`);
    expect(rewards(played)).toEqual([1, 0.25]);
    expect(played[0]).toMatchObject({ end: "done", program: { paidBy: "output", log: ["starting", '{"reward":1}'] } });
    expect(played[0]?.sequences).toHaveLength(1);
  });

  test("is what it posts", async () => {
    const played = await play(`(async () => {
      const said = await ask(url, key);
      await fetch(process.env.SACCADE_EPISODE_URL, {
        method: "POST",
        headers: { "content-type": "application/json", "x-api-key": process.env.ANTHROPIC_API_KEY },
        body: JSON.stringify([{ name: "right", value: said === task().answer ? 1 : 0 }]),
      });
      console.log("done");
    })();`);
    expect(rewards(played)).toEqual([1, 0]);
    expect(played[0]).toMatchObject({ success: true, program: { paidBy: "post" } });
  });

  test("is what a TypeScript file says of task, output and turns", async () => {
    const reward = join(folder, "judge.ts");
    const code =
      "export default ({ task, output, turns }) => (output.trim() === turns[0].reply && task.answer === turns[0].reply ? 1 : 0.5);";
    await writeFile(reward, code);
    const played = await play("ask(url, key).then((said) => console.log(said));", { reward });
    expect(rewards(played)).toEqual([1, 0.5]);
    expect(played[0]).toMatchObject({ program: { paidBy: "reward" } });
  });
});

describe("A persistent program", () => {
  const code = `
    require("node:readline").createInterface({ input: process.stdin }).on("line", async (line) => {
      const { task, baseURL, apiKey } = JSON.parse(line);
      console.error("pid " + process.pid);
      const said = await ask(baseURL, apiKey);
      console.log(JSON.stringify(said === task.answer ? 1 : 0));
    });`;
  test("plays many episodes, each with its own address, and ends with its host", async () => {
    const played = await play(code, { persistent: true, concurrency: 1 }, [0, 1, 2, 0]);
    expect(rewards(played)).toEqual([1, 0, 0, 1]);
    const pids = played.map(({ program }) => program?.log.find((line) => line.startsWith("pid"))?.slice(4));
    expect(new Set(pids).size).toBeLessThanOrEqual(4);
    for (const pid of pids) await gone(Number(pid));
  });

  test("that dies costs its episode, and the next has a new one", async () => {
    const dies = code.replace("const said", "if (task.answer === 'right') process.exit(3);\n const said");
    const played = await play(dies, { persistent: true, concurrency: 1 }, [1, 0]);
    expect(played.map(({ end }) => end)).toEqual(["env_error", "done"]);
    expect(played[0]?.error).toMatch(/exit code 3/);
  });
});

describe("A program that fails is never trained:", () => {
  test("its exit code and last words are told", async () => {
    const [failed] = await play(
      `ask(url, key).then(() => { console.error("no such tool"); process.exit(7); });`,
      {},
      [0],
    );
    expect(failed).toMatchObject({ end: "env_error", sequences: [] });
    expect(failed?.error).toMatch(/exit code 7[\s\S]*no such tool/);
  });

  test("it says nothing of a reward", async () => {
    const [failed] = await play("ask(url, key).then(console.log);", {}, [0]);
    expect(failed).toMatchObject({ end: "env_error", sequences: [] });
    expect(failed?.error).toMatch(/gave no reward/);
  });

  test("there is no such program", async () => {
    const [failed] = await play("", { command: ["./no-such-program"] }, [0]);
    expect(failed?.error).toMatch(/can't be started/);
  });

  test("it hangs, and is killed with all that it started", async () => {
    const file = join(folder, "child.pid");
    const [failed] = await play(
      `ask(url, key).then(() => {
        const child = require("node:child_process").spawn("sleep", ["600"]);
        require("node:fs").writeFileSync(${JSON.stringify(file)}, String(child.pid));
        setInterval(() => {}, 1000);
      });`,
      { timeoutMs: 3000 },
      [0],
    );
    expect(failed).toMatchObject({ end: "env_timeout", sequences: [] });
    await gone(Number(await readFile(file, "utf8")));
  });
});

/** Waits until no process has this id. */
async function gone(pid: number): Promise<void> {
  for (;;) {
    try {
      process.kill(pid, 0);
    } catch {
      return;
    }
    await sleep(20);
  }
}
