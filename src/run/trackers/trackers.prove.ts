/**
 * `npm run prove -- trackers`: what TensorBoard's own reader and a real MLflow server return of a run that trained, compared with the run
 * folder, and what W&B and Trackio import of it. SACCADE_TRACKERS_PYTHON: see `python/neighbours/install.py`.
 */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Image } from "../../core/image.ts";
import { encodePng } from "../../images/png.ts";
import { type PythonServer, startPython } from "../../train/test-python-server.ts";
import { loadEvents, readEvents } from "../events.ts";
import { openRun } from "../folder.ts";
import { record, testImage } from "../test-run.ts";
import { readTrajectories } from "../trajectories.ts";
import { filmStrip, LiveTrackers } from "./follow.ts";
import { openTrackers } from "./open.ts";

const python = process.env.SACCADE_TRACKERS_PYTHON ?? "";
const RUN = "runs/quickstart";
const PAGE = fileURLToPath(new URL("../../../docs/guide/trackers.md", import.meta.url));
let root: string;
/** Scalars that were written, those that a resumed run made void included: TensorBoard leaves them out, Trackio does not. */
let points = 0;
let server: PythonServer | undefined;
let url: string;

beforeAll(async () => {
  if (python === "") return;
  root = await mkdtemp(join(tmpdir(), "saccade-trackers-"));
  const store = ["--backend-store-uri", `sqlite:///${root}/mlflow.db`, "--artifacts-destination", join(root, "files")];
  server = await startPython(
    (port) => [
      python,
      "-m",
      "mlflow",
      "server",
      "--host",
      "127.0.0.1",
      "--port",
      `${port}`,
      "--workers",
      "1",
      ...store,
    ],
    { env: { MLFLOW_DISABLE_TELEMETRY: "true" } },
  );
  url = server.url;
});
afterAll(async () => {
  server?.close();
  if (python !== "") await rm(root, { recursive: true, force: true });
});

const READ = `
import hashlib, json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util
a = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "images": 0, "histograms": 0, "tensors": 0}); a.Reload()
tags = a.Tags()
out = {"scalars": {t: [[e.step, e.value] for e in a.Scalars(t)] for t in tags["scalars"]},
       "images": {t: [[e.step, e.width, e.height, hashlib.sha256(e.encoded_image_string).hexdigest()] for e in a.Images(t)] for t in tags["images"]},
       "histograms": {t: [[e.step, e.histogram_value.num] for e in a.Histograms(t)] for t in tags["histograms"]},
       "texts": {t: [[e.step, tensor_util.make_ndarray(e.tensor_proto)[0].decode()] for e in a.Tensors(t)] for t in tags["tensors"]}}
if len(sys.argv) > 2:
    from mlflow.tracking import MlflowClient
    c = MlflowClient(sys.argv[2]); [r] = c.search_runs([c.get_experiment_by_name("proof").experiment_id])
    out["mlflow"] = {"status": r.info.status, "name": r.info.run_name, "params": r.data.params,
        "metrics": {k: [[m.step, m.value] for m in c.get_metric_history(r.info.run_id, k)] for k in r.data.metrics},
        "files": {f.path: hashlib.sha256(open(c.download_artifacts(r.info.run_id, f.path), "rb").read()).hexdigest()
                  for folder in c.list_artifacts(r.info.run_id, "episodes") for f in c.list_artifacts(r.info.run_id, folder.path)}, "tags": dict(r.data.tags)}
print(json.dumps(out).replace("NaN", "null").replace("Infinity", "1e999"))
`;

type Points = Record<string, [number, number][]>;
type Read = {
  scalars: Points;
  images: Record<string, [number, number, number, string][]>;
  histograms: Points;
  texts: Record<string, [number, string][]>;
  mlflow: {
    status: string;
    name: string;
    params: Record<string, string>;
    metrics: Points;
    files: Record<string, string>;
    tags: Record<string, string>;
  };
};

