import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { CheckpointStore } from "../run/checkpoints.ts";
import { loadEvents } from "../run/events.ts";
import { openRun } from "../run/folder.ts";
import { CheckpointUploads, HubError, uploadModel } from "./hub.ts";
import { NARROW, TestHub, TOKEN } from "./test-hub.ts";
import { type TestFolder, testFolder, tinyRecipe } from "./test-run.ts";
import { train } from "./train.ts";

/** More than one part of a stream. */
const WEIGHTS = Buffer.from(Uint8Array.from({ length: 300_000 }, (_, i) => (i * 7919) >> 3));

const hub = new TestHub();
let scratch = "";
let model = "";

beforeAll(async () => {
  await hub.open();
  scratch = await mkdtemp(join(tmpdir(), "saccade-hub-"));
  model = join(scratch, "model");
  await mkdir(model);
  await writeFile(join(model, "config.json"), '{"model_type":"qwen3_vl"}');
  await writeFile(join(model, "chat_template.jinja"), "{# ü #}");
  await writeFile(join(model, "model.safetensors"), WEIGHTS);
  await writeFile(join(model, "optimizer.safetensors"), "moments");
});

beforeEach(() => {
  hub.repos.clear();
  hub.large.clear();
});

afterAll(async () => {
  hub.close();
  await rm(scratch, { recursive: true, force: true });
});

const upload = (more: Partial<Parameters<typeof uploadModel>[0]> = {}) =>
  uploadModel({ folder: model, repo: "me/agent", token: TOKEN, hubUrl: hub.url, ...more });

