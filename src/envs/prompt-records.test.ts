import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { imagesOf, textOf } from "../core/message.ts";
import { type PromptRecord, parseRecord, promptMessages, readRecords, writeRecords } from "./prompt-records.ts";

const folder = mkdtempSync(join(tmpdir(), "saccade-records-"));
afterAll(() => rmSync(folder, { recursive: true }));
const golden = (name: string) => fileURLToPath(new URL(`./golden/${name}`, import.meta.url));

async function read(file: string): Promise<PromptRecord[]> {
  const records: PromptRecord[] = [];
  for await (const record of readRecords(file)) records.push(record);
  return records;
}

function written(name: string, content: string | Uint8Array): string {
  const file = join(folder, name);
  writeFileSync(file, content);
  return file;
}

const record = {
  prompt: [
    {
      role: "user",
      content: [
        { type: "image_url", image_url: { url: "data:image/png;base64,AAAA", detail: "low" } },
        { type: "text", text: "Zeile\u2028zwei 🎨" },
      ],
    },
  ],
  env_class: "geometry3k",
  data_source: "geo",
  reward_spec: { method: "rule", ground_truth: "5" },
  extra_info: { index: 3 },
  anything: [null, { else: true }],
};

describe("records as JSON lines", () => {
  test("what is written is read back, every column in place", async () => {
    const file = join(folder, "a.jsonl");
    const rows = [record, { prompt: [{ role: "user", content: "hi" }], level: 2 }];
    await writeRecords(file, rows);
    expect(await read(file)).toEqual(rows);
    expect(readFileSync(file, "utf8").split("\n")).toHaveLength(3);
  });

  test("a line longer than a read, blank lines, Windows line ends, a byte order mark and no last newline are fine", async () => {
    const long = { prompt: [{ role: "user", content: "é🎨".repeat(100_000) }] };
    const file = written("b.jsonl", `\uFEFF${JSON.stringify(record)}\r\n\n${JSON.stringify(long)}`);
    expect(await read(file)).toEqual([record, long]);
  });

  test("rows before a broken one are given, then the error names file and line", async () => {
    const file = written("c.jsonl", `${JSON.stringify(record)}\n\n{"prompt": oops}\n${JSON.stringify(record)}\n`);
    const rows = readRecords(file);
    expect((await rows.next()).value).toEqual(record);
    await expect(rows.next()).rejects.toThrow(`${file}:3: not JSON`);
  });

  test("a last line that was cut off is reported", async () => {
    const line = JSON.stringify(record);
    const file = written("d.jsonl", `${line}\n${line.slice(0, -9)}`);
    await expect(read(file)).rejects.toThrow(`${file}:2: the last line is cut off`);
    const insideCharacter = written("g.jsonl", Buffer.from(`${line}\n{"prompt":"é`).subarray(0, -1));
    await expect(read(insideCharacter)).rejects.toThrow(`${insideCharacter}:2: the last line is cut off`);
  });

  test("a file that is not text, is missing or is a folder is refused with its name", async () => {
    const bytes = written("e.jsonl", Uint8Array.of(0x7b, 0xff, 0xfe));
    await expect(read(bytes)).rejects.toThrow(`${bytes} is not UTF-8`);
    await expect(read(join(folder, "none.jsonl"))).rejects.toThrow("There is no file");
    await expect(read(folder)).rejects.toThrow("is a folder");
  });

  test.each([
    ["[1]", "a row must be a JSON object"],
    ["null", "a row must be a JSON object"],
    ["{}", '"prompt" must be a list'],
    ['{"prompt": []}', '"prompt" must be a list'],
    ['{"prompt": "hi"}', '"prompt" must be a list'],
    ['{"prompt": [{"content": "hi"}]}', 'message 1 of the prompt needs a "role"'],
    ['{"prompt": [{"role": "user", "content": 5}]}', '"content" is text or a list'],
    ['{"prompt": [{"role": "user", "content": [{"text": "x"}]}]}', '"content" is text or a list'],
    ['{"prompt": [{"role": "user"}], "env_class": 3}', '"env_class" must be a string'],
    ['{"prompt": [{"role": "user"}], "reward_spec": "rule"}', '"reward_spec" must be an object'],
  ])("the row %s is refused", async (line, message) => {
    const file = written("f.jsonl", `${line}\n`);
    await expect(read(file)).rejects.toThrow(message);
    await expect(read(file)).rejects.toThrow(`${file}:1: `);
  });
});

describe("records as Parquet", () => {
  test("nested prompts, structs, lists and every kind of cell are read, row groups in order", async () => {
    const rows = await read(golden("records.parquet"));
    expect(rows.map((row) => (row.extra_info as { index: number }).index)).toEqual([0, 1, 2]);
    const { prompt, raw, ...rest } = rows[2]!;
    expect(rest).toEqual({
      env_class: "colours",
      data_source: "golden",
      reward_spec: { method: "rule", ground_truth: "red" },
      extra_info: { split: "train", index: 2, tags: ["a", "a"] },
      score: 0.5,
      hard: true,
      counts: [1, 2 ** 53 - 1, 2],
      made: "2026-01-02T03:04:02.000Z",
    });
    const url = `data:image/png;base64,${raw}`;
    expect(prompt).toEqual([
      { role: "system", content: [{ type: "text", text: "Answer in one word." }] },
      {
        role: "user",
        content: [
          { type: "image_url", image_url: { url } },
          { type: "text", text: "Which colour is picture 2? 🎨" },
        ],
      },
    ]);
    expect("data_source" in rows[0]!).toBe(false);
  });

  test("gzip and brotli are read, zstd is refused with the way out", async () => {
    const expected = (await read(golden("records.parquet"))).map((row) => row.prompt);
    for (const codec of ["gzip", "brotli"]) {
      expect((await read(golden(`records.${codec}.parquet`))).map((row) => row.prompt)).toEqual(expected);
    }
    await expect(read(golden("records.zstd.parquet"))).rejects.toThrow(/compressed with ZSTD.*compression="snappy"/);
  });

  test("a file that was cut off is refused", async () => {
    const whole = readFileSync(golden("records.parquet"));
    const file = written("cut.parquet", whole.subarray(0, whole.length - 100));
    await expect(read(file)).rejects.toThrow(`${file} can't be read as Parquet`);
    await expect(read(join(folder, "none.parquet"))).rejects.toThrow("There is no file");
  });
});

describe("promptMessages", () => {
  test("decodes the images of a prompt where they stand", async () => {
    const [, row] = await read(golden("records.parquet"));
    const [system, user] = await promptMessages(row!);
    expect(textOf(system!)).toBe("Answer in one word.");
    expect(user!.content.map((part) => part.type)).toEqual(["image", "text"]);
    const [image] = imagesOf(user!);
    expect([image!.width, image!.height, ...image!.data.subarray(0, 3)]).toEqual([3, 2, 200, 10, 0]);
  });

  test("an image that can't be decoded fails there, not when the row is read", async () => {
    await expect(promptMessages(parseRecord(record, "row 1"))).rejects.toThrow();
  });
});
