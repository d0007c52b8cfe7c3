/** How a failed episode is told. */
import { expect, test } from "vitest";
import { EnvError } from "../core/errors.ts";
import { failureLines, stackAtUser } from "./failures.ts";

const HERE = new URL("..", import.meta.url).pathname;

function thrown(frames: readonly string[], error = new Error("boom")): Error {
  error.stack = [`${error.name}: ${error.message}`, ...frames.map((frame) => `    at ${frame}`)].join("\n");
  return error;
}

test("a stack is shown from the user's own line on", () => {
  const ours = [`WorldEnv.step (${HERE}envs/world-env.ts:101:40)`, "async Promise.allSettled (index 0)"];
  const inner = ["Object.parse (node:internal/x:1:1)", "z (/home/me/node_modules/zod/z.js:3:4)"];
  const users = ["score (/home/me/world.ts:12:7)", "Object.act (/home/me/world.ts:22:17)"];
  expect(stackAtUser(thrown([...inner, ...users, ...ours]))).toBe(users.map((frame) => `at ${frame}`).join("\n"));
});

test("where no line is the user's, a bug of ours shows where it is, and an error that says what to do shows its words alone", () => {
  const ours = [`check (${HERE}rollout/episode.ts:5:6)`, "async Promise.allSettled (index 0)"];
  expect(stackAtUser(thrown(ours))).toBe(`at ${ours[0]}`);
  expect(stackAtUser(thrown(ours, new EnvError("pay a finite number")))).toBeUndefined();
  expect(stackAtUser("a string")).toBeUndefined();
});

test("its lines hold the message, the stack, environment, seed, agent and a reply that is cut where it is long", () => {
  const failure = {
    env: "lake",
    seed: 7,
    end: "env_error",
    error: "It broke.",
    agent: "oracle",
    stack: "at a (b.ts:1:2)",
  };
  expect(failureLines({ ...failure, reply: "x".repeat(400) })).toEqual([
    "It broke.",
    "  at a (b.ts:1:2)",
    "  environment lake, seed 7, played by the oracle agent",
    `  reply "${"x".repeat(300)}… (400 characters)"`,
  ]);
});
