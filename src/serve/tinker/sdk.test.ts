/**
 * The official Python SDK, as it comes from PyPI, trains, samples, saves, resumes, lists and exports on our server (python/tinker_sdk.py). Runs where
 * SACCADE_TINKER_PYTHON names a Python with `tinker` 0.36.0 and torch; SACCADE_TINKER_OLDER names a folder with one folder for each older version
 * (`pip install --no-deps --target`). SACCADE_REQUIRE=tinker makes their absence a failure.
 */
import { execFile } from "node:child_process";
import { readdirSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Image } from "../../core/image.ts";
import type { Engine, Sample } from "../../engine/engine.ts";
import { encodePng } from "../../images/png.ts";
import { type Served, serveTiny } from "../test-serve.ts";

const KEY = "tml-a-key-of-24-characters";
const python = process.env.SACCADE_TINKER_PYTHON;
const older = process.env.SACCADE_TINKER_OLDER;
const required = (process.env.SACCADE_REQUIRE ?? "").split(",");
const versions = [...(python ? ["0.36.0"] : []), ...(python && older ? readdirSync(older).sort() : [])];

test.runIf(required.includes("tinker"))("the Tinker SDKs are there when they are required", () => {
  expect(python, "SACCADE_TINKER_PYTHON names a Python with tinker and torch").toBeTruthy();
  expect(versions, "SACCADE_TINKER_OLDER names a folder with 0.23.0 and 0.25.0").toEqual([
    "0.36.0",
    "0.23.0",
    "0.25.0",
  ]);
});

function environment(version: string): NodeJS.ProcessEnv {
  const path = version === "0.36.0" ? {} : { PYTHONPATH: join(older as string, version) };
  return { ...process.env, TINKER_TELEMETRY: "1", HF_HUB_OFFLINE: "1", ...path };
}

/** What becomes of samples that take long. */
function watchLongSamples(engine: Engine): Promise<Sample>[] {
  const watched: Promise<Sample>[] = [];
  const open = engine.sampler.bind(engine);
  engine.sampler = async (folder) => {
    const sampler = await open(folder);
    const sample = sampler.sample.bind(sampler);
    sampler.sample = (prompt, params, context) => {
      const result = sample(prompt, params, context);
      if (params.maxTokens > 100) watched.push(result);
      return result;
    };
    return sampler;
  };
  return watched;
}

type Findings = {
  version: string;
  models: string[];
  supervised: number[];
  scores: { learner: number[]; sampler: (number | null)[] };
  samples: { tokens: number[]; logprobs: number[]; stop: string; again: number[] }[];
  prompt: { logprobs: (number | null)[]; top: ([id: number, logprob: number][] | null)[] };
  /** Not before 0.30 and 0.31. */
  targets?: { shape: number[]; first: number[]; second: number[] };
  others?: { shape: number[]; tokens: number[]; logprobs: number[] };
  snapshot_stays: boolean;
  policy: Record<string, [loss: number, formula: number]>;
  looked: Record<string, [forward: number, forwardBackward: number]>;
  saved_twice: { refused: string; losses: [first: number, kept: number, overwritten: number] };
  public: [published: string, then: string[], withdrawn: string, afterwards: string[], path: string];
  /** Not before 0.36. */
  search?: Record<string, unknown> | string;
  several_targets: number[][];
  custom: number[];
  paths: string[];
  went_on: number[];
  resumed: number[];
  fresh_optimizer: number[];
  greedy: { base: number[]; tuned: number[] };
  base_model: string;
  full: number[];
  run: unknown[];
  runs: number;
  checkpoints: unknown[][];
  left: string[];
  sessions: number;
  exported: string[];
  exported_rank: number;
  exported_numbers: number;
  failures: Record<string, string>;
  said: string[];
  /** Lines of its log about answers. */
  answers: number;
};

