/** What one request may cost: its counts, its images and its text are bounded before they are in memory, and others are answered meanwhile. */
import { createHash } from "node:crypto";
import { connect } from "node:net";
import { deflateSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Image } from "../core/image.ts";
import { encodePng, pngDataUri } from "../images/index.ts";
import { loadChat } from "../model/chat.ts";
import { Writer } from "../tinker/protobuf.ts";
import { Desk } from "./desk.ts";
import { pngOf } from "./test-fuzz.ts";
import { type Served, serveTiny } from "./test-serve.ts";

let served: Served;
beforeAll(async () => {
  served = await serveTiny();
});
afterAll(() => served.close());

type Answer = { readonly status: number; readonly text: string };

async function post(path: string, body: unknown, type = "application/json"): Promise<Answer> {
  const sent = body instanceof Uint8Array || typeof body === "string" ? body : JSON.stringify(body);
  const answer = await fetch(`${served.url}${path}`, {
    method: "POST",
    headers: { "content-type": type },
    body: sent as string | Uint8Array<ArrayBuffer>,
  });
  return { status: answer.status, text: await answer.text() };
}

const look = (...urls: string[]) => ({
  messages: [{ role: "user", content: urls.map((url) => ({ type: "image_url", image_url: { url } })) }],
  max_tokens: 1,
});
const uri = (bytes: Uint8Array, kind = "png") => `data:image/${kind};base64,${Buffer.from(bytes).toString("base64")}`;

/** So many pixels of nothing, in a few kilobytes. */
const blank = (width: number, height: number) =>
  pngOf(width, height, deflateSync(Buffer.alloc((width * 3 + 1) * height)));

