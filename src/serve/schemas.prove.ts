/**
 * Every schema of the JSON Schema test suite, asked of a server: each answer is valid, or the schema is refused by its keyword. The suite is in the source
 * package of `jsonschema` (pip download --no-deps --no-binary jsonschema jsonschema); SACCADE_SCHEMA_SUITE names its folder json/tests. The judge is ajv. The model was
 * taught for a minute to write short JSON, so that its answers end; the grammar makes them valid.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Json } from "../core/json.ts";
import { text, user } from "../core/message.ts";
import { loadChat } from "../model/chat.ts";
import { validator } from "../wire/test-grammar.ts";
import { type Served, serveTiny } from "./test-serve.ts";

const suite = process.env.SACCADE_SCHEMA_SUITE;
const LESSONS = [
  '{"a": 1}',
  '{"foo": "bar"}',
  "[1, 2]",
  '"a"',
  "12",
  "null",
  "true",
  "{}",
  "[]",
  '{"foo": {"bar": []}}',
];
const ASKED = "JSON, please.";
/** Answers to each schema, and how often one that was cut off is asked for again. */
const ANSWERS = 2;
const MAX_ASKED = 6;

let served: Served;
beforeAll(async () => {
  served = await serveTiny();
  await teach(served);
}, 600_000);
afterAll(() => served?.close());

async function teach({ engine, folder, url }: Served): Promise<void> {
  const { renderer, tokenizer, generation } = await loadChat(folder);
  const learner = await engine.learner({ folder, seed: 1 });
  const prompt = renderer.prompt([user(text(ASKED))]);
  const data = LESSONS.map((reply) => {
    const said = [...tokenizer.encode(reply), generation.eos[0] as number];
    const ids = Int32Array.from([...prompt.ids, ...said]);
    const targets = new Int32Array(ids.length).fill(-1);
    const weights = new Float32Array(ids.length);
    for (const [i, id] of said.entries()) {
      targets[prompt.ids.length - 1 + i] = id;
      weights[prompt.ids.length - 1 + i] = 0.1;
    }
    return { input: { ids, images: prompt.images }, targets, weights };
  });
  for (let step = 0; step < 100; step++) {
    await learner.forwardBackward(data, { name: "cross-entropy" });
    await learner.step({ name: "adamw", learningRate: 0.005, maxGradNorm: 1 });
  }
  await learner.export(`${folder}-taught`);
  await learner.close();
  const body = JSON.stringify({ method: "reload_weights", kwargs: { weights_path: "model-taught" } });
  const answer = await fetch(`${url}/collective_rpc`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body,
  });
  expect(answer.status).toBe(200);
}

function schemasOf(folder: string): Json[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".json"))
    .flatMap((entry) => JSON.parse(readFileSync(join(entry.parentPath, entry.name), "utf8")) as { schema: Json }[])
    .map(({ schema }) => schema);
}

type Answer = { error?: { message: string }; choices?: { message: { content: string }; finish_reason: string }[] };

async function ask(schema: Json, seed: number): Promise<Answer> {
  const format = { type: "json_schema", json_schema: { name: "answer", schema } };
  const body = { messages: [{ role: "user", content: ASKED }], max_tokens: 400, seed, response_format: format };
  const answer = await fetch(`${served.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return (await answer.json()) as Answer;
}

test.runIf(suite).each([
  ["2020-12", "draft2020-12", 438],
  ["7", "draft7", 311],
] as const)(
  "every schema of draft %s is answered with what is valid, or refused by its keyword",
  async (draft, name, groups) => {
    const schemas = schemasOf(join(suite as string, name));
    expect(schemas).toHaveLength(groups);
    const refused = new Map<string, number>();
    const wrong: string[] = [];
    let answered = 0;
    let cut = 0;
    for (const schema of schemas) {
      let valid = 0;
      for (let seed = 0; seed < MAX_ASKED && valid < ANSWERS; seed++) {
        const { error, choices } = await ask(schema, seed);
        if (error !== undefined) {
          const keyword = /^response_format: (.+?): /.exec(error.message)?.[1];
          if (keyword === undefined) wrong.push(`${JSON.stringify(schema)}: ${error.message}`);
          else refused.set(keyword, (refused.get(keyword) ?? 0) + 1);
          break;
        }
        const { message, finish_reason: finish } = choices![0]!;
        if (finish === "length") {
          cut += 1;
          continue;
        }
        valid += 1;
        answered += 1;
        const isValid = (() => {
          try {
            return validator(schema, draft)(JSON.parse(message.content));
          } catch {
            return false;
          }
        })();
        if (!isValid) wrong.push(`${JSON.stringify(schema)}: ${message.content}`);
      }
    }
    const count = [...refused.values()].reduce((sum, one) => sum + one, 0);
    const keywords = [...refused].sort((a, b) => b[1] - a[1]).map(([keyword, times]) => `${keyword} ${times}`);
    console.log(
      `draft ${draft}: ${groups} schemas, ${count} refused (${((100 * count) / groups).toFixed(1)} %), ${answered} answers, all valid: ${wrong.length === 0}; ${cut} cut off and asked for again\nrefused: ${keywords.join(", ")}`,
    );
    expect(wrong).toEqual([]);
  },
  3_600_000,
);