describe.each(versions)("the official SDK %s", (version) => {
  let served: Served;
  let found: Findings;
  let drawn: Promise<PromiseSettledResult<Sample>[]>;
  beforeAll(async () => {
    served = await serveTiny({ key: KEY });
    const watched = watchLongSamples(served.engine);
    const testImage = join(served.root, "image.png");
    const data = Uint8Array.from({ length: 64 * 64 * 3 }, (_, i) => (i * 13) % 256);
    await writeFile(testImage, encodePng(new Image(64, 64, data)));
    const script = fileURLToPath(new URL("../../../python/tinker_sdk.py", import.meta.url));
    const { stdout } = await promisify(execFile)(python as string, [script, served.url, testImage], {
      env: environment(version),
      maxBuffer: 64 * 1024 * 1024,
    });
    found = JSON.parse(stdout.trim().split("\n").at(-1) as string) as Findings;
    drawn = Promise.allSettled(watched);
  }, 300_000);
  afterAll(() => served?.close());

  test("learns from an image until the loss falls, and so does full tuning", () => {
    expect([found.version, found.models]).toEqual([version, ["policy"]]);
    expect(found.supervised.at(-1)!).toBeLessThan(found.supervised[0]! / 2);
    expect(found.full.at(-1)!).toBeLessThan(found.full[0]!);
  });

  test("gets the same log-probabilities from sampler and learner, finite at images", () => {
    const { learner, sampler } = found.scores;
    expect(sampler[0]).toBeNull();
    // The client's targets are 0 at an image's places, where the sampler has nothing to say.
    const places = sampler.flatMap((value, i) => (i > 0 && value !== 0 ? [i] : []));
    expect(places.length).toBeGreaterThan(8);
    expect(places.map((i) => sampler[i])).toEqual(places.map((i) => learner[i - 1]));
    expect(sampler.slice(1).every((value) => value !== null && Number.isFinite(value))).toBe(true);
  });

  test("gets the likeliest ids of a prompt, and the log-probabilities of ids that it names", () => {
    const { logprobs, top } = found.prompt;
    expect([top.length, top[0], logprobs[0]]).toEqual([15, null, null]);
    const ids = [40, 41, 42, 291, 0, 0, 0, 0, 292, 50, 60, 70, 80, 51, 61];
    for (const [place, row] of top.entries()) {
      if (place === 0 || logprobs[place] === 0) continue;
      expect(row).toHaveLength(3);
      const own = row!.find(([id]) => id === ids[place]);
      if (own !== undefined) expect(own[1]).toBeCloseTo(logprobs[place]!, 5);
      else expect(logprobs[place]!).toBeLessThanOrEqual(row![2]![1]);
    }
    // The learned ids lead.
    expect(top.slice(-4).map((row) => row![0]![0])).toEqual([70, 80, 51, 61]);
    if (version !== "0.36.0") {
      expect([found.targets, found.others]).toEqual([undefined, undefined]);
      return;
    }
    const { shape, first, second } = found.targets!;
    expect([shape, found.others!.shape]).toEqual([
      [14, 2],
      [14, 4],
    ]);
    const named = logprobs.flatMap((value, i) => (i > 0 && value !== 0 ? [i] : []));
    expect(named.map((i) => first[i - 1])).toEqual(named.map((i) => logprobs[i]));
    expect(second.every((value) => value < 0)).toBe(true);
    // Drawn at each place: where the prompt's own id is the likeliest by far it is drawn, with its log-probability at the temperature.
    const { tokens, logprobs: drawn } = found.others!;
    expect(tokens.slice(-16).filter((id, i) => id === ids[11 + Math.floor(i / 4)]).length).toBeGreaterThan(12);
    expect(new Set(tokens).size).toBeGreaterThan(8);
    expect(drawn.every((value, i) => value < 0 || ids[1 + Math.floor(i / 4)] === tokens[i] || tokens[i]! > 289)).toBe(
      true,
    );
  });

  test("samples are snapshots, the same for the same seed and different among themselves", () => {
    expect(found.samples.map(({ again }) => again)).toEqual(found.samples.map(({ tokens }) => tokens));
    expect(new Set(found.samples.map(({ tokens }) => String(tokens))).size).toBeGreaterThan(1);
    expect(
      found.samples.every(
        ({ tokens, logprobs, stop }) => tokens.length === 6 && logprobs.length === 6 && stop === "length",
      ),
    ).toBe(true);
    expect(found.snapshot_stays).toBe(true);
  });

  test("the policy losses are Tinker's sums", () => {
    expect(Object.keys(found.policy)).toEqual(["importance_sampling", "ppo", "cispo", "gspo", "dro"]);
    for (const [loss, formula] of Object.values(found.policy)) expect(loss).toBeCloseTo(formula, 4);
    expect(found.several_targets).toEqual([[15, 2], [15]]);
  });

  test("forward says the loss that forward_backward says of the same weights", () => {
    expect(Object.keys(found.looked)).toEqual(["cross_entropy", ...Object.keys(found.policy)]);
    for (const [forward, forwardBackward] of Object.values(found.looked)) {
      expect(forward).not.toBe(0);
      expect(forward).toBe(forwardBackward);
    }
  });

  test("a checkpoint's name is taken: saving it again is refused, and replaces it only with overwrite", () => {
    const { refused, losses } = found.saved_twice;
    expect(refused).toMatch(/RequestFailedError.*weights\/twice.*overwrite=True/s);
    expect(losses[1]).toBe(losses[0]);
    expect(losses[2]).not.toBe(losses[0]);
  });

  test("a checkpoint is published, and made private again", () => {
    const [published, then, withdrawn, afterwards, path] = found.public;
    expect([published, then, withdrawn, afterwards]).toEqual(["none", [path], "none", []]);
  });

  test.runIf(version === "0.36.0")("sessions are found by id, words, metadata and status, page by page", () => {
    const finished = { type: "client_finished", reason: { type: "errored" }, detail: "on purpose" };
    expect(found.search).toEqual({
      one: ["default", "saccade", finished, { team: "a" }],
      words: ["Nightly maze RUN"],
      none: [],
      id: ["nightly lake"],
      either: ["nightly lake", "Nightly maze RUN"],
      metadata: ["sokoban", "nightly lake", "Nightly maze RUN"],
      active: ["Nightly maze RUN"],
      errored: ["sokoban"],
      finished: ["sokoban", "nightly lake"],
      failed: [],
      pages: [["sokoban", "nightly lake"], ["Nightly maze RUN"]],
      others: [],
      all: [4, 4],
    });
  });

  test.runIf(version === "0.36.0")("a sample that the client cancels is no longer computed", async () => {
    const ends = await drawn;
    expect(ends).toHaveLength(256);
    expect(ends.filter(({ status }) => status === "fulfilled").length).toBeLessThan(256);
    expect(ends.filter((one) => one.status === "rejected" && /cancel/i.test(String(one.reason))).length).toBe(
      ends.filter(({ status }) => status === "rejected").length,
    );
  });

  test("a loss of the client's own falls", () => {
    expect(found.custom.at(-1)!).toBeLessThan(found.custom[0]!);
  });

  test("a checkpoint resumes as if nothing had happened, and without its optimizer otherwise", () => {
    expect(found.resumed).toEqual(found.went_on);
    expect(found.fresh_optimizer[0]).toBe(found.went_on[0]);
    expect(found.fresh_optimizer).not.toEqual(found.went_on);
    expect(found.greedy.tuned).not.toEqual(found.greedy.base);
    expect(found.base_model).toBe("policy");
  });

  test("runs, checkpoints and sessions are listed, kept for a time, deleted and exported", () => {
    expect(found.run).toEqual(["policy", true, 8, { renderer_name: "ours" }]);
    expect(found.checkpoints).toEqual([
      ["weights/first", "training", true],
      ["sampler_weights/first", "sampler", false],
    ]);
    expect(found.left).toEqual([found.paths[0]]);
    expect(found.runs).toBe(5);
    expect(found.sessions).toBeGreaterThan(0);
    expect([found.exported, found.exported_rank]).toEqual([["adapter_config.json", "adapter_model.safetensors"], 8]);
    expect(found.exported_numbers).toBeGreaterThan(8 * 32 * 4);
  });

  test("mistakes are exceptions at once, in words", () => {
    expect(found.failures["unknown loss"]).toMatch(/RequestFailedError.*no loss "no_such_loss"/s);
    expect(found.failures["short targets"]).toMatch(/RequestFailedError.*15 positions/s);
    expect(found.failures["unknown model"]).toMatch(/has the model "policy"/);
    expect(found.failures["unknown checkpoint"]).toMatch(/There is no checkpoint/);
    expect(found.failures["wrong expected tokens"]).toMatch(/expected to take 9 tokens, but it takes 4/);
  });

  test("the SDK had nothing to warn of, and tried nothing twice", () => {
    // Older ones announce an archive in a warning of their own.
    expect(found.said.filter((line) => !/^WARNING Creating checkpoint archive/.test(line))).toEqual([]);
    expect(found.answers).toBeGreaterThan(100);
  });
});