describe("JSON", () => {
  test.each([
    ["lists", "[],"],
    ["objects", "{},"],
    ["fields", '{"a":1},'],
    ["numbers", "1,"],
    ["texts", '"a",'],
  ])("of too many %s is refused before the rest of it has come", async (_, piece) => {
    const socket = connect(served.port, "127.0.0.1");
    const start = '{"messages":[';
    const many = Buffer.from(start + piece.repeat(1_100_000));
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${100 * 1024 * 1024}\r\n\r\n`,
    );
    socket.write(many);
    let said = "";
    // The rest is never sent.
    for await (const part of socket) {
      said += String(part);
      if (said.includes("more than")) break;
    }
    socket.destroy();
    expect(said).toMatch(/^HTTP\/1.1 400/);
    expect(said).toMatch(/body: it has more than \d+ (values|lists, objects and fields)/);
  });

  test.each(["/v1/chat/completions", "/inference/v1/generate", "/api/v1/create_session", "/api/v1/asample"])(
    "that nests without end is refused by %s with words",
    async (path) => {
      for (const depth of [101, 5000, 200_000]) {
        const deep = `{"user_metadata":${'{"a":'.repeat(depth)}1${"}".repeat(depth)}}`;
        const { status, text } = await post(path, deep);
        expect([status, text]).toEqual([400, expect.stringContaining("nests more than 100 deep")]);
      }
    },
  );

  test("of features that are longer than the tokens they stand for is refused before they are decoded", async () => {
    const features = (data: string) => ({
      mm_hashes: { image: ["a"] },
      mm_placeholders: { image: [{ offset: 0, length: 1 }] },
      kwargs_data: { image: [data] },
    });
    const ask = (data: string) =>
      post("/inference/v1/generate", { token_ids: [40], sampling_params: {}, features: features(data) });
    const { status, text } = await ask("kJCQ".repeat(20_000));
    expect([status, text]).toEqual([
      400,
      expect.stringMatching(/80000 characters of features, and 1 tokens have at most/),
    ]);
    expect((await ask("kJCQ")).text).toContain("can't be read as MessagePack");
  });

  test("with a million wrong elements names the first", async () => {
    const ids = `{"token_ids":[${"1.5,".repeat(1_000_000)}1],"sampling_params":{}}`;
    const { status, text } = await post("/inference/v1/generate", ids);
    expect(status).toBe(400);
    expect(text).toContain("body.token_ids.0");
    expect(text.length).toBeLessThan(1000);
  });

  test("of a whole context of ids passes", async () => {
    const body = { token_ids: new Array(1000).fill(40), sampling_params: { max_tokens: 1 } };
    expect((await post("/inference/v1/generate", body)).status).toBe(200);
  });
});

describe("a batch for the Tinker face", () => {
  const PROTOBUF = "application/x-protobuf";

  test("of empty datums without end is refused", async () => {
    const datums = Buffer.alloc(4_000_000);
    for (let i = 0; i < datums.length; i += 2) datums[i] = 0x1a;
    const { status, text } = await post("/api/v1/forward_backward", datums, PROTOBUF);
    expect([status, text]).toEqual([400, expect.stringMatching(/more than \d+ fields/)]);
  });

  test("of more datums than any client sends is refused", async () => {
    const datums = Buffer.alloc(40_000);
    for (let i = 0; i < datums.length; i += 2) datums[i] = 0x1a;
    const { status, text } = await post("/api/v1/forward_backward", datums, PROTOBUF);
    expect([status, text]).toEqual([400, expect.stringContaining("at most 16384 datums")]);
  });

  test("of more chunks in a datum than a context has tokens is refused before one is read", async () => {
    const chunks = Buffer.alloc(40_000);
    for (let i = 0; i < chunks.length; i += 2) chunks[i] = 0x0a;
    const { status, text } = await post("/api/v1/forward_backward", new Writer().bytes(3, chunks).finish(), PROTOBUF);
    expect([status, text]).toEqual([400, expect.stringContaining("at most 16384 chunks")]);
  });

  test("of sparse tensors that are gigabytes when written out is refused", async () => {
    const side = 5000;
    const sparse = new Writer().bytes(2, new Uint8Array((side + 1) * 8));
    const tensor = new Writer().message(2, sparse).integer(3, 1).integers(4, [side, side]);
    const datum = new Writer().message(2, new Writer().text(1, "weights").message(2, tensor));
    const batch = new Writer().text(1, "x").message(3, datum).message(3, datum).finish();
    const { status, text } = await post("/api/v1/forward_backward", batch, PROTOBUF);
    expect([status, text]).toEqual([400, expect.stringContaining("too large")]);
  });

  test("whose images promise too many pixels is refused by its header", async () => {
    const ask = async (route: string, body: object) => JSON.parse((await post(`/api/v1/${route}`, body)).text);
    const { session_id: session } = await ask("create_session", {});
    const { sampling_session_id: sampler } = await ask("create_sampling_session", {
      ...{ session_id: session, sampling_session_seq_id: 0, base_model: "policy" },
    });
    const sample = (data: Uint8Array) => ({
      sampling_session_id: sampler,
      prompt: { chunks: [{ type: "image", format: "png", data: Buffer.from(data).toString("base64") }] },
      sampling_params: { max_tokens: 1 },
    });
    const refused = await post("/api/v1/asample", sample(pngOf(8000, 8000, new Uint8Array(9))));
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining("8000×8000")]);
    const [shown] = [await post("/api/v1/asample", sample(encodePng(new Image(64, 64, new Uint8Array(64 * 64 * 3)))))];
    expect(shown.status).toBe(200);
  });
});

describe("images", () => {
  test("are refused by their headers before one is decoded", async () => {
    // Broken behind the header: whoever decoded it would say so.
    const promise = (width: number, height: number) => uri(pngOf(width, height, new Uint8Array(9)));
    const large = await post("/v1/chat/completions", look(promise(4097, 4096)));
    expect([large.status, large.text]).toEqual([400, expect.stringContaining("4097×4096")]);
    const many = await post("/v1/chat/completions", look(...Array.from({ length: 400 }, () => promise(4000, 4000))));
    expect([many.status, many.text]).toEqual([400, expect.stringContaining("the context has 1024")]);
    const broken = await post("/v1/chat/completions", look(promise(64, 64)));
    expect([broken.status, broken.text]).toEqual([400, expect.stringContaining("broken")]);
  });

  test("of a phone's camera are shrunk as the processor shrinks them", async () => {
    const photo = blank(4032, 3024);
    const { status, text } = await post("/v1/chat/completions/render", look(uri(photo)));
    expect([status, status === 200 ? "" : text]).toEqual([200, ""]);
    const { features } = JSON.parse(text) as { features: { mm_placeholders: { image: { length: number }[] } } };
    const { processor } = await loadChat(served.folder);
    const { width, height } = processor.targetSize(4032, 3024);
    const cell = processor.patchSize * processor.mergeSize;
    expect(features.mm_placeholders.image[0]?.length).toBe((width * height) / cell ** 2);
    expect((await post("/v1/chat/completions", look(uri(photo)))).status).toBe(200);
  });

  test("are the same pixels, under the same hash, as when they are decoded here", async () => {
    const { processor } = await loadChat(served.folder);
    const image = new Image(
      901,
      700,
      new Uint8Array(901 * 700 * 3).map((_, i) => (i * 31 + (i >> 9)) % 256),
    );
    const small = new Image(40, 24, new Uint8Array(40 * 24 * 3).fill(9));
    const desk = new Desk({ folder: served.folder, contextTokens: 1024, processor });
    try {
      const { images, release } = await desk.decode([encodePng(image), encodePng(small)]);
      release();
      expect(images[0]?.hash).toBe(image.hash);
      const seen = (one: Image) => createHash("sha256").update(processor.preprocess(one).patches).digest("hex");
      expect(seen(images[0] as Image)).toBe(seen(image));
      expect(images[1]).toEqual(small);
    } finally {
      await desk.close();
    }
  });

  test("of all requests have so much room together: one waits until another's answer is out", async () => {
    const { processor } = await loadChat(served.folder);
    const file = encodePng(new Image(64, 64, new Uint8Array(64 * 64 * 3)));
    const desk = new Desk({ folder: served.folder, contextTokens: 1024, processor, pixelBytes: 64 * 64 * 3 });
    try {
      const first = await desk.decode([file]);
      let isSecond = false;
      const second = desk.decode([file, file]).then((shown) => {
        isSecond = true;
        return shown;
      });
      const stop = new AbortController();
      const third = desk.decode([file], stop.signal);
      stop.abort();
      await expect(third).rejects.toThrow();
      expect(isSecond).toBe(false);
      first.release();
      (await second).release();
    } finally {
      await desk.close();
    }
  });
});

describe("text", () => {
  test("longer than the context can hold is refused before it is tokenized", async () => {
    const spaces = " ".repeat(1_000_000);
    for (const [path, body] of [
      ["/tokenize", { prompt: spaces }],
      ["/v1/completions", { prompt: spaces, max_tokens: 1 }],
      ["/v1/completions", { prompt: ["a", spaces], max_tokens: 1 }],
      ["/v1/chat/completions", { messages: [{ role: "user", content: spaces }] }],
      ["/v1/chat/completions", { messages: [{ role: "user", content: "a" }], chat_template_kwargs: { a: spaces } }],
    ] as const) {
      const { status, text } = await post(path, body);
      expect([path, status, text]).toEqual([path, 400, expect.stringMatching(/characters, more than/)]);
    }
  });

  test("is tokenized while the main thread does other things", async () => {
    const { processor, tokenizer } = await loadChat(served.folder);
    const desk = new Desk({ folder: served.folder, contextTokens: 1_000_000, processor });
    const text = `${"word and ".repeat(20_000)}${" ".repeat(20_000)}`;
    let turns = 0;
    const beat = setInterval(() => turns++, 1);
    try {
      await desk.encode(["warm"]);
      turns = 0;
      const [ids] = await desk.encode([text]);
      // On this thread not one turn would have come between.
      expect(turns).toBeGreaterThan(1);
      expect(ids).toEqual(tokenizer.encode(text));
    } finally {
      clearInterval(beat);
      await desk.close();
    }
  });

  test("has so many stop strings and no more", async () => {
    const stop = Array.from({ length: 300_000 }, () => "a");
    const { status, text } = await post("/v1/completions", { prompt: "a", max_tokens: 1, stop });
    expect([status, text]).toEqual([400, expect.stringContaining("at most 256 stop strings")]);
  });
});

test("an image small enough is given to the model as it was sent", async () => {
  const image = new Image(64, 64, new Uint8Array(64 * 64 * 3).fill(7));
  const { text } = await post("/v1/chat/completions/render", look(pngDataUri(image)));
  expect(JSON.parse(text).features.mm_hashes.image).toEqual([image.hash]);
});
