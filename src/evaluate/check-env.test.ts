import { resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { NumpyRandom } from "../core/index.ts";
import { act, bare, defineWorld, type Outcome, register, type World } from "../envs/index.ts";
import { Canvas } from "../images/index.ts";
import { checkEnv, type Finding } from "./check-env.ts";

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

async function findings(name: string): Promise<Finding[]> {
  const found: Finding[] = [];
  for await (const finding of checkEnv(name, { seeds: 8 })) found.push(finding);
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

  test("a world that throws is told with the seed and the line of its file", async () => {
    const act = () => {
      throw new Error("the lamp is broken");
    };
    const found = await findings(lamp("check-line", () => ({ act })));
    expect(found.find(({ about }) => about === "plays")?.text).toMatch(
      /^seed 0, played by the oracle agent: .*the lamp is broken\nat .*check-env\.test\.ts:\d+:\d+/,
    );
  });

  test.each(["world", "task"])("nothing is wrong with what saccade init writes for a %s", async (kind) => {
    const env = resolve(import.meta.dirname, `../../examples/templates/${kind}/env.ts`);
    expect(wrong(await findings(env))).toEqual([]);
  });
});
