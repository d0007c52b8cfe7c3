/** vLLM's render, generate and control routes: what a trainer relies on between and during steps. The wire itself is compared with vLLM in vllm.test.ts. */
import { cp, mkdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { temporaryFolder } from "../model/test-folder.ts";
import { dataUri } from "./test-requests.ts";
import { createServable, HeldEngine, type Served, serveTiny, writeAdapter } from "./test-serve.ts";

const engine = new HeldEngine({ threads: 2 });
let served: Served;
beforeAll(async () => {
  served = await serveTiny({ engine });
  await createServable(join(served.root, "other"), 2);
  await writeAdapter(engine, served.folder, join(served.root, "adapter"));
});
afterAll(() => served.close());

type Wire = {
  token_ids: number[];
  features: {
    kwargs_data: { image: (string | null)[] } | null;
    mm_hashes: { image: string[] };
    mm_placeholders: { image: { offset: number; length: number }[] };
  };
  mm_placeholders: object | null;
  prompt_token_ids: number[] | null;
  sampling_params: object;
  choices: {
    token_ids: number[];
    finish_reason: string;
    logprobs: { content: { token: string }[] };
    weight_versions: { version: string; start: number; end: number }[];
  }[];
};

async function post<T = Wire>(path: string, body?: object, status = 200): Promise<T> {
  const answer = await fetch(`${served.url}${path}`, {
    method: "POST",
    ...(body && { headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  expect([answer.status, text.slice(0, 500)]).toEqual([status, expect.any(String)]);
  return (text.startsWith("{") || text.startsWith("[") ? JSON.parse(text) : text) as T;
}

const LOOK = [
  {
    role: "user",
    content: [
      { type: "text", text: "Look: " },
      { type: "image_url", image_url: { url: dataUri(64, 96) } },
    ],
  },
];
const LONG = { temperature: 1, seed: 3, max_tokens: 1000, ignore_eos: true };
const generate = (params: object, more: object = {}) =>
  post("/inference/v1/generate", { token_ids: [40, 41, 42], sampling_params: params, ...more });
/** A long request, once its first id was drawn; `end` is what it comes to. The engine holds it after a few ids. */
async function begun() {
  const answer = await fetch(`${served.url}/inference/v1/generate`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ token_ids: [40, 41, 42], sampling_params: LONG, stream: true }),
  });
  const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
  const decoder = new TextDecoder();
  let text = decoder.decode((await reader.read()).value, { stream: true });
  const rest = async () => {
    for (let piece = await reader.read(); !piece.done; piece = await reader.read())
      text += decoder.decode(piece.value, { stream: true });
    const choices = [...text.matchAll(/^data: (\{.*)$/gm)].map((match) => (JSON.parse(match[1]!) as Wire).choices[0]!);
    return { ...choices.at(-1)!, token_ids: choices.flatMap(({ token_ids: ids }) => ids) };
  };
  return { end: rest() };
}

describe("render and generate", () => {
  test("what render gives, generate takes as it is, and the ids are those of a chat", async () => {
    const asked = { messages: LOOK, temperature: 0, max_tokens: 8 };
    const rendered = await post("/v1/chat/completions/render", asked);
    const chat = await post<{ choices: { token_ids: number[] }[]; prompt_token_ids: number[] }>(
      "/v1/chat/completions",
      {
        ...asked,
        return_token_ids: true,
      },
    );
    expect(rendered.token_ids).toEqual(chat.prompt_token_ids);
    const generated = await post("/inference/v1/generate", rendered);
    expect(generated.choices[0]!.token_ids).toEqual(chat.choices[0]!.token_ids);
  });

  test("files next to ids with one placeholder each are the prompt that render makes, and the answer says where they lie", async () => {
    const asked = { messages: LOOK, temperature: 0, max_tokens: 8 };
    const rendered = await post("/v1/chat/completions/render", asked);
    const [{ offset, length }] = rendered.features.mm_placeholders.image as [{ offset: number; length: number }];
    const short = rendered.token_ids.filter((_, i) => i <= offset || i >= offset + length);
    const sampling = { ...rendered.sampling_params, logprobs: 1 };
    const more = { sampling_params: sampling, return_token_ids: true };
    const parts = { token_ids: short, content_parts: [{ type: "image_url", url: dataUri(64, 96) }], ...more };
    const whole = await post("/inference/v1/generate", { ...rendered, ...more });
    const answer = await post("/inference/v1/generate", parts);
    expect(answer.prompt_token_ids).toEqual(rendered.token_ids);
    expect(answer.mm_placeholders).toEqual({ image: [{ offset, length }] });
    expect(whole.mm_placeholders).toEqual(answer.mm_placeholders);
    expect(answer.choices[0]!.logprobs).toEqual(whole.choices[0]!.logprobs);
    for (const [i, entry] of answer.choices[0]!.logprobs.content.entries()) {
      expect(entry.token).toBe(`token_id:${answer.choices[0]!.token_ids[i]}`);
    }
    const quiet = await post("/inference/v1/generate", { ...parts, return_token_ids: false });
    expect([quiet.prompt_token_ids, quiet.mm_placeholders]).toEqual([null, null]);
  });

  test.each([
    ["a placeholder too few", { token_ids: [40] }, "0 image placeholders for 1 content_parts"],
    ["a web address", { content_parts: [{ type: "image_url", url: "https://a.b/c.png" }] }, "downloads nothing"],
    ["no image", { content_parts: [{ type: "image_url", url: "data:image/png;base64,AAAA" }] }, "image"],
    ["a film", { content_parts: [{ type: "video_url", url: "data:video/mp4;base64,AAAA" }] }, "image_url"],
  ])("content parts with %s are refused", async (_, wrong, message) => {
    const rendered = await post("/v1/chat/completions/render", { messages: LOOK });
    const ids = [40, rendered.token_ids[rendered.features.mm_placeholders.image[0]!.offset], 41];
    const parts = [{ type: "image_url", url: dataUri(64, 96) }];
    const body = { token_ids: ids, content_parts: parts, sampling_params: { max_tokens: 2 }, ...wrong };
    const { error } = await post<{ error: { message: string } }>("/inference/v1/generate", body, 400);
    expect(error.message).toContain(message);
  });

  test("an image that was sent once can be named alone, until the server forgets it; another one under its name is another one", async () => {
    const asked = { messages: LOOK, temperature: 0, max_tokens: 8 };
    const rendered = await post("/v1/chat/completions/render", asked);
    const whole = await post("/inference/v1/generate", rendered);
    const named = { ...rendered, features: { ...rendered.features, kwargs_data: null } };
    expect((await post("/inference/v1/generate", named)).choices[0]!.token_ids).toEqual(whole.choices[0]!.token_ids);
    const url = dataUri(64, 96, 200);
    const other = await post("/v1/chat/completions/render", {
      ...asked,
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "Look: " },
            { type: "image_url", image_url: { url } },
          ],
        },
      ],
    });
    const disguised = { ...other, features: { ...other.features, mm_hashes: rendered.features.mm_hashes } };
    const truth = await post("/inference/v1/generate", other);
    expect(truth.choices[0]!.token_ids).not.toEqual(whole.choices[0]!.token_ids);
    expect((await post("/inference/v1/generate", disguised)).choices[0]!.token_ids).toEqual(
      truth.choices[0]!.token_ids,
    );
    await post("/reset_mm_cache");
    await post("/inference/v1/generate", named, 500);
  });
});

