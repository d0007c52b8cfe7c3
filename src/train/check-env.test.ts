import { join, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { NumpyRandom } from "../core/index.ts";
import { act, bare, defineAgent, defineWorld, type Outcome, register, type World } from "../envs/index.ts";
import { Canvas } from "../images/index.ts";
import "../../worlds/register.ts";
import { checkEnv } from "./check-env.ts";
import { MEASURED_WARM_STARTS } from "./check-size.ts";
import type { Finding } from "./finding.ts";
import { loadRecipe } from "./recipes.ts";

const root = resolve(import.meta.dirname, "../..");

/** A light that shows which of two switches to press: small, right, and broken in one way by each case. */
function lamp(id: string, change: (world: World & { lit(): number }) => Partial<World>): string {
  register(
    defineWorld({
      id,
      maxTurns: 2,
      create() {
        let [lit, turn, won] = [0, 0, false];
        const world = {
          lit: () => lit,
          actions: [bare("left", "the left switch"), bare("right", "the right switch")],
          reset(seed: number) {
            [lit, turn, won] = [new NumpyRandom(seed).integers(0, 2), 0, false];
          },
          act({ name }: { name: string }): Outcome {
            turn += 1;
            won = name === (lit === 0 ? "left" : "right");
            return { valid: true, reward: won ? 1 : 0, ended: true };
          },
          observe() {
            const canvas = new Canvas(64, 32);
            canvas.fillRect(lit * 32, 0, 32, 32, [255, 200, 0]);
            canvas.fillRect(0, 30, turn * 8, 2, [0, 0, 0]);
            return canvas.toImage();
          },
          task: () => "Press the switch under the lamp that is lit.",
          success: () => won,
          solve: () => [act(lit === 0 ? "left" : "right")],
          save: () => ({ lit, turn, won }),
          load(state: unknown) {
            ({ lit, turn, won } = state as { lit: number; turn: number; won: boolean });
          },
        };
        return { ...world, ...change(world) };
      },
    }),
  );
  return id;
}

async function findings(name: string, options: Record<string, unknown> = {}): Promise<Finding[]> {
  const found: Finding[] = [];
  for await (const finding of checkEnv(name, { options, seeds: 8 })) found.push(finding);
  return found;
}
const wrong = (found: readonly Finding[]) => found.filter(({ verdict }) => verdict === "bad").map(({ about }) => about);

describe("saccade check", () => {
  test("finds nothing wrong with a right world, and says what a recipe needs to know", async () => {
    const found = await findings(lamp("check-right", () => ({})));
    expect(wrong(found)).toEqual([]);
    expect(found.map(({ about }) => about)).toEqual([
      "loads",
      "same seed, same episode",
      "save and load",
      "oracle",
      "floors",
      "rewards",
      "frames",
      "tokens",
      "warm start",
      "speed",
    ]);
    expect(found.find(({ about }) => about === "frames")?.text).toMatch(/^64×32 pixels/);
    expect(found.find(({ about }) => about === "tokens")?.text).toMatch(/frame 2,/);
  });

  test.each<[what: string, about: string, change: (world: World & { lit(): number }) => Partial<World>]>([
    ["draws with Math.random", "same seed, same episode", () => ({ task: () => `Press one. ${Math.random()}` })],
    [
      "forgets half of its state",
      "save and load",
      (world) => ({ save: () => ({ lit: 1 - world.lit(), turn: 0, won: false }) }),
    ],
    ["can't be solved", "oracle", () => ({ success: () => false })],
    [
      "pays the wrong actions",
      "rewards",
      (world) => ({
        act: (action) => ({
          ...(world.act(action) as Outcome),
          reward: action.name === (world.lit() === 0 ? "left" : "right") ? 0 : 1,
        }),
      }),
    ],
    ["always shows the same", "frames", () => ({ observe: () => new Canvas(32, 32).toImage() })],
    [
      "throws when it acts",
      "plays",
      () => ({
        act() {
          throw new Error("the lamp is broken");
        },
      }),
    ],
    [
      "throws when it starts",
      "loads",
      () => ({
        reset() {
          throw new Error("no current");
        },
      }),
    ],
  ])("a world that %s is told so under %j", async (what, about, change) => {
    expect(wrong(await findings(lamp(`check-${what.replaceAll(/[^a-z]+/gi, "-").toLowerCase()}`, change)))).toContain(
      about,
    );
  });

  test.each<[what: string, says: RegExp, change: (world: World & { lit(): number }) => Partial<World>]>([
    [
      "pays NaN",
      /reward.*NaN/,
      (world) => ({ act: (action) => ({ ...(world.act(action) as Outcome), reward: Number.NaN }) }),
    ],
    [
      "pays without end",
      /reward.*Infinity/,
      (world) => ({ act: (action) => ({ ...(world.act(action) as Outcome), reward: 1 / 0 }) }),
    ],
    ["shows no image and no text", /observe/, () => ({ observe: () => undefined as never })],
  ])("a world that %s can't be played, and the finding says what was wrong", async (what, says, change) => {
    const found = await findings(lamp(`check-fails-${what.replaceAll(/[^a-z]+/gi, "-").toLowerCase()}`, change));
    expect(found.at(-1)).toMatchObject({ about: expect.stringMatching(/plays|loads/), verdict: "bad" });
    expect(found.at(-1)?.text).toMatch(says);
  });

  test.each<[what: string, about: string, says: RegExp, change: (world: World & { lit(): number }) => Partial<World>]>([
    ["shows large frames", "tokens", /frame 256/, (world) => ({ observe: () => large(world.lit()) })],
    [
      "talks at length",
      "prompt",
      /tokens without its frame/,
      () => ({ task: () => "Press the lit switch. ".repeat(80) }),
    ],
    [
      "takes its time",
      "speed",
      /a turn takes/,
      (world) => ({ act: (action) => after(80, () => world.act(action) as Outcome) }),
    ],
    ["has no oracle", "oracle", /no oracle/, () => ({ solve: undefined as never })],
    ["is solved by anything", "floors", /random play 100 %/, () => ({ success: () => true })],
  ])("a world that %s gets a note under %j with advice", async (what, about, says, change) => {
    const found = await findings(lamp(`check-note-${what.replaceAll(/[^a-z]+/gi, "-").toLowerCase()}`, change));
    const told = found.find((finding) => finding.about === about);
    expect(told).toMatchObject({ verdict: "note", advice: expect.any(String) });
    expect(told?.text).toMatch(says);
  });

  test("a world that throws is told with the seed and the line of its file", async () => {
    const act = () => {
      throw new Error("the lamp is broken");
    };
    const found = await findings(lamp("check-line", () => ({ act })));
    expect(found.find(({ about }) => about === "plays")?.text).toMatch(
      /the lamp is broken\n.*at .*check-env\.test\.ts:\d+:\d+(.|\n)*seed 0, played by the oracle agent/,
    );
  });

  test.each([
    ["world", "env.ts", true],
    ["task", "env.ts", false],
    ["agent", "agent.ts", false],
  ])("nothing is wrong with what saccade init writes for a %s", async (kind, file, saves) => {
    const found = await findings(join(root, `examples/templates/${kind}/${file}`));
    expect(wrong(found)).toEqual([]);
    expect(found.some(({ about }) => about === "save and load")).toBe(saves);
    expect(found.find(({ about }) => about === "warm start")?.advice).toContain(`templates/${kind}/`);
  });

  test("an agent whose tasks are not its seed's is told so", async () => {
    const answers = { oracle: () => "yes", random: () => "no" };
    const run = async ({ baseURL, apiKey }: { baseURL: string; apiKey: string }) => {
      const messages = [{ role: "user", content: `Is it so? ${Math.random()}` }];
      const headers = { authorization: `Bearer ${apiKey}`, "content-type": "application/json" };
      await fetch(`${baseURL}/chat/completions`, {
        method: "POST",
        headers,
        body: JSON.stringify({ model: "policy", messages }),
      });
      return 1;
    };
    register(defineAgent({ id: "check-agent-random", tasks: (seed) => seed, run, ...answers }));
    expect(wrong(await findings("check-agent-random"))).toContain("same seed, same episode");
  });
});

describe("The measured warm starts", () => {
  test.each(MEASURED_WARM_STARTS.map((known) => [known.recipe, known] as const))(
    "%s has these episodes, and check counts these tokens",
    async (name, { episodes, frame, taught }) => {
      const { warmStart, envs } = loadRecipe(name.endsWith(".ts") ? join(root, name) : name);
      expect(warmStart?.episodes).toBe(episodes);
      const source = envs[0] as { env: string; options: Record<string, unknown> };
      const found = await findings(source.env, source.options);
      const sizes = found.find(({ about }) => about === "tokens")?.text ?? "";
      expect(sizes).toContain(`frame ${frame},`);
      const advice = found.find(({ about }) => about === "warm start")?.advice ?? "";
      expect(advice).toContain(`${name} (${frame} tokens a frame, ${taught} taught`);
    },
  );
});

const large = (lit: number) => {
  const canvas = new Canvas(640, 640);
  canvas.fillRect(lit * 320, 0, 320, 320, [255, 200, 0]);
  return canvas.toImage();
};
const after = <T>(ms: number, then: () => T) => new Promise<T>((done) => setTimeout(() => done(then()), ms));
