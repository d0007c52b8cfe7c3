/** `saccade scale memory`: a figure for every model that can be trained, and what it takes. */
import { afterEach, expect, test, vi } from "vitest";
import { resolveRecipe } from "../train/index.ts";
import { recipeMemory, scaleCommand } from "./scale.ts";

afterEach(() => vi.restoreAllMocks());

type Row = { model: string; gpus?: number; needs: string[]; first?: number };

async function memory(...flags: string[]): Promise<Row[]> {
  let printed = "";
  vi.spyOn(process.stdout, "write").mockImplementation((text) => {
    printed += String(text);
    return true;
  });
  await scaleCommand().parseAsync(["memory", ...flags, "--json"], { from: "user" });
  return JSON.parse(printed) as Row[];
}

test("at its defaults has a row for every model that fits somehow, and says with which settings", async () => {
  const rows = await memory();
  for (const { model, gpus, needs, first = 0 } of rows) {
    if (model === "Qwen3-VL-235B-A22B") continue;
    expect(gpus, model).toBeGreaterThanOrEqual(1);
    expect(needs[0], model).toBe("--checkpointing");
    expect(first, model).toBeLessThanOrEqual(80 * 2 ** 30);
  }
  expect(rows.find(({ model }) => model === "Qwen3-VL-2B")).toMatchObject({ gpus: 1, needs: ["--checkpointing"] });
});

test("adds nothing to what was asked for where that suffices, or where the GPUs are given", async () => {
  const [asked] = await memory("Qwen3-VL-2B", "--checkpointing");
  const [found] = await memory("Qwen3-VL-2B");
  expect(asked).toEqual({ ...found, needs: [] });
  expect((await memory("Qwen3-VL-2B", "--gpus", "1"))[0]).toMatchObject({ gpus: 1, needs: [] });
});

test("a recipe with KL has its reference counted under LoRA, too", async () => {
  const base = {
    name: "x",
    model: "Qwen3-VL-2B",
    envs: [{ env: "frozen_lake" }],
    steps: 1,
    optimizer: { learningRate: 1e-3 },
    engine: "torch",
    lora: { rank: 8, alpha: 8 },
  };
  const without = await recipeMemory(resolveRecipe(base));
  const withKl = await recipeMemory(resolveRecipe({ ...base, kl: { coefficient: 0.01, as: "loss" } }));
  expect(without?.parts.reference).toBe(0);
  expect(withKl?.parts.reference).toBeGreaterThan(2 * 2e9);
});
