/** Statistics of reports, apart from any model. */
import { describe, expect, test } from "vitest";
import { assistant, text, user } from "../core/message.ts";
import { makeWorldEnv } from "../envs/index.ts";
import { EnvHost } from "../rollout/hosts.ts";
import { recentTurns, toModelMessages } from "./chat-agent.ts";
import { parseModel } from "./models.ts";
import { planEnvs } from "./plan.ts";
import { evaluationPreset, evaluationPresets, fullName } from "./presets.ts";
import { digest } from "./results.ts";

describe("Digests", () => {
  test("do not depend on the order of fields, but on every value", () => {
    expect(digest({ a: 1, b: { c: 2, d: 3 } })).toBe(digest({ b: { d: 3, c: 2 }, a: 1 }));
    expect(digest({ a: 1 })).not.toBe(digest({ a: 2 }));
    expect(digest([1, 2])).not.toBe(digest([2, 1]));
  });
});

describe("Presets", () => {
  test("hold the published numbers", async () => {
    const visgym = await evaluationPreset("visgym");
    expect(visgym.seeds("maze_2d/easy").length).toBe(70);
    expect(visgym.envs.filter((env) => env.endsWith("/easy")).length).toBe(17);
    expect(visgym.envs.filter((env) => env.endsWith("/hard")).length).toBe(17);
    expect(visgym.envs.length).toBe(34);
    expect(visgym.options("maze_2d/hard")).toEqual({
      protocol: "tuple",
      maxTurns: 30,
      maxLongSide: 336,
      feedback: true,
    });
    const vagen = await evaluationPreset("vagen");
    expect(new Set(vagen.envs.map((env) => env.split("/")[0]))).toEqual(
      new Set(["frozen_lake", "sokoban", "navigation", "primitive_skill", "svg"]),
    );
    const ends = (env: string) => [vagen.seeds(env)[0], vagen.seeds(env).at(-1)];
    expect([ends("sokoban"), ends("navigation/base"), ends("primitive_skill/stack")]).toEqual([
      [10_001, 10_256],
      [0, 59],
      [5001, 5016],
    ]);
    await expect(evaluationPreset("gym")).rejects.toThrow(/visgym, vagen/);
  });

  test.each(evaluationPresets)(
    "%s: every world opens with its options, and its oracle knows what to reply",
    async (name) => {
      const preset = await evaluationPreset(name);
      for (const id of preset.envs) {
        const env = await makeWorldEnv(id, preset.options(id));
        const [seed] = preset.seeds(id);
        const messages = await env.reset(seed as number);
        const shownImages = messages.flatMap(({ content }) =>
          content.flatMap((part) => (part.type === "image" ? [part.image] : [])),
        );
        expect(shownImages.length, id).toBeGreaterThan(0);
        if (name === "visgym") {
          const sides = shownImages.map(({ width, height }) => Math.max(width, height));
          expect(Math.max(...sides), id).toBeLessThanOrEqual(336);
        }
        expect((await env.step(await env.oracleReply())).info.valid, id).toBe(true);
        await env.close();
      }
    },
  );

  test("plan each world on the preset's seeds for it", async () => {
    const envs = ["frozen_lake", "navigation/base"];
    const host = new EnvHost();
    const plans = await planEnvs({ envs }, await evaluationPreset("vagen"), host);
    await host.close();
    expect(plans.map(({ label, seeds }) => [label, seeds.length])).toEqual([
      ["frozen_lake", 256],
      ["navigation/base", 60],
    ]);
  });

  test("a bare id is its first difficulty", async () => {
    expect(await Promise.all(["maze_2d", "maze_2d/hard", "sokoban", "./x.ts"].map(fullName))).toEqual([
      "maze_2d/easy",
      "maze_2d/hard",
      "sokoban",
      "./x.ts",
    ]);
  });
});

describe("Names of models", () => {
  test.each([
    ["openai:gpt-x", { kind: "provider", provider: "openai", name: "gpt-x" }],
    ["google:models/gemini-x", { kind: "provider", provider: "google", name: "models/gemini-x" }],
    [
      "http://127.0.0.1:8000/v1#Qwen/Qwen3-VL-2B",
      { kind: "server", url: "http://127.0.0.1:8000/v1", name: "Qwen/Qwen3-VL-2B" },
    ],
    [".", { kind: "folder", path: "." }],
    ["agent:oracle", { kind: "agent", name: "oracle" }],
  ])("%s", (name, spec) => {
    expect(parseModel(name)).toEqual(spec);
  });

  test.each(["mistral:large", "https://x.test/v1", "no-such-folder", "openai:", "agent:human"])(
    "%s is none, and the error says what would be",
    (name) => {
      expect(() => parseModel(name)).toThrow(/url#name/);
    },
  );
});

describe("Conversations", () => {
  const turns = (n: number) => Array.from({ length: n }, (_, i) => [user(text(`o${i}`)), assistant(`r${i}`)]).flat();
  const said = (messages: readonly { content: readonly object[] }[]) =>
    messages.map(({ content }) => (content[0] as { text: string }).text);

  test.each([
    [undefined, ["o0", "r0", "o1", "r1", "o2", "r2", "o3", "r3", "now"]],
    [0, ["o0", "r0", "now"]],
    [1, ["o0", "r0", "o3", "r3", "now"]],
    [9, ["o0", "r0", "o1", "r1", "o2", "r2", "o3", "r3", "now"]],
  ])("a window of %s", (history, expected) => {
    expect(said(recentTurns([...turns(4), user(text("now"))], history))).toEqual(expected);
    expect(said(recentTurns([user(text("now"))], history))).toEqual(["now"]);
  });

  test("system messages go where providers want them, and an empty reply is not sent empty", () => {
    const sent = toModelMessages([
      { role: "system", content: [text("rules")] },
      user(text("a"), text("")),
      assistant(""),
      user(text("b")),
    ]);
    expect(sent.system).toBe("rules");
    expect(sent.messages).toEqual([
      { role: "user", content: [{ type: "text", text: "a" }] },
      { role: "assistant", content: "(no answer)" },
      { role: "user", content: [{ type: "text", text: "b" }] },
    ]);
  });
});