describe("uploadModel", () => {
  test("makes the repository and commits every file of the model byte for byte, the optimizer's state left out", async () => {
    const done = await upload({ private: true, title: "step 40" });
    const repo = hub.repos.get("me/agent")!;
    expect(repo.visibility).toBe("private");
    expect(repo.titles).toEqual(["step 40"]);
    expect([...repo.files.keys()].sort()).toEqual(["chat_template.jinja", "config.json", "model.safetensors"]);
    expect(repo.files.get("model.safetensors")!.equals(WEIGHTS)).toBe(true);
    expect(repo.files.get("chat_template.jinja")!.toString()).toBe("{# ü #}");
    expect(done).toMatchObject({ commit: "c0ffee", url: `${hub.url}/me/agent`, folder: model });
  });

  test("commits to a repository that is there, and large files that are there are not sent again", async () => {
    await upload();
    const { sent } = hub;
    await upload();
    expect(hub.repos.get("me/agent")!.titles).toHaveLength(2);
    expect(hub.sent).toBe(sent);
    expect(hub.repos.get("me/agent")!.visibility).toBeUndefined();
  });

  test("writes with a token that may not make repositories to one that is there", async () => {
    await expect(upload({ token: NARROW })).rejects.toThrow(/403/);
    await upload();
    await upload({ token: NARROW });
    expect(hub.repos.get("me/agent")!.titles).toHaveLength(2);
  });

  test("takes the best checkpoint of a run, and the latest when none is best", async () => {
    const run = join(scratch, "run");
    const store = new CheckpointStore(run, { keep: 3 });
    const save = (step: number) => store.save(step, (folder) => cp(model, join(folder, "policy"), { recursive: true }));
    await save(1);
    await save(2);
    expect((await upload({ folder: run })).folder).toBe(join(store.folder, "step-2", "policy"));
    await store.offerBest(1, 0.9, "eval/success");
    expect((await upload({ folder: run })).folder).toBe(join(store.folder, "step-1", "policy"));
    const { folder, files } = await upload({ folder: join(store.folder, "step-2") });
    expect(folder).toBe(join(store.folder, "step-2", "policy"));
    expect(files).not.toContain("optimizer.safetensors");
  });

  test("sends the card of a checkpoint along, made anew from its run, with its images", async () => {
    const run = join(scratch, "carded");
    const folder = await openRun(run, { config: { name: "lake" } });
    folder.log("eval", 0, { "eval/success": 0.25 });
    folder.log("eval", 2, { "eval/success": 0.75 });
    await folder.close("finished");
    const store = new CheckpointStore(run, { keep: 3 });
    await store.save(2, async (at) => {
      await cp(model, join(at, "policy"), { recursive: true });
      await writeFile(join(at, "policy/episode.gif"), "GIF89a");
      await writeFile(join(at, "policy/README.md"), "an older card");
    });
    const { files } = await upload({ folder: run });
    expect(files).toEqual(expect.arrayContaining(["README.md", "curve.png", "episode.gif", "model.safetensors"]));
    const sent = hub.repos.get("me/agent")!.files;
    expect(sent.get("README.md")!.toString()).toMatch(/\| success, sampled \| 0\.250 \| 0\.750 \|/);
    expect(sent.get("curve.png")!.subarray(1, 4).toString()).toBe("PNG");
    expect(sent.get("episode.gif")!.toString()).toBe("GIF89a");
  });

  test("says what to do when the token is refused, and never repeats the token", async () => {
    const error = await upload({ token: "hf_wrong_secret" }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(HubError);
    expect(String(error)).toMatch(/401.*may write to me\/agent/);
    expect(String(error)).not.toContain("secret");
  });

  test("says that the hub could not be reached", async () => {
    await expect(upload({ hubUrl: "http://127.0.0.1:9" })).rejects.toThrow(/upload to http:\/\/127\.0\.0\.1:9 failed/);
  });

  test.each([
    ["a name without an owner", { repo: "agent" }, /<user or organization>\/<name>/],
    ["a token that is none", { token: "secret" }, /begins with hf_/],
    ["a folder without a model", { folder: tmpdir() }, /no model in/],
  ])("refuses %s before anything is sent", async (_, wrong, message) => {
    await expect(upload(wrong)).rejects.toThrow(message);
    expect(hub.repos.size).toBe(0);
  });
});

describe("A run with a hub", () => {
  let tiny: TestFolder;
  beforeAll(async () => {
    tiny = await testFolder();
  });
  beforeEach(() => {
    vi.stubEnv("HF_TOKEN", TOKEN);
    vi.stubEnv("HF_ENDPOINT", hub.url);
  });
  afterEach(() => vi.unstubAllEnvs());
  afterAll(() => tiny.remove());

  const run = async (name: string, plan: { repo: string; every?: number; private?: boolean }) => {
    const recipe = tinyRecipe(tiny.model, { steps: 5, checkpoint: { every: 1, keep: 1 }, hub: plan });
    const folder = join(tiny.root, name);
    const { finished, model: path } = await train({ recipe, folder });
    const { events } = await loadEvents(folder);
    return { finished, path, notes: events.flatMap(({ kind, message }) => (kind === "note" ? [message] : [])) };
  };

  test("uploads every n-th checkpoint and the last, though older ones are removed meanwhile", async () => {
    const { finished, path, notes } = await run("uploads", { repo: "me/run", every: 2, private: true });
    expect(finished).toBe(true);
    const repo = hub.repos.get("me/run")!;
    expect(repo.visibility).toBe("private");
    expect(repo.titles.map((title) => /step (\d+)/.exec(title)?.[1])).toEqual(["2", "4", "5"]);
    expect([...repo.files.keys()].sort()).toEqual((await readdir(path)).sort());
    expect(repo.files.get("model.safetensors")!.equals(await readFile(join(path, "model.safetensors")))).toBe(true);
    expect(notes).toHaveLength(3);
    expect(notes[2]).toMatch(/step 5 is at .*me\/run \(commit c0ffee\)/);
  });

  test.each([
    ["refuses the token", () => vi.stubEnv("HF_TOKEN", "hf_wrong"), /401/],
    ["is not there", () => vi.stubEnv("HF_ENDPOINT", "http://127.0.0.1:9"), /upload to .* failed/],
  ])("goes on to its end, with a note each time, when the hub %s", async (name, wrong, why) => {
    wrong();
    const { finished, notes } = await run(name, { repo: "me/run", every: 3 });
    expect(finished).toBe(true);
    expect(hub.repos.size).toBe(0);
    expect(notes).toHaveLength(2);
    for (const note of notes) expect(note).toMatch(why);
  });

  test("is refused at its start without a token", async () => {
    vi.stubEnv("HF_TOKEN", "");
    await expect(run("none", { repo: "me/run" })).rejects.toThrow(/begins with hf_/);
  });

  test("that is stopped sends nothing more and says so", async () => {
    const stop = new AbortController();
    const notes: string[] = [];
    const plan = { repo: "me/run", every: 1, private: false };
    const uploads = new CheckpointUploads(plan, { note: (message) => notes.push(message), signal: stop.signal });
    uploads.saved({ step: 1, path: model });
    stop.abort(new Error("interrupted"));
    await uploads.settled();
    uploads.saved({ step: 2, path: model });
    await uploads.settled();
    expect(notes).toEqual(["The checkpoint of step 1 was not uploaded: the run was stopped"]);
  });
});
