/** The launch files parse, refer to things that are in them, and call Saccade with names and flags that it has. Nothing is launched. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { vllmCommand } from "../../src/cli/vllm.ts";
import { checkEngineConfig, type EngineConfig, packageFolder } from "../../src/engine/index.ts";
import { loadRecipe } from "../../src/train/index.ts";

const read = (name: string) => readFileSync(join(import.meta.dirname, name), "utf8");
const script = (text: string) => spawnSync("bash", ["-n"], { input: text, encoding: "utf8" });
const workerFlags = new Set(
  [
    ...readFileSync(join(packageFolder(), "saccade_torch/__main__.py"), "utf8").matchAll(
      /add_argument\("(--[a-z-]+)"/g,
    ),
  ].map((match) => match[1]),
);
/** Every `saccade train NAME` names a recipe, every `--set` key stands in it or may. */
function checkTrain(words: readonly string[]): void {
  expect(words.slice(0, 2)).toEqual(["saccade", "train"]);
  expect(loadRecipe(words[2] as string).name).toBe(words[2]);
  const known = ["--out", "--engine", "--set"];
  expect(words.filter((word) => word.startsWith("--") && !known.includes(word))).toEqual([]);
}

describe("slurm.sbatch", () => {
  const text = read("slurm.sbatch");

  test("is a script, with options that sbatch knows before its first command", () => {
    expect(script(text)).toMatchObject({ status: 0, stderr: "" });
    const lines = text.split("\n");
    const first = lines.findIndex((line) => line !== "" && !line.startsWith("#"));
    const options = lines.flatMap((line, i) => (line.startsWith("#SBATCH ") ? [{ line, i }] : []));
    const known = "job-name nodes ntasks-per-node gpus-per-node cpus-per-task mem time signal requeue output".split(
      " ",
    );
    expect(options.map(({ line }) => /^#SBATCH --([a-z-]+)(=\S+)?$/.exec(line)?.[1])).toEqual(known);
    expect(Math.max(...options.map(({ i }) => i))).toBeLessThan(first);
  });

  test("starts one torchrun on each machine and a worker with flags that it has; the conductor attaches to its port", () => {
    expect(text).toContain("--ntasks-per-node=1");
    const worker = /-m saccade_torch (.*?) &/s.exec(text)?.[1] ?? "";
    const flags = [...worker.matchAll(/--[a-z-]+/g)].map(([flag]) => flag);
    expect(flags.length).toBeGreaterThan(2);
    expect(flags.filter((flag) => !workerFlags.has(flag))).toEqual([]);
    const port = /--port (\d+)/.exec(worker)?.[1];
    expect(text).toContain(`--engine "torch@$HEAD:${port}"`);
    expect(() => checkEngineConfig(`torch@head:${port}`)).not.toThrow();
  });
});

describe("kubernetes.yaml", () => {
  type Pod = {
    containers: {
      name: string;
      image: string;
      command: string[];
      args?: string[];
      resources: { limits: Record<string, number> };
      volumeMounts: { name: string; mountPath: string }[];
      ports?: { containerPort: number }[];
    }[];
    volumes: { name: string; persistentVolumeClaim?: { claimName: string } }[];
    restartPolicy?: string;
  };
  type Doc = {
    apiVersion: string;
    kind: string;
    metadata: { name: string };
    spec: {
      template?: { metadata?: { labels: Record<string, string> }; spec: Pod };
      selector?: { matchLabels?: Record<string, string>; app?: string };
      serviceName?: string;
      replicas?: number;
      ports?: { port: number }[];
    };
  };
  const parsed = parseAllDocuments(read("kubernetes.yaml"));
  const docs = parsed.map((document) => document.toJS() as Doc);
  const of = (kind: string) => docs.find((doc) => doc.kind === kind) as Doc;

  test("is YAML with the fields of its kinds", () => {
    expect(parsed.flatMap(({ errors }) => errors)).toEqual([]);
    expect(docs.map(({ apiVersion, kind }) => `${apiVersion} ${kind}`)).toEqual([
      "v1 PersistentVolumeClaim",
      "v1 Service",
      "apps/v1 StatefulSet",
      "batch/v1 Job",
    ]);
    for (const { metadata } of docs) expect(metadata.name).toMatch(/^[a-z][a-z0-9-]*$/);
    expect(of("Job").spec.template?.spec.restartPolicy).toBe("OnFailure");
  });

  test("selectors, services, claims and mounts lead to what is there", () => {
    const set = of("StatefulSet").spec;
    expect(set.template?.metadata?.labels).toMatchObject(set.selector?.matchLabels ?? { none: "" });
    expect(of("Service").spec.selector).toEqual(set.selector?.matchLabels);
    expect(set.serviceName).toBe(of("Service").metadata.name);
    for (const { spec } of [of("StatefulSet"), of("Job")]) {
      const pod = spec.template?.spec as Pod;
      for (const { volumeMounts, resources } of pod.containers) {
        for (const { name } of volumeMounts) expect(pod.volumes.map((volume) => volume.name)).toContain(name);
        expect(resources.limits["nvidia.com/gpu"]).toBeGreaterThan(0);
      }
      const claims = pod.volumes.flatMap(({ persistentVolumeClaim: claim }) => claim?.claimName ?? []);
      expect(claims).toEqual([of("PersistentVolumeClaim").metadata.name]);
    }
  });

  test("the samplers' command and the run's engine are ones that Saccade takes, and they meet", () => {
    const [vllm, train] = ["StatefulSet", "Job"].map((kind) => of(kind).spec.template?.spec.containers[0]);
    const start = vllmCommand().commands.find((command) => command.name() === "start");
    const flags = vllm?.command.filter((word) => word.startsWith("--")) ?? [];
    expect(flags.filter((flag) => !start?.options.some(({ long }) => long === flag))).toEqual([]);
    checkTrain(train?.command ?? []);
    expect(train?.command.at(-1)).toBe("--engine");
    const engine = JSON.parse(train?.args?.[0] ?? "") as {
      learner: { processes: number };
      sampler: { vllm: string[]; exchange: string };
    };
    expect(() => checkEngineConfig(engine as unknown as EngineConfig)).not.toThrow();
    const { replicas, serviceName } = of("StatefulSet").spec;
    const port = vllm?.ports?.[0]?.containerPort;
    const urls = Array.from({ length: replicas ?? 0 }, (_, i) => `http://sampler-${i}.${serviceName}:${port}`);
    expect(engine.sampler.vllm).toEqual(urls);
    expect(engine.learner.processes).toBe(train?.resources.limits["nvidia.com/gpu"]);
    // Weights are handed over where both see them.
    const mounts = [vllm, train].map((container) => container?.volumeMounts[0]?.mountPath);
    expect(new Set(mounts).size).toBe(1);
    expect(engine.sampler.exchange.startsWith(`${mounts[0]}/`)).toBe(true);
  });
});

describe("skypilot.yaml", () => {
  const task = parse(read("skypilot.yaml")) as Record<string, unknown> & { setup: string; run: string };

  test("has the fields of a task, and its scripts are scripts", () => {
    expect(Object.keys(task)).toEqual(["name", "resources", "file_mounts", "workdir", "setup", "run"]);
    expect(task.resources).toMatchObject({ accelerators: { "H100:8": null }, use_spot: true });
    for (const part of [task.setup, task.run]) expect(script(part)).toMatchObject({ status: 0, stderr: "" });
  });

  test("the recipe's GPUs are those that are asked for, and runs lie in what outlasts the machine", () => {
    const line = task.run.split("\n").find((text) => text.startsWith("saccade")) ?? "";
    checkTrain(line.split(" "));
    expect(line).toContain(`--out ${Object.keys(task.file_mounts as object)[0]}/`);
    expect(loadRecipe(task.name as string).engine).toMatchObject({ name: "torch", processes: 8 });
    expect(task.setup).toContain((loadRecipe(task.name as string).model as string).replace("hf:", "hf download "));
  });
});
