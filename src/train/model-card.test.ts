import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { decodeImage } from "../images/index.ts";
import { shippedModel, shippedModels, weightsHash } from "../model/index.ts";
import { CheckpointStore } from "../run/checkpoints.ts";
import { loadEvents } from "../run/events.ts";
import { openRun } from "../run/folder.ts";
import { cardFiles, checkpointOf } from "./model-card.ts";
import { recipeConfig, resolveRecipe } from "./recipe.ts";
import { loadRecipe } from "./recipes.ts";
import { type TestFolder, testFolder, tinyRecipe } from "./test-run.ts";
import { train } from "./train.ts";

let tiny: TestFolder;
let run = "";
let policy = "";
beforeAll(async () => {
  tiny = await testFolder();
  run = join(tiny.root, "carded");
  const evaluate = { every: 1, before: true, seeds: [1_000_000_000, 1_000_000_003] as [number, number] };
  const recipe = tinyRecipe(tiny.model, {
    steps: 2,
    checkpoint: { every: 1, keep: 3 },
    evaluate,
    sight: { every: 1, episodes: 4 },
  });
  policy = (await train({ recipe, folder: run })).model;
});
afterAll(() => tiny.remove());

const cardOf = (folder: string) => readFile(join(folder, "README.md"), "utf8");

describe("The card of a checkpoint", () => {
  test("is beside the weights, and the checkpoint is whole with it", async () => {
    expect(await readdir(policy)).toEqual(expect.arrayContaining(["README.md", "curve.png", "model.safetensors"]));
    const latest = await new CheckpointStore(run).latest();
    expect([latest?.step, latest?.note]).toEqual([2, undefined]);
  });

  test("begins with what the hub reads, and has recipe, hash and command", async () => {
    const card = await cardOf(policy);
    const [, front = "", body = ""] = /^---\n(.*?)\n---\n(.*)$/s.exec(card) ?? [];
    expect(parse(front)).toEqual({
      library_name: "transformers",
      pipeline_tag: "image-text-to-text",
      tags: ["saccade", "reinforcement-learning", "vision-language"],
    });
    expect(body).toContain(await weightsHash(policy));
    expect(body).toContain("npx saccade train");
    expect(body).toContain("Checkpoint of step 2");
    const [, source = ""] = /defineRecipe\((.*?)\);\n```/s.exec(body) ?? [];
    expect(resolveRecipe(JSON.parse(source)).steps).toBe(2);
  });

  test("says what the run measured, to the digit, and nothing that came later", async () => {
    const { events } = await loadEvents(run);
    const last = events.findLast(({ kind }) => kind === "eval")?.metrics;
    const whole = new TextDecoder().decode((await cardFiles(policy, run, 2))["README.md"]);
    for (const name of ["eval/success", "eval/floor", "eval/random", "eval/ceiling"])
      expect(whole).toContain(last?.[name]?.toFixed(3) as string);
    const gap = events.findLast(({ kind }) => kind === "sight")?.metrics["sight/gap"];
    expect(whole).toContain(`${gap?.toFixed(3)} nats`);
    expect(new TextDecoder().decode((await cardFiles(policy, run, 0))["README.md"])).not.toContain("| step 2 |");
  });

  test("names no place of the machine that trained", async () => {
    expect(await cardOf(policy)).not.toContain(tiny.root);
  });

  test("has the command with what the run changed of a recipe that comes with Saccade, unless it names a place of this machine", async () => {
    const carded = async (set: Record<string, unknown>) => {
      const folder = join(tiny.root, `again-${Object.keys(set)}`);
      const config = recipeConfig(loadRecipe("quickstart", set));
      await (await openRun(folder, { config })).close("finished");
      return new TextDecoder().decode((await cardFiles(policy, folder, 2))["README.md"]);
    };
    expect(await carded({})).toContain("npx saccade train quickstart\n");
    expect(await carded({ steps: 6 })).toContain("npx saccade train quickstart --set steps=6\n");
    const placed = await carded({ model: policy });
    expect(placed).toContain("npx saccade train ./recipe.ts\n");
    expect(placed).not.toContain(tiny.root);
  });

  test("shows a curve that is an image, and an episode", async () => {
    const files = await cardFiles(policy, run, 2);
    const curve = await decodeImage(files["curve.png"] as Uint8Array);
    expect(curve.width).toBeGreaterThan(400);
    expect(
      Buffer.from(files["episode.gif"] as Uint8Array)
        .subarray(0, 6)
        .toString(),
    ).toBe("GIF89a");
  });

  test("of a model that was never measured says so", async () => {
    const empty = await mkdtemp(join(tmpdir(), "saccade-card-"));
    await writeFile(join(empty, "events.jsonl"), "");
    const text = new TextDecoder().decode((await cardFiles(empty, empty, 5))["README.md"]);
    expect(text).toContain("This checkpoint was not evaluated.");
    expect(text).toContain("Sight was not measured.");
    await rm(empty, { recursive: true });
  });

  test("is found by the place of its policy alone", () => {
    expect(checkpointOf("/a/runs/x/checkpoints/step-12/policy")).toEqual({ run: "/a/runs/x", step: 12 });
    expect(checkpointOf("/a/models/x")).toBeUndefined();
  });
});

test.each(shippedModels())("the card of %s, which comes with Saccade, has the hash of its weights", async (name) => {
  const folder = shippedModel(name) as string;
  expect(await cardOf(folder)).toContain(await weightsHash(folder));
});
