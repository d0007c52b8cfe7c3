import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { defineEnv, defineWorld, makeEnv, makeWorld, makeWorldEnv, register, text, user, z } from "../index.ts";
import { canBlindfold, listEnvs } from "./registry.ts";

const folder = mkdtempSync(join(tmpdir(), "saccade-registry-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function file(name: string, code: string): string {
  const path = join(folder, name);
  writeFileSync(path, code);
  return path;
}

describe("names", () => {
  test("an id without a difficulty means the first one", async () => {
    const [plain, easyOne] = [await makeWorld("maze_2d"), await makeWorld("maze_2d/easy")];
    expect(await plain.task("brief", "image")).toBe(await easyOne.task("brief", "image"));
    const easy = (await listEnvs()).find((env) => env.id === "maze_2d/easy");
    expect(easy).toMatchObject({ protocol: "tuple", maxTurns: 20, options: { width: 9, height: 9 } });
  });

  test("worlds can be shown in grey, environments only where they have the option", async () => {
    register(
      defineEnv({
        id: "unseen",
        create: () => ({
          reset: () => [],
          step: () => {
            throw new Error("never");
          },
        }),
      }),
    );
    expect(await Promise.all(["maze_2d/easy", "geometry3k", "unseen"].map(canBlindfold))).toEqual([true, true, false]);
  });

  test.each([
    ["nope", "Known ids"],
    ["maze_2d/medium", '"easy", "hard"'],
    ["sokoban/easy", 'write "sokoban"'],
    ["maze_2d/easy/x", "Known ids"],
    ["./no/such/file.ts", "There is no file"],
  ])("%s is refused with a hint", async (name, hint) => {
    await expect(makeEnv(name)).rejects.toThrow(hint);
  });

  test("an id can be registered once", async () => {
    const world = await makeWorld("sokoban");
    register(defineWorld({ id: "registry_test", create: () => world }));
    expect(await makeWorld("registry_test")).toBe(world);
    expect(() => register(defineWorld({ id: "registry_test", create: () => world }))).toThrow("already registered");
    expect(() => register(defineWorld({ id: "Bad Id", create: () => world }))).toThrow("lower-case");
  });
});

describe("options", () => {
  test.each([
    ["maze_2d", { widht: 9 }, 'unknown option "widht"'],
    ["maze_2d", { width: "wide" }, 'option "width" ("wide")'],
    ["maze_2d", { variant: "paper" }, '"eval", "registered"'],
    ["sokoban", { variant: "eval" }, "no variants"],
    ["frozen_lake", { maxTurns: 0 }, 'option "maxTurns" (0)'],
    ["frozen_lake", { observation: "sound" }, 'option "observation"'],
    ["frozen_lake", { protocol: "telepathy" }, 'no protocol "telepathy"'],
    ["frozen_lake", { protocol: { name: "think", depth: 3 } }, "depth"],
    ["frozen_lake", { formatReward: { kind: "gift" } }, 'option "formatReward'],
  ])("%s with %j names what is wrong", async (name, options, hint) => {
    await expect(makeEnv(name, options as Record<string, unknown>)).rejects.toThrow(hint);
  });

  test("the user's options win over a variant's, and a variant's over a difficulty's", async () => {
    const options = async (given: Record<string, unknown>) => {
      let seen: unknown;
      const definition = defineWorld({
        id: `preset_test_${Object.keys(given).length}`,
        options: z.strictObject({ a: z.int().default(1), b: z.int().default(1), c: z.int().default(1) }),
        difficulties: { easy: { a: 2, b: 2 } },
        variants: { eval: { easy: { b: 3 } }, other: { easy: {} } },
        create(resolved) {
          seen = resolved;
          return makeWorld("sokoban");
        },
      });
      register(definition);
      await makeWorld(definition.id, given);
      return seen;
    };
    expect(await options({})).toEqual({ a: 2, b: 3, c: 1 });
    expect(await options({ b: 9 })).toEqual({ a: 2, b: 9, c: 1 });
    expect(await options({ variant: "other", c: 5 })).toEqual({ a: 2, b: 2, c: 5 });
  });
});

describe("files", () => {
  test("a file shares this copy of Saccade, whatever folder it lies in", async () => {
    const path = file(
      "shared.ts",
      `import { defineWorld, Image, makeWorld } from "saccade";
       export default defineWorld({ id: "shared", difficulties: { easy: {}, hard: {} }, maxTurns: 3, create: async () => Object.assign(await makeWorld("sokoban"), { Image }) });`,
    );
    const env = await makeWorldEnv(`${path}#hard`);
    expect(env.options.maxTurns).toBe(3);
    expect(await makeWorld(path)).toMatchObject({ Image: expect.any(Function) });
    await expect(makeWorld(`${path}#extreme`)).rejects.toThrow('"easy", "hard"');
  });

  test.each([
    ["syntax.ts", "export default {", "could not be loaded"],
    ["throws.ts", "throw new Error('boom')", "boom"],
    ["empty.ts", "export const x = 1", "defineWorld"],
  ])("%s fails with a clear message", async (name, code, hint) => {
    await expect(makeEnv(file(name, code))).rejects.toThrow(hint);
  });

  test("an environment that is no world is made as its author wrote it", async () => {
    const definition = defineEnv({
      id: "echo_test",
      options: z.strictObject({ word: z.string().default("hi") }),
      create: ({ word }) => ({
        reset: () => [user(text(word))],
        step: (reply) => ({
          observation: [],
          rewards: [{ name: "task", value: Number(reply === word) }],
          terminated: true,
          truncated: false,
          info: { actions: [], parsed: true, wellFormed: true, valid: true },
        }),
      }),
    });
    register(definition);
    const env = await makeEnv("echo_test", { word: "ho" });
    expect(await env.reset(0)).toEqual([user(text("ho"))]);
    expect((await env.step("ho")).rewards).toEqual([{ name: "task", value: 1 }]);
    await expect(makeEnv("echo_test", { wrod: "ho" })).rejects.toThrow('unknown option "wrod"');
    await expect(makeWorld("echo_test")).rejects.toThrow("makeEnv");
    register(defineEnv({ ...definition, id: "required_test", options: z.strictObject({ word: z.string() }) }));
    expect((await listEnvs()).find((env) => env.id === "required_test")).toMatchObject({ options: {} });
  });
});