test.runIf(python)(
  "TensorBoard's reader and MLflow's client return every scalar, image, text and histogram of a run that was killed and resumed",
  async () => {
    const folder = join(root, RUN);
    const config = { seed: 3, optimizer: { name: "muon", learningRate: 0.002 }, envs: [{ env: "frozen_lake" }] };
    const trackers = () => openTrackers(["tensorboard", { name: "mlflow", url, experiment: "proof" }]);
    const problems: string[] = [];
    const play = async (from: number, to: number, status: "finished" | "stopped") => {
      const run = await openRun(folder, { config });
      await run.begin();
      const live = new LiveTrackers(folder, trackers(), (problem) => problems.push(problem), 50);
      for (let step = from; step <= to; step++) {
        const metrics = { "train/success": Math.sin(step), "train/reward": step / 7, "train/success/maze, easy": step };
        run.log("train", step, metrics, {
          data: {
            rewards: [
              [0, 3],
              [1, step],
            ],
          },
        });
        if (step % 10 === 0) {
          const episodes = [0, 1].map((sibling) => record(step, sibling, { split: "eval" }));
          run.keep(
            step,
            episodes,
            (episode) => episode,
            ({ sibling }) => [testImage(sibling)],
          );
          await sleep(50);
          run.log("eval", step, { "eval/success": step / 40 });
          run.log("alarm", step, {}, { message: `alarm at ${step} ✗` });
        }
        if (step === 20) await run.saveCheckpoint(step, (path) => writeFile(join(path, "model"), "x"), { step });
        await sleep(5);
      }
      await run.close(status);
      await live.close(status);
    };
    await play(1, 27, "stopped");
    await play(21, 40, "finished");
    expect(problems).toEqual([]);
    const { stdout } = await promisify(execFile)(python, ["-c", READ, join(folder, "tensorboard"), url], {
      maxBuffer: 64 << 20,
    });
    const read = JSON.parse(stdout) as Read;
    const { events } = await loadEvents(folder);
    const names = new Set(events.flatMap(({ metrics }) => Object.keys(metrics)));
    let compared = 0;
    for (const name of names) {
      const wanted = new Map(
        events.flatMap(({ step, metrics }) => (name in metrics ? [[step, metrics[name]]] : [])) as [number, number][],
      );
      const got = new Map(read.scalars[name]);
      expect([name, [...got.keys()].sort((a, b) => a - b)]).toEqual([name, [...wanted.keys()].sort((a, b) => a - b)]);
      for (const [step, value] of wanted) {
        expect(got.get(step)).toBeCloseTo(value, 5);
        compared++;
      }
      const theirs = new Map(read.mlflow.metrics[name.replace(/[^\w\-. /]/g, "_")]);
      for (const [step, value] of wanted) expect(theirs.get(step)).toBe(value);
    }
    const shown: Record<string, [number, number, number, string][]> = {};
    const files: Record<string, string> = {};
    for (const step of [10, 20, 30, 40]) {
      for (const [i, episode] of (await readTrajectories(folder, step)).entries()) {
        const strip = (await filmStrip(folder, episode)) as Image;
        const digest = createHash("sha256").update(encodePng(strip)).digest("hex");
        const tag = `episodes/${i}`;
        shown[tag] = [...(shown[tag] ?? []), [step, strip.width, strip.height, digest]];
        files[`${tag}/step-${step}.png`] = digest;
      }
    }
    expect(Object.keys(files)).toHaveLength(8);
    expect(read.images).toEqual(shown);
    expect(read.mlflow.files).toEqual(files);
    expect(read.histograms.rewards?.at(-1)).toEqual([40, 43]);
    expect(read.texts["text/alarm"]?.at(-1)).toEqual([40, "alarm at 40 ✗"]);
    expect(read.mlflow).toMatchObject({ status: "FINISHED", name: "quickstart" });
    expect(read.mlflow.params).toMatchObject({ "optimizer.learningRate": "0.002", "envs.0.env": "frozen_lake" });
    expect(read.mlflow.tags["text/alarm.40"]).toBe("alarm at 40 ✗");
    for await (const { event } of readEvents(folder)) points += Object.keys(event.metrics).length;
    process.stdout.write(
      `${compared} scalars and ${Object.keys(files).length} images equal in TensorBoard and MLflow\n`,
    );
  },
);

test.runIf(python)("the programs of the guide bring the run to W&B and Trackio", async () => {
  const programs = [...readFileSync(PAGE, "utf8").matchAll(/```python\n([\s\S]*?)```/g)].map(
    ([, code]) => code as string,
  );
  const env = { ...process.env, HF_HUB_OFFLINE: "1", TRACKIO_DIR: join(root, "trackio"), WANDB_MODE: "offline" };
  const run = async (program: string, args: readonly string[]) => {
    const { stdout, stderr } = await promisify(execFile)(program, args, { cwd: root, env, maxBuffer: 64 << 20 });
    return stdout + stderr;
  };
  const [wandb, trackio] = await Promise.all(programs.map((code) => run(python, ["-c", code])));
  expect(wandb).toContain("You can sync this run to the cloud");
  expect(trackio).toContain(`Total imported events: ${points}`);
  const sync = join(dirname(python), "wandb");
  expect(await run(sync, ["sync", "--dry-run"])).toContain("Would sync 1 run(s)");
  // When this changes, the guide is to say so.
  expect(await run(sync, ["sync", join(RUN, "tensorboard")])).toContain("No runs to sync");
  process.stdout.write(`${points} scalars imported by Trackio\n`);
});
