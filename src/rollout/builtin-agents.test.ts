import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { playDemo } from "../envs/demos.ts";
import { makeEnv } from "../envs/registry.ts";
import "../index.ts";
import { builtinAgent } from "./builtin-agents.ts";
import { playSeeds } from "./play.ts";

const folder = mkdtempSync(join(tmpdir(), "saccade-builtin-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** An environment of a user's own: say the number, twice. Its oracle knows it; asked at odd numbers it gives up. */
const file = join(folder, "echo.ts");
writeFileSync(
  file,
  `import { defineEnv, text, user } from "saccade";
   export default defineEnv({
     id: "echo",
     create() {
       let wanted = 0, right = 0, turn = 0;
       return {
         reset(seed) {
           [wanted, right, turn] = [seed, 0, 0];
           return [user(text("Say " + seed + "."))];
         },
         step(reply) {
           const hit = Number(reply === String(wanted));
           [right, turn] = [right + hit, turn + 1];
           return {
             observation: [user(text("Again."))],
             rewards: [{ name: "task", value: hit / 2 }],
             terminated: turn === 2,
             truncated: false,
             success: right === 2,
             info: { actions: [], parsed: true, wellFormed: true, valid: true },
           };
         },
         builtinReply(agent, seed) {
           if (agent === "oracle") return wanted % 2 === 1 ? null : String(wanted);
           return agent === "random" ? String(seed % 2) : undefined;
         },
       };
     },
   });`,
);

describe("agents of a user's own environment", () => {
  test.each(["inline", "threads"] as const)("they play and are yardsticks, %s", async (workers) => {
    const scores = await playSeeds({ agent: builtinAgent("oracle"), env: { id: file }, seeds: [2, 3, 4, 5], workers });
    expect(scores.success).toMatchObject({ count: 2, total: 4 });
    expect(scores.reward).toBe(0.5);
    // One that has nothing to say stops, and an environment without a stop gets an empty reply.
    const { stop, random, oracle } = scores.against;
    expect([stop, random, oracle].map((figures) => figures?.success.value)).toEqual([0, 0, 0.5]);
  });

  test("they give demonstrations", async () => {
    const demo = await playDemo("echo", await makeEnv(file), 4);
    expect(demo).toMatchObject({ success: true, reward: 1, turns: 2 });
    const said = demo.messages.filter(({ role }) => role === "assistant").map(({ content }) => content[0]);
    expect(said).toEqual([
      { type: "text", text: "4" },
      { type: "text", text: "4" },
    ]);
  });

  test("an environment without an oracle says how to give it one", async () => {
    const plain = { reset: () => [], step: () => Promise.reject(new Error("not reached")) };
    await expect(playDemo("plain", plain, 0)).rejects.toThrow("builtinReply(");
    const agent = builtinAgent("oracle")({ env: plain, seed: 0, sibling: 0, samplingSeed: 0 });
    await expect(agent.reply([], new AbortController().signal)).rejects.toThrow("solve()");
  });
});
