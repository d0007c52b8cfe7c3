/**
 * `npm run prove -- verifiers`: verifiers 0.4 with its training client plays a world with images on our server. The ids in its traces are
 * those that we sampled, the log-probabilities too within its rounding, and those of the real vLLM for the same ids and images. It needs a Python with `verifiers`,
 * `gymnasium` and `pillow` in SACCADE_VERIFIERS_PYTHON, and for the second half SACCADE_VLLM_PYTHON.
 */
import { execFile } from "node:child_process";
import { cp, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { startVllm } from "../engine/vllm/launch.ts";
import { serveTiny } from "./test-serve.ts";

const python = process.env.SACCADE_VERIFIERS_PYTHON;
const vllmPython = process.env.SACCADE_VLLM_PYTHON;
const PACKAGE = fileURLToPath(new URL("../../python/gym", import.meta.url));
const TASKS = 4;
const WITHIN = 1e-4;
const ROUNDED = 1e-2;
/** Vision ids of the tests' vocabulary, which we never sample. */
const logit_bias = { 291: -100, 292: -100, 293: -100, 294: -100, 295: -100 };
const GREEDY = { temperature: 0, max_tokens: 12 };

type Sent = { token_ids: number[]; content_parts: { type: string; url: string }[]; sampling_params: object };
type Answer = {
  prompt_token_ids: number[];
  mm_placeholders: object;
  choices: { token_ids: number[]; logprobs: { content: { logprob: number }[] } }[];
};
type Node = { sampled: boolean; token_ids: number[]; mask: boolean[]; logprobs: number[] };
type Trace = { traces: { nodes: Node[] }[] };
type Turn = { sent: Sent; answer: Answer };

async function post<T>(url: string, body: object): Promise<T> {
  const answer = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${text.slice(0, 500)}`);
  return JSON.parse(text) as T;
}

/** The tests' tokenizer with the two tokens of Qwen3-VL that it lacks and verifiers' renderer asks for; no prompt here has them. */
async function rendererFolder(folder: string, to: string): Promise<string> {
  await cp(folder, to, { recursive: true });
  const file = join(to, "tokenizer.json");
  const tokenizer = JSON.parse(await readFile(file, "utf8")) as { added_tokens: { id: number }[] };
  const next = Math.max(...tokenizer.added_tokens.map(({ id }) => id)) + 1;
  for (const [i, content] of ["<tool_response>", "</tool_response>"].entries()) {
    const more = { lstrip: false, rstrip: false, normalized: false, single_word: false, special: false };
    tokenizer.added_tokens.push({ id: next + i, content, ...more } as { id: number });
  }
  await writeFile(file, JSON.stringify(tokenizer));
  return to;
}

/** Passes requests on and keeps what `generate` was asked and answered. */
async function recorded(to: string, turns: Turn[]) {
  const { createServer } = await import("node:http");
  const proxy = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const body = Buffer.concat(parts).toString();
    const answer = await fetch(`${to}${request.url}`, {
      method: request.method ?? "GET",
      ...(body && { body, headers: { "content-type": "application/json" } }),
    });
    const text = await answer.text();
    if (request.url === "/inference/v1/generate" && answer.ok) {
      turns.push({ sent: JSON.parse(body) as Sent, answer: JSON.parse(text) as Answer });
    }
    response.writeHead(answer.status, { "content-type": "application/json" }).end(text);
  });
  await new Promise<void>((done) => proxy.listen(0, "127.0.0.1", done));
  const { port } = proxy.address() as { port: number };
  return { url: `http://127.0.0.1:${port}`, close: () => proxy.close() };
}

test.runIf(python)(
  "verifiers' training client samples a world with images here, with the ids and numbers of vLLM",
  async () => {
    const served = await serveTiny({
      environments: { names: ["frozen_lake"], workers: "inline" },
    });
    const turns: Turn[] = [];
    const proxy = await recorded(served.url, turns);
    const out = join(served.root, "out");
    try {
      await mkdir(out);
      const renderer = await rendererFolder(served.folder, join(served.root, "renderer"));
      const options = { maxTurns: 2, prompt: "brief", maxLongSide: 64 };
      const args = [
        ...["saccade_verifiers", "--env.taskset.world", "frozen_lake", "--env.taskset.url", served.url],
        ...["--env.taskset.options", JSON.stringify(options), "--env.taskset.num-tasks", String(TASKS)],
        ...[
          "--env.agent.harness.id",
          "saccade_verifiers",
          "--env.agent.runtime.type",
          "subprocess",
          "-m",
          "policy",
          "-c",
          "2",
        ],
        ...["--client.type", "train", "--client.base-url", `${proxy.url}/v1`],
        ...["--client.renderer-model-name", renderer, "--client.renderer.name", "qwen3-vl"],
        ...["--sampling.temperature", "0", "--sampling.max-tokens", String(GREEDY.max_tokens)],
        ...["--no-push", "-o", out],
      ];
      const env = { ...process.env, PYTHONPATH: PACKAGE, HF_HUB_OFFLINE: "1" };
      const { stdout, stderr } = await promisify(execFile)(join(dirname(python as string), "vf-eval"), args, {
        env,
        maxBuffer: 1 << 26,
      });
      const files = (await readdir(out, { recursive: true })).filter((name) => name.endsWith("traces.jsonl"));
      const lines = (await readFile(join(out, files[0] as string), "utf8")).trim().split("\n");
      const traces = lines.map((line) => JSON.parse(line) as Trace);
      if (turns.length === 0) throw new Error(`${stdout}\n${stderr}`);
      expect(traces).toHaveLength(TASKS);
      const nodes = traces.flatMap(({ traces: inner }) =>
        inner.flatMap((one) => one.nodes.filter(({ sampled }) => sampled)),
      );
      const kept = nodes.map(({ token_ids, mask, logprobs }) => ({
        ids: token_ids.filter((_, i) => mask[i]),
        logprobs,
      }));
      expect(kept).toHaveLength(turns.length);
      for (const { sent, answer } of turns) {
        expect(sent.content_parts.length).toBeGreaterThan(0);
        const ids = answer.choices[0]?.token_ids as number[];
        const logprobs = answer.choices[0]?.logprobs.content.map(({ logprob }) => logprob) as number[];
        // What verifiers keeps for training is what was sampled; its file rounds the numbers.
        const same = kept.some(
          (one) =>
            JSON.stringify(one.ids) === JSON.stringify(ids) &&
            one.logprobs.every((logprob, i) => Math.abs(logprob - (logprobs[i] as number)) < ROUNDED),
        );
        expect([ids, same]).toEqual([ids, true]);
      }
      console.log(
        `${TASKS} episodes, ${turns.length} turns, ${turns.reduce((n, { sent }) => n + sent.content_parts.length, 0)} images`,
      );
      if (vllmPython === undefined) return;
      const vllm = await startVllm({ python: vllmPython, model: served.folder, contextTokens: 1024, images: 24 });
      try {
        let worst = 0;
        for (const { sent, answer } of turns) {
          const body = { ...sent, model: undefined, sampling_params: { ...sent.sampling_params, logit_bias } };
          const theirs = await post<Answer>(`${vllm.url}/inference/v1/generate`, body);
          expect(theirs.prompt_token_ids).toEqual(answer.prompt_token_ids);
          expect(theirs.mm_placeholders).toEqual(answer.mm_placeholders);
          expect(theirs.choices[0]?.token_ids).toEqual(answer.choices[0]?.token_ids);
          for (const [i, { logprob }] of (theirs.choices[0]?.logprobs.content ?? []).entries()) {
            worst = Math.max(worst, Math.abs(logprob - (answer.choices[0]?.logprobs.content[i]?.logprob as number)));
          }
        }
        console.log(`largest difference to vLLM: ${worst}`);
        expect(worst).toBeLessThanOrEqual(WITHIN);
      } finally {
        await vllm.close();
      }
    } finally {
      proxy.close();
      await served.close();
      await rm(out, { recursive: true, force: true });
    }
  },
);
