/**
 * OpenAI's computer tool on a real page: a server that speaks its part of the Responses API, as strict about calls and screenshots as the provider, points at what the
 * page's oracle would click, in pixels of the image it was sent. The image is smaller than the page and the page counts in thousandths, so only scaled clicks succeed.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { imagesOf } from "../core/index.ts";
import { makeEnv, WorldEnv } from "../envs/index.ts";
import { systemBrowser } from "../envs/pages/find-browser.ts";
import { decodePng } from "../images/png.ts";
import "../index.ts";
import { evaluateModel } from "../evaluate/evaluate.ts";
import { openModel } from "../evaluate/models.ts";
import { evaluationOptions } from "./eval.ts";

const required = (process.env.SACCADE_REQUIRE ?? "").split(",").includes("browser");
const SEEDS = [3, 4];
const SMALL = { maxLongSide: 200 };

type Item = Record<string, unknown>;
type Action = { readonly name: string; readonly payload: readonly number[] };

describe.runIf(required || systemBrowser() !== undefined)("a hosted model's computer tool", () => {
  let root = "";
  let server: Server;
  let url = "";
  const complaints: string[] = [];
  const bodies: Item[] = [];
  const plan = new Map<string, Action>();
  let batched = false;

  /** The action for a screenshot as the tool says it, in that image's pixels. */
  function answer(body: Item): Item[] {
    const items = body.input as Item[];
    const demand = (holds: boolean, what: string) => void (holds || complaints.push(what));
    demand(
      items.every(({ role }) => role !== "system" && role !== "developer"),
      "told of a function it does not have",
    );
    const calls = items.filter(({ type }) => type === "computer_call");
    const outputs = items.filter(({ type }) => type === "computer_call_output");
    demand(calls.length === outputs.length, "a call without its screenshot");
    for (const [i, call] of calls.entries()) {
      demand(outputs[i]?.call_id === call.call_id, "a screenshot of another call");
      demand(items[items.indexOf(call) - 1]?.type === "reasoning", "a call without the thoughts before it");
      demand(
        JSON.stringify(outputs[i]?.acknowledged_safety_checks) === JSON.stringify(call.pending_safety_checks),
        "an unanswered check",
      );
    }
    const [tool] = body.tools as Item[];
    if (!batched)
      demand(tool?.display_width === 200 && tool.display_height === 160 && body.truncation === "auto", "wrong display");
    else demand(tool?.type === "computer", "wrong tool");
    const images = items.flatMap((item) =>
      item.type === "computer_call_output"
        ? [(item.output as Item).image_url]
        : ((item.content ?? []) as Item[]).flatMap(({ type, image_url }) =>
            type === "input_image" ? [image_url] : [],
          ),
    );
    const shown = images.at(-1);
    const image = decodePng(Buffer.from(String(shown).split(",")[1] ?? "", "base64"));
    const action = plan.get(image.hash);
    if (action === undefined)
      return [
        {
          type: "message",
          id: "m",
          role: "assistant",
          status: "completed",
          content: [{ type: "output_text", text: "Done.", annotations: [] }],
        },
      ];
    const [x = 0, y = 0] = action.payload;
    const click = { type: "click", button: "left", x: (x * image.width) / 320, y: (y * image.height) / 256 };
    return [
      { type: "reasoning", id: `rs_${calls.length}`, summary: [] },
      {
        type: "computer_call",
        id: `cc_${calls.length}`,
        call_id: `call_${image.hash.slice(0, 8)}_${calls.length}`,
        status: "completed",
        pending_safety_checks: [{ id: "check", code: "malicious_instructions", message: "careful" }],
        ...(batched ? { actions: [{ type: "wait" }, click] } : { action: click }),
      },
    ];
  }

  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), "saccade-computer-"));
    complaints.length = 0;
    bodies.length = 0;
    server = createServer(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const body = JSON.parse(Buffer.concat(chunks).toString()) as Item;
      bodies.push(body);
      const output = answer(body);
      response.writeHead(200, { "content-type": "application/json" }).end(
        JSON.stringify({
          id: "resp_1",
          object: "response",
          created_at: 1_760_000_000,
          status: "completed",
          error: null,
          incomplete_details: null,
          model: body.model,
          output,
          usage: {
            input_tokens: 9,
            input_tokens_details: { cached_tokens: 0 },
            output_tokens: 4,
            output_tokens_details: { reasoning_tokens: 0 },
            total_tokens: 13,
          },
        }),
      );
    });
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
    // What the oracle clicks, by the frame as the model gets it.
    const env = await makeEnv("pages/shop", { ...SMALL, protocol: "keyword" });
    if (!(env instanceof WorldEnv)) throw new Error("a page is a world");
    for (const seed of SEEDS) {
      let messages = await env.reset(seed);
      for (let over = false; !over; ) {
        const [action] = (await env.world.solve?.()) ?? [];
        plan.set(imagesOf(messages.at(-1) as never)[0]?.hash ?? "", action as unknown as Action);
        const step = await env.step(await env.oracleReply());
        over = step.terminated || step.truncated;
        messages = [...step.observation];
      }
    }
    await env.close();
  }, 60_000);
  afterEach(async () => {
    server.close();
    await rm(root, { recursive: true, force: true });
  });

  test.each([
    ["computer-use-preview", false, {}],
    ["computer-use-preview", false, { scale: 1000 }],
    ["gpt-next", true, { scale: 1000 }],
  ])(
    "%s (several actions at once: %s, %j) clicks where it points",
    async (name, several, scale) => {
      batched = several;
      const set = Object.entries({ ...SMALL, ...scale }).map(([key, value]) => `${key}=${value}`);
      const flags = {
        env: ["pages/shop"],
        tickets: [],
        plan: [],
        repeats: 1,
        concurrency: 2,
        timeout: 60,
        set,
        computerUse: true,
      };
      const { report } = await evaluateModel({
        ...evaluationOptions(`openai:${name}`, flags),
        baseUrl: url,
        environment: { OPENAI_API_KEY: "key" },
        seeds: SEEDS,
        out: join(root, "out"),
      });
      expect(complaints).toEqual([]);
      expect(report.complete).toBe(true);
      expect(report.envs.map(({ success }) => success.value)).toEqual([1]);
      expect(bodies.length).toBeGreaterThanOrEqual(SEEDS.length * 2);
    },
    120_000,
  );

  test("models without that tool are refused, with the reason", async () => {
    const environment = { ANTHROPIC_API_KEY: "key" };
    await expect(openModel("anthropic:claude", { computerUse: true, environment })).rejects.toThrow(/OpenAI/);
    await expect(openModel("http://127.0.0.1:9/v1#m", { computerUse: true })).rejects.toThrow(/openai:name/);
  });
});
