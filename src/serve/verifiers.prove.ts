/**
 * `npm run prove -- verifiers`: verifiers 0.4 with its training client plays a world with images on our server. What it would train on, ids and
 * log-probabilities, is to the last bit what we sampled, and for the same ids and images the real vLLM samples the same. The client itself rounds
 * nothing; only its file of traces rounds log-probabilities to four decimals, so the proof switches that off. SACCADE_VERIFIERS_PYTHON: see
 * `python/neighbours/install.py`. SACCADE_VLLM_PYTHON: see `python/vllm_cpu.py`.
 */
import { execFile } from "node:child_process";
import { cp, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { startVllm } from "../engine/vllm/launch.ts";
import { serveTiny } from "./test-serve.ts";

const python = process.env.SACCADE_VERIFIERS_PYTHON;
const vllmPython = process.env.SACCADE_VLLM_PYTHON;
const PACKAGE = fileURLToPath(new URL("../../python/gym", import.meta.url));
const TASKS = 16;
/** Two implementations of the same float32 arithmetic. */
const WITHIN = 1e-4;
/** `vf-eval`, whose traces keep every digit. */
const EVAL = `
import verifiers.v1.graph as graph
graph.RECORD_FLOAT_DECIMALS = None
from verifiers.v1.cli.eval.main import main
main()
`;
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
      const { stdout, stderr } = await promisify(execFile)(python as string, ["-c", EVAL, ...args], {
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
      const answered = turns.map(({ sent, answer }) => {
        expect(sent.content_parts.length).toBeGreaterThan(0);
        const [choice] = answer.choices;
        return { ids: choice?.token_ids, logprobs: choice?.logprobs.content.map(({ logprob }) => logprob) };
      });
      const sorted = (all: readonly object[]) => all.map((one) => JSON.stringify(one)).sort();
      expect(sorted(kept)).toEqual(sorted(answered));
      console.log(
        `${TASKS} episodes, ${turns.length} turns, ${turns.reduce((n, { sent }) => n + sent.content_parts.length, 0)} images`,
      );
      if (vllmPython === undefined) {
        console.log("SACCADE_VLLM_PYTHON is not set: not compared with vLLM.");
        return;
      }
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