/** Until the server has so many requests at work and waiting. */
async function requests(running: number, waiting: number): Promise<void> {
  for (;;) {
    const metrics = await (await fetch(`${served.url}/metrics`)).text();
    const gauge = (name: string) =>
      Number(new RegExp(`^vllm:num_requests_${name}\\{.*\\} (.*)$`, "m").exec(metrics)?.[1]);
    if (gauge("running") === running && gauge("waiting") === waiting) return;
  }
}

describe("a pause", () => {
  beforeEach(() => engine.hold());
  afterEach(async () => {
    engine.goOn();
    await post("/resume");
  });

  test("aborts what is under way, which gives what it has", async () => {
    const { end } = await begun();
    await post("/pause?mode=abort");
    const choice = await end;
    expect(choice.finish_reason).toBe("abort");
    expect(choice.token_ids.length).toBeLessThanOrEqual(HeldEngine.MAX_FREE);
  });

  test("waits for what is under way, and what comes later waits for its end", async () => {
    const { end } = await begun();
    const paused = post("/pause?mode=wait");
    while (!(await (await fetch(`${served.url}/is_paused`)).text()).includes("true"));
    const second = generate({ ...LONG, max_tokens: 4 });
    await requests(1, 1);
    engine.goOn();
    const first = await end;
    expect(first).toMatchObject({ finish_reason: "length" });
    expect(first.token_ids).toHaveLength(LONG.max_tokens);
    await paused;
    await requests(0, 1);
    await post("/resume");
    expect((await second).choices[0]!.token_ids).toHaveLength(4);
  });

  test("keeps what is under way, which goes on with the new weights and says which ids are whose", async () => {
    await post("/update_weight_version", { new_version: "1" });
    const { end } = await begun();
    await post("/pause?mode=keep");
    await post("/collective_rpc", { method: "reload_weights", kwargs: { weights_path: "other" } });
    await post("/update_weight_version", { new_version: "2" });
    engine.goOn();
    await post("/resume");
    const choice = await end;
    expect(choice.token_ids).toHaveLength(LONG.max_tokens);
    const cut = choice.weight_versions[0]!.end;
    expect(cut).toBeLessThanOrEqual(HeldEngine.MAX_FREE);
    expect(choice.weight_versions).toEqual([
      { version: "1", start: 0, end: cut },
      { version: "2", start: cut, end: LONG.max_tokens },
    ]);
    const greedy = { temperature: 0, max_tokens: 6 };
    const renewed = await generate(greedy);
    await post("/collective_rpc", { method: "reload_weights" });
    expect((await generate(greedy)).choices[0]!.token_ids).not.toEqual(renewed.choices[0]!.token_ids);
  });
});

