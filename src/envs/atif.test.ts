/** Demonstrations as ATIF trajectories and back: nothing that is trained on changes. Other people's logs become conversations. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { Image } from "../core/image.ts";
import { imagesOf, textOf } from "../core/message.ts";
import { encodePng } from "../images/png.ts";
import { AtifWriter, readAtif, readTrajectory } from "./atif.ts";
import { type Demo, playDemo } from "./demos.ts";
import { makeEnv } from "./registry.ts";

const folder = mkdtempSync(join(tmpdir(), "saccade-atif-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function all(path: string): Promise<Demo[]> {
  const demos: Demo[] = [];
  for await (const demo of readAtif(path)) demos.push(demo);
  return demos;
}

describe("ATIF", () => {
  test("episodes come back as they went: messages, images, rewards, what is learned", async () => {
    const env = await makeEnv("frozen_lake", { protocol: { name: "tool-call", form: "qwen" } });
    const noise = { probability: 0.3, labels: "agreed" } as const;
    const demos = [await playDemo("frozen_lake", env, 3), await playDemo("frozen_lake", env, 5, { size: 4 }, noise)];
    const out = join(folder, "out");
    const writer = new AtifWriter(out);
    for (const demo of demos) writer.write(demo);
    const back = await all(out);
    const plain = (demo: Demo) => ({
      ...demo,
      messages: demo.messages.map(({ role, content }) => ({
        role,
        content: content.map((part) => (part.type === "text" ? part.text : part.image.hash)),
      })),
    });
    expect(back.map(plain)).toEqual(JSON.parse(JSON.stringify(demos.map(plain))));
    const frames = new Set(demos.flatMap(({ messages }) => messages.flatMap(imagesOf).map(({ hash }) => hash)));
    expect(readdirSync(join(out, "images"))).toHaveLength(frames.size);
    const [file] = readdirSync(out).filter((name) => name.endsWith(".json"));
    const written = JSON.parse(readFileSync(join(out, file as string), "utf8")) as {
      schema_version: string;
      steps: object[];
    };
    expect(written).toMatchObject({ schema_version: "ATIF-v1.8", agent: { name: "saccade" } });
    expect(written.steps.map((step) => (step as { step_id: number }).step_id)).toEqual(
      written.steps.map((_, i) => i + 1),
    );
  });

  test("another agent's log is a conversation: thoughts, calls, results with images", async () => {
    mkdirSync(join(folder, "images"));
    const shot = new Image(8, 8, new Uint8Array(192).fill(9));
    writeFileSync(join(folder, "images", "step.png"), encodePng(shot));
    const log = {
      schema_version: "ATIF-v1.6",
      session_id: "s",
      agent: { name: "other", version: "1" },
      steps: [
        { step_id: 1, source: "user", message: "Open the page." },
        {
          ...{ step_id: 2, source: "agent", message: "I look.", reasoning_content: "What is there?" },
          tool_calls: [{ tool_call_id: "c1", function_name: "screenshot", arguments: { full: true } }],
          observation: {
            results: [
              {
                source_call_id: "c1",
                content: [
                  { type: "text", text: "Here:" },
                  { type: "image", source: { media_type: "image/png", path: "images/step.png" } },
                ],
              },
            ],
          },
        },
        { step_id: 3, source: "agent", message: "Done.", is_copied_context: true },
      ],
    };
    const file = join(folder, "log.json");
    writeFileSync(file, JSON.stringify(log));
    const { messages, learn } = await readTrajectory(file);
    expect(messages.map(({ role }) => role)).toEqual(["user", "assistant", "user", "assistant"]);
    const [, said, seen] = messages.map(textOf);
    expect(said).toBe(
      '<think>\nWhat is there?\n</think>\n\nI look.\n<tool_call>\n{"name": "screenshot", "arguments": {"full": true}}\n</tool_call>',
    );
    expect(seen).toBe("<tool_response>\nHere:\n</tool_response>");
    expect(messages.flatMap(imagesOf).map(({ hash }) => hash)).toEqual([shot.hash]);
    expect(learn).toEqual([true, false]);
  });

  test.each<[string, unknown, string]>([
    ["no trajectory", { steps: [] }, "schema_version"],
    ["no agent", { schema_version: "ATIF-v1.8", steps: [{ source: "user", message: "a" }] }, "no step of the agent"],
    [
      "a path out of its folder",
      {
        schema_version: "ATIF-v1.8",
        steps: [
          { source: "agent", message: [{ type: "image", source: { media_type: "image/png", path: "../a.png" } }] },
        ],
      },
      "leads out of the trajectory's folder",
    ],
    [
      "sound",
      {
        schema_version: "ATIF-v1.8",
        steps: [{ source: "agent", message: [{ type: "audio", source: { media_type: "audio/wav", path: "a.wav" } }] }],
      },
      "content of type audio",
    ],
  ])("%s is refused with the place", async (_, given, message) => {
    const file = join(folder, "wrong.json");
    writeFileSync(file, JSON.stringify(given));
    await expect(readTrajectory(file)).rejects.toThrow(message);
  });
});
