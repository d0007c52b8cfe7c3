/** For tests: clients that train on a server of its own process, which is killed and started again under them. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdir, readdir, stat } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { readSafetensors } from "../../model/safetensors.ts";
import { type Datum, ModelInput, ServiceClient } from "../../tinker/index.ts";
import { type CheckpointRow, Journal } from "./journal.ts";

export type Plan = {
  readonly model: string;
  readonly store: string;
  /** Of ours, and with the official SDK of this Python. */
  readonly clients: number;
  readonly sdks: number;
  readonly python: string;
  readonly steps: number;
  /** Kills are spread over the steps of our clients; each falls so many milliseconds after its step was done. */
  readonly kills: readonly number[];
};
export type Client = { readonly model: string; readonly losses: readonly number[]; readonly tokens: readonly number[] };
export type Story = {
  readonly clients: readonly Client[];
  /** Of each client's last checkpoint: hashes of its files, weights and optimizer. */
  readonly files: readonly Readonly<Record<string, string>>[];
  readonly kills: number;
  /** Checkpoints that were looked at after a kill. */
  readonly seen: number;
  /** What was wrong with them. */
  readonly broken: readonly string[];
};

const path = (name: string) => fileURLToPath(new URL(`../../../${name}`, import.meta.url));

export async function live(plan: Plan): Promise<Story> {
  const { store, kills } = plan;
  await mkdir(store, { recursive: true });
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  let server = await start(plan, port);
  let isDone = false;
  let steps = 0;
  const onStep = () => {
    steps += 1;
  };
  const working = Promise.all([
    ...Array.from({ length: plan.clients }, (_, i) => train(url, i, plan.steps, onStep)),
    ...Array.from({ length: plan.sdks }, (_, i) => trainWithSdk(plan, url, plan.clients + i)),
  ]).finally(() => {
    isDone = true;
  });
  // Its error is met at the end.
  working.catch(() => {});
  let count = 0;
  let seen = 0;
  const broken: string[] = [];
  for (const [i, after] of kills.entries()) {
    const due = (i / kills.length) * plan.clients * plan.steps;
    while (steps < due && !isDone) await pause(5);
    await pause(after);
    if (isDone) break;
    await kill(server);
    count += 1;
    const found = await inspect(store);
    seen += found.seen;
    broken.push(...found.broken);
    server = await start(plan, port);
  }
  try {
    const clients = await working;
    await kill(server);
    const files = await Promise.all(clients.map(({ model }) => lastFiles(store, model)));
    return { clients, files, kills: count, seen, broken };
  } finally {
    await kill(server);
  }
}

async function start({ model, store }: Plan, port: number): Promise<ChildProcess> {
  const args = ["serve", model, "--name", "policy", "--store", store, "--port", String(port)];
  const child = spawn(process.execPath, [path("dist/cli.js"), ...args], { stdio: ["ignore", "pipe", "inherit"] });
  await new Promise<void>((done, fail) => {
    child.stdout?.once("data", () => done());
    child.once("exit", (code) => fail(new Error(`the server ended with ${code} before it answered`)));
  });
  return child;
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((done) => child.once("exit", done));
  child.kill("SIGKILL");
  await ended;
}

async function train(url: string, index: number, steps: number, onStep: () => void): Promise<Client> {
  const service = new ServiceClient({ base_url: url, api_key: "tml-any", patience_ms: 1_200_000 });
  const client = await service.createLoraTrainingClient("policy", { rank: 2, seed: index });
  const losses: number[] = [];
  let sampler = await client.saveWeightsAndGetSamplingClient();
  for (let step = 0; step < steps; step++) {
    const learn = client.forwardBackward([datum(index, step)], "cross_entropy");
    const move = client.optimStep({ learning_rate: 0.01 });
    losses.push((await learn).metrics["loss:sum"] as number);
    await move;
    onStep();
    if (step % 3 === 2) await client.saveState("state", { overwrite: true });
    if (step === steps >> 1) sampler = await client.saveWeightsAndGetSamplingClient();
  }
  const greedy = { max_tokens: 4, temperature: 0, stop: [] };
  const { sequences } = await sampler.sample(ModelInput.fromInts([40, 41]), greedy);
  await client.saveState("final");
  return { model: client.model_id, losses, tokens: Array.from(sequences[0]?.tokens ?? []) };
}

function datum(index: number, step: number): Datum {
  const ids = Array.from({ length: 9 }, (_, place) => 40 + ((index * 7 + step * 3 + place * 5) % 200));
  return {
    model_input: ModelInput.fromInts(ids.slice(0, -1)),
    loss_fn_inputs: { target_tokens: ids.slice(1), weights: new Float32Array(8).fill(1) },
  };
}

async function trainWithSdk({ python, steps }: Plan, url: string, index: number): Promise<Client> {
  const args = [path("python/tinker_steps.py"), url, String(index), String(steps)];
  const { stdout } = await promisify(execFile)(python, args, { maxBuffer: 16 * 1024 * 1024 });
  return JSON.parse(stdout.trim().split("\n").at(-1) as string) as Client;
}

/** Every checkpoint that the journal names, read as a client would get it. */
async function inspect(store: string): Promise<{ seen: number; broken: string[] }> {
  const journal = await Journal.open(join(store, "tinker"));
  try {
    const rows = journal.all<CheckpointRow>("SELECT * FROM checkpoints");
    const broken: string[] = [];
    for (const { folder: name, bytes } of rows) {
      const folder = journal.place(name);
      try {
        const files = await readdir(folder);
        const sizes = await Promise.all(files.map(async (file) => (await stat(join(folder, file))).size));
        if (sizes.reduce((sum, size) => sum + size, 0) !== bytes) broken.push(`${folder}: other sizes`);
        await readSafetensors(join(folder, "adapter_model.safetensors"));
        await readSafetensors(`${folder}.state.safetensors`);
      } catch (error) {
        broken.push(`${folder}: ${String(error)}`);
      }
    }
    return { seen: rows.length, broken };
  } finally {
    await journal.close();
  }
}

/** Weights, moments and the number of steps; how often weights were published is no part of them. */
async function lastFiles(store: string, model: string): Promise<Record<string, string>> {
  const place = join(store, "tinker", model.replaceAll(":", "_"), "weights", "final");
  const names = (await readdir(place, { recursive: true })).filter((name) => name.endsWith(".safetensors"));
  const hashes = names.map(async (name) => {
    const hash = createHash("sha256");
    for (const [tensor, { data }] of await readSafetensors(join(place, name))) {
      if (tensor !== "version" && tensor !== "moved") hash.update(tensor).update(Buffer.from(data.buffer));
    }
    return [name.replace(/^\d+\W/, ""), hash.digest("hex")] as const;
  });
  return Object.fromEntries(await Promise.all(hashes));
}

async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((done) => probe.listen(0, "127.0.0.1", done));
  const { port } = probe.address() as { port: number };
  await new Promise((done) => probe.close(done));
  return port;
}

function pause(ms: number): Promise<void> {
  return new Promise((done) => setTimeout(done, ms));
}