describe("weights", () => {
  test("an adapter answers under its name, and is gone when it was unloaded", async () => {
    const params = { temperature: 0, max_tokens: 6 };
    const base = await generate(params);
    await post("/v1/load_lora_adapter", { lora_name: "tuned", lora_path: "adapter" });
    expect((await generate(params, { model: "tuned" })).choices[0]!.token_ids).not.toEqual(base.choices[0]!.token_ids);
    await post("/v1/load_lora_adapter", { lora_name: "tuned", lora_path: "adapter" }, 400);
    await post("/v1/unload_lora_adapter", { lora_name: "tuned" });
    await post("/inference/v1/generate", { model: "tuned", token_ids: [40], sampling_params: {} }, 404);
  });

  test.each(["/", "..", "../..", "/etc", "link", "adapter/../.."])(
    "the path %s leaves the store and is refused",
    async (path) => {
      await mkdir(join(served.root, "inner"), { recursive: true });
      await symlink("/etc", join(served.root, "link")).catch(() => {});
      await post("/v1/load_lora_adapter", { lora_name: "x", lora_path: path }, 403);
      await post("/collective_rpc", { method: "reload_weights", kwargs: { weights_path: path } }, 403);
    },
  );

  describe("that reach out of the store from inside it are refused", () => {
    let outside = "";
    beforeAll(async () => {
      outside = await temporaryFolder();
      await createServable(join(outside, "model"), 3);
      await writeAdapter(engine, join(outside, "model"), join(served.root, "of another"));
      await cp(join(served.root, "other"), join(served.root, "linked"), { recursive: true });
      await rm(join(served.root, "linked", "model.safetensors"));
      await symlink(join(outside, "model", "model.safetensors"), join(served.root, "linked", "model.safetensors"));
      await writeAdapter(engine, join(served.root, "other"), join(served.root, "of other"));
      await cp(join(served.root, "of other"), join(served.root, "of linked"), { recursive: true });
      const config = join(served.root, "of linked", "adapter_config.json");
      const json = JSON.parse(await readFile(config, "utf8")) as Record<string, unknown>;
      await writeFile(config, JSON.stringify({ ...json, base_model_name_or_path: join(served.root, "linked") }));
      // Links that stay inside are how hubs keep their files.
      await cp(join(served.root, "adapter"), join(served.root, "linked inside"), { recursive: true });
      await rm(join(served.root, "linked inside", "adapter_model.safetensors"));
      const weights = "adapter_model.safetensors";
      await symlink(join("..", "adapter", weights), join(served.root, "linked inside", weights));
    });
    afterAll(() => rm(outside, { recursive: true, force: true }));

    test("a linked file", async () => {
      const refused = await post<{ error: { message: string } }>(
        "/collective_rpc",
        { method: "reload_weights", kwargs: { weights_path: "linked" } },
        403,
      );
      expect(refused.error.message).toContain("linked/model.safetensors is a link");
    });

    test("an adapter whose base model is elsewhere", async () => {
      const asked = { lora_name: "y", lora_path: "of another" };
      const refused = await post<{ error: { message: string } }>("/v1/load_lora_adapter", asked, 403);
      expect(refused.error.message).toContain("base model of of another");
    });

    test("an adapter whose base model has a linked file", async () => {
      const asked = { lora_name: "z", lora_path: "of linked" };
      const refused = await post<{ error: { message: string } }>("/v1/load_lora_adapter", asked, 403);
      expect(refused.error.message).toContain("linked/model.safetensors is a link");
    });

    test("but links and base models inside it load", async () => {
      for (const path of ["of other", "linked inside"]) {
        await post("/v1/load_lora_adapter", { lora_name: path, lora_path: path });
        await post("/v1/unload_lora_adapter", { lora_name: path });
      }
    });
  });

  test("without a store nothing can be loaded, and workers can be told nothing else", async () => {
    await post("/collective_rpc", { method: "save_sharded_state" }, 400);
    const bare = await serveTiny({ store: undefined } as never);
    try {
      const body = JSON.stringify({ lora_name: "x", lora_path: served.root });
      const headers = { "content-type": "application/json" };
      const answer = await fetch(`${bare.url}/v1/load_lora_adapter`, { method: "POST", headers, body });
      expect(answer.status).toBe(403);
    } finally {
      await bare.close();
    }
  });
});
