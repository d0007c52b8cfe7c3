/** `saccade scale memory`: a figure for every model that can be trained, and what it takes. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { temporaryFolder } from "../model/test-folder.ts";
import { checkSources, resolveRecipe } from "../train/index.ts";
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
    // The worker has mixtures of experts in one process, where their weights do not all learn.
    if (/-A\d+B$/.test(model)) {
      expect(gpus, model).toBeUndefined();
      continue;
    }
    expect(gpus, model).toBeGreaterThanOrEqual(1);
    expect(needs[0], model).toBe("--checkpointing");
    expect(first, model).toBeLessThanOrEqual(80 * 2 ** 30);
  }
  expect(rows.find(({ model }) => model === "Qwen3-VL-2B")).toMatchObject({ gpus: 1, needs: ["--checkpointing"] });
});

test("says what learns on one GPU of 12 to 80 GiB, with bases of 4 and 8 bits", async () => {
  let printed = "";
  vi.spyOn(process.stdout, "write").mockImplementation((text) => {
    printed += String(text);
    return true;
  });
  await scaleCommand().parseAsync(["memory", "Qwen3-VL-8B", "Qwen3-VL-2B"], { from: "user" });
  const cells = (model: string) =>
    printed
      .split("\n")
      .findLast((line) => line.startsWith(`| ${model} |`))
      ?.split(" | ") ?? [];
  expect(cells("Qwen3-VL-8B").slice(1, 4).join("; ")).toMatch(
    /^–; LoRA over 4 bits \(\d+\); LoRA( over 8 bits)? \(\d+\)$/,
  );
  expect(cells("Qwen3-VL-2B")[1]).toMatch(/^LoRA \(/);
  expect(cells("Qwen3-VL-2B")[5]).toMatch(/^all weights/);
});

test("names the ways to learn for what they are, whatever else was asked for", async () => {
  const small = async (...flags: string[]) => {
    let printed = "";
    vi.spyOn(process.stdout, "write").mockImplementation((text) => {
      printed += String(text);
      return true;
    });
    await scaleCommand().parseAsync(["memory", "Qwen3-VL-2B", ...flags], { from: "user" });
    return printed.split("\n").findLast((line) => line.startsWith("| Qwen3-VL-2B |"));
  };
  const plain = await small();
  expect(await small("--lora", "8")).toBe(plain);
  expect(await small("--lora", "8", "--base", "nf4", "--moments", "int8")).toBe(plain);
});

test("plans nothing that the worker refuses", async () => {
  await expect(memory("Qwen3-VL-2B", "--base", "nf4")).rejects.toThrow(/add --lora/);
  await expect(memory("Qwen3-VL-2B", "--base", "nf4", "--lora", "8", "--offload")).rejects.toThrow(
    /stays on its device/,
  );
  const [large] = await memory(
    "Qwen3-VL-32B",
    "--base",
    "int8",
    "--lora",
    "32",
    "--critic",
    "--kl",
    "--gpu-memory",
    "24",
  );
  expect(large?.needs ?? []).not.toContain("--offload");
  const [experts] = await memory("Qwen3-VL-30B-A3B", "--lora", "32", "--freeze-vision");
  expect(experts).toMatchObject({ gpus: 1 });
  expect((await memory("Qwen3-VL-30B-A3B", "--lora", "32", "--gpus", "4"))[0]?.gpus).toBeUndefined();
});

test("adds nothing to what was asked for where that suffices, or where the GPUs are given", async () => {
  const [asked] = await memory("Qwen3-VL-2B", "--checkpointing");
  const [found] = await memory("Qwen3-VL-2B");
  expect(asked).toEqual({ ...found, needs: [] });
  expect((await memory("Qwen3-VL-2B", "--gpus", "1"))[0]).toMatchObject({ gpus: 1, needs: [] });
});

test("a family whose size is not known has no figure, and its recipe runs all the same", async () => {
  const folder = await temporaryFolder();
  for (const kind of ["internvl", "qwen2_vl"]) {
    await writeFile(join(folder, "config.json"), JSON.stringify({ model_type: kind, max_position_embeddings: 4096 }));
    const recipe = resolveRecipe({
      name: "x",
      model: folder,
      envs: [{ env: "frozen_lake" }],
      steps: 1,
      optimizer: { learningRate: 1e-3 },
      engine: "torch",
      sampling: { contextTokens: 4096 },
    });
    expect(await recipeMemory(recipe)).toBeUndefined();
    await checkSources(recipe);
    const longer = { ...recipe, sampling: { ...recipe.sampling, contextTokens: 8192 } };
    await expect(checkSources(longer)).rejects.toThrow(/allows 4096/);
  }
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
