import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { text, textOf, user } from "../core/message.ts";
import "../index.ts";
import { playDemo } from "./demos.ts";
import { envRows, makeEnv, register } from "./registry.ts";
import { readRows } from "./rows.ts";
import { defineTask, type TaskInput } from "./task.ts";

const folder = mkdtempSync(join(tmpdir(), "saccade-task-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

type Sum = { readonly a: number; readonly b: number };
const ROWS: readonly Sum[] = [
  { a: 1, b: 2 },
  { a: 20, b: 3 },
  { a: 5, b: 5 },
];
const sums: Omit<TaskInput<Sum>, "id"> = {
  data: ROWS,
  prompt: ({ a, b }) => [user(text(`${a} + ${b} = ?`))],
  reward: (reply, { a, b }) => (Number(reply) === a + b ? 1 : 0),
  answer: ({ a, b }) => String(a + b),
};
let made = 0;
async function task(changes: Partial<TaskInput<Sum>> = {}, options: Record<string, unknown> = {}) {
  const definition = defineTask({ ...sums, id: `sums-${made++}`, ...changes });
  register(definition);
  return { id: definition.id, env: await makeEnv(definition.id, options) };
}

describe("a task of one turn", () => {
  test("asks for the row that the seed names and pays its reply", async () => {
    const { env, id } = await task();
    expect((await env.reset(1)).map(textOf)).toEqual(["20 + 3 = ?"]);
    expect(await env.step("23")).toMatchObject({
      rewards: [{ name: "task", value: 1 }],
      terminated: true,
      truncated: false,
      success: true,
    });
    await env.reset(2);
    expect(await env.step("23")).toMatchObject({ rewards: [{ value: 0 }], terminated: true, success: false });
    await expect(async () => env.step("10")).rejects.toThrow("reset(row)");
    expect(await envRows(id)).toBe(3);
  });

  test.each([3, -1, 1.5])("row %d of three is refused, not wrapped", async (row) => {
    const { env } = await task();
    await expect(async () => env.reset(row)).rejects.toThrow(/has rows 0 to 2; there is no row/);
  });

  test("its answers are an oracle and give demonstrations", async () => {
    const { env, id } = await task();
    expect(await playDemo(id, env, 2)).toMatchObject({ success: true, reward: 1, turns: 1 });
    const { env: silent } = await task({ answer: undefined as never });
    await silent.reset(0);
    expect(await silent.builtinReply?.("oracle", 0)).toBeUndefined();
  });

  test("no rows are an error that names them", async () => {
    await expect(task({ data: [] })).rejects.toThrow('Task "sums-');
  });
});

describe("a task of several turns", () => {
  const several: Partial<TaskInput<Sum>> = {
    maxTurns: 3,
    reward(reply, { a, b }, turn) {
      const right = Number(reply) === a + b;
      const say = [user(text(`No, it is ${Number(reply) > a + b ? "less" : "more"}.`))];
      return { rewards: [{ name: "task", value: right ? 1 / turn : 0 }], say, done: right, success: right };
    },
  };

  test("goes on with what it says until it is done", async () => {
    const { env } = await task(several);
    await env.reset(0);
    const first = await env.step("9");
    expect(first).toMatchObject({ terminated: false, truncated: false, success: false });
    expect(first.observation.map(textOf)).toEqual(["No, it is less."]);
    expect(await env.step("3")).toMatchObject({ rewards: [{ value: 0.5 }], terminated: true, success: true });
  });

  test("is truncated after its last turn, which an option may change", async () => {
    const { env } = await task(several, { maxTurns: 1 });
    await env.reset(0);
    expect(await env.step("9")).toMatchObject({ terminated: false, truncated: true, success: false });
  });
});

describe("rows of a file", () => {
  const source = (data: string) => `
    import { readRows } from "./rows.ts";
import { defineTask, text, user } from "saccade";
    export default defineTask({
      id: "filed",
      data: ${JSON.stringify(data)},
      prompt: ({ a, b }) => [user(text(a + " + " + b))],
      reward: (reply, { a, b }) => Number(Number(reply) === a + b),
    });`;

  test("JSON lines beside the task's file, wherever it is used from", async () => {
    mkdirSync(join(folder, "inner"), { recursive: true });
    writeFileSync(join(folder, "inner", "rows.jsonl"), ROWS.map((row) => `${JSON.stringify(row)}\n`).join(""));
    const file = join(folder, "inner", "filed.ts");
    writeFileSync(file, source("rows.jsonl"));
    expect(await envRows(file)).toBe(3);
    const env = await makeEnv(file);
    await env.reset(1);
    expect(await env.step("23")).toMatchObject({ success: true });
  });

  test("Parquet, and another file by option", async () => {
    writeFileSync(join(folder, "more.jsonl"), '{"seed":7}\n');
    const file = join(folder, "parquet.ts");
    const tickets = join(import.meta.dirname, "golden", "tickets.parquet");
    writeFileSync(
      file,
      source(tickets).replace(
        '({ a, b }) => [user(text(a + " + " + b))]',
        "(row) => [user(text(JSON.stringify(row.seed)))]",
      ),
    );
    const seeds: unknown[] = [];
    for await (const { value } of readRows(tickets)) seeds.push(value.seed);
    expect(await envRows(file)).toBe(seeds.length);
    const env = await makeEnv(file);
    expect((await env.reset(1)).map(textOf)).toEqual([JSON.stringify(seeds[1])]);
    const other = { data: join(folder, "more.jsonl") };
    expect(await envRows(file, other)).toBe(1);
    expect((await (await makeEnv(file, other)).reset(0)).map(textOf)).toEqual(["7"]);
  });

  test("a file that is not there is named", async () => {
    const file = join(folder, "nowhere.ts");
    writeFileSync(file, source("nowhere.jsonl"));
    await expect(makeEnv(file)).rejects.toThrow("nowhere.jsonl");
  });
});
