import { describe, expect, test } from "vitest";
import { frozenLake } from "../../worlds/frozen-lake/frozen-lake.ts";
import { maze2d } from "../../worlds/maze-2d/maze-2d.ts";
import { imagesOf, NumpyRandom, textOf } from "../core/index.ts";
import {
  act,
  defineWorld,
  makeWorldEnv,
  playDemo,
  type RewardPart,
  register,
  stopAction,
  sumRewards,
  type World,
  type WorldEnv,
} from "./index.ts";

const WRONG = "I would rather not.";

/** Plays the oracle to the end; `spoil` replaces its replies on some turns. */
async function play(env: WorldEnv, seed: number, spoil: (turn: number) => string | undefined = () => undefined) {
  await env.reset(seed);
  const steps = [];
  for (;;) {
    const step = await env.step(spoil(env.turn + 1) ?? (await env.oracleReply()));
    steps.push(step);
    if (step.terminated || step.truncated) return steps;
  }
}
const paid = ({ rewards }: { rewards: readonly RewardPart[] }) => sumRewards(rewards);
const total = (steps: { rewards: readonly RewardPart[] }[]) => steps.reduce((sum, step) => sum + paid(step), 0);

test("what an episode ends with is not drawn where nobody looks at it; what it earns is the same", async () => {
  const [seen, unseen] = [await makeWorldEnv("maze_2d/easy"), await makeWorldEnv("maze_2d/easy")];
  unseen.seesEnd = false;
  const [all, less] = [await play(seen, 0), await play(unseen, 0)];
  expect(less.slice(0, -1)).toEqual(all.slice(0, -1));
  expect(less.at(-1)).toEqual({ ...all.at(-1), observation: [] });
  expect(all.at(-1)?.observation).toHaveLength(1);
});

describe("rewards", () => {
  test("without format reward the task's reward is paid when it is earned", async () => {
    const steps = await play(await makeWorldEnv("maze_2d/easy"), 0);
    expect(steps.map(paid)).toEqual([...steps.slice(1).map(() => 0), 1]);
    expect(steps.at(-1)).toMatchObject({ terminated: true, success: true, rewards: [{ name: "task", value: 1 }] });
  });

  test("a mixture pays 0.8 of the task and 0.2 of the share of well-formed turns, at the end", async () => {
    const env = await makeWorldEnv("maze_2d/easy", { protocol: { name: "tuple", tags: true }, maxTurns: 40 });
    expect(total(await play(env, 0))).toBeCloseTo(1);
    const steps = await play(env, 0, (turn) => (turn <= 3 ? WRONG : undefined));
    expect(total(steps)).toBeCloseTo(0.8 + 0.2 * ((steps.length - 3) / steps.length));
    expect(steps.slice(0, -1).every((step) => paid(step) === 0)).toBe(true);
  });

  test("the format share of a mixture is paid at the turn limit too", async () => {
    const env = await makeWorldEnv("maze_2d/easy", { protocol: { name: "tuple", tags: true }, maxTurns: 4 });
    const steps = await play(env, 0, (turn) => (turn === 2 ? WRONG : undefined));
    expect(steps.at(-1)).toMatchObject({ truncated: true, terminated: false, success: false });
    expect(total(steps)).toBeCloseTo(0.2 * (3 / 4));
  });

  test("an episode that is cut short is paid the format share it has earned, once", async () => {
    const env = await makeWorldEnv("maze_2d/easy", { protocol: { name: "tuple", tags: true }, maxTurns: 40 });
    await env.reset(0);
    for (const reply of [await env.oracleReply(), WRONG, WRONG, WRONG]) expect(paid(await env.step(reply))).toBe(0);
    expect(env.truncate()).toEqual([{ name: "format", value: 0.2 * (1 / 4) }]);
    expect(env.truncate()).toEqual([]);
    await expect(env.step(WRONG)).rejects.toThrow("over");
  });

  test("a definition's scorer sees the sections of a reply before and after its actions, and pays in their place", async () => {
    const seen: string[] = [];
    const maze = maze2d.create(maze2d.options.parse({}));
    const definition = defineWorld({
      id: "scored_test",
      protocol: "world-model",
      create: () => maze,
      async score({ when, reply, parsed, world }) {
        const said = parsed.sections[when === "before" ? "observation" : "prediction"];
        if (said === undefined) return [];
        seen.push(`${when} ${JSON.stringify(await world.observe("text")).length > 0} ${reply.slice(...said.span)}`);
        return [{ name: when === "before" ? "seen" : "foreseen", value: 0.25, span: said.span }];
      },
    });
    register(definition);
    const env = await makeWorldEnv("scored_test", { formatReward: { kind: "none" } });
    await env.reset(0);
    const reply = "<observation>wall</observation><think>t</think><answer>up</answer><prediction>gap</prediction>";
    const { rewards, info } = await env.step(reply);
    expect(seen).toEqual(["before true wall", "after true gap"]);
    expect(rewards).toEqual([
      { name: "task", value: 0 },
      { name: "seen", value: 0.25, span: [13, 17] },
      { name: "foreseen", value: 0.25, span: [reply.indexOf("gap"), reply.indexOf("gap") + 3] },
    ]);
    expect(info.sections?.think?.text).toBe("t");
    expect((await env.step(WRONG)).rewards).toEqual([{ name: "task", value: 0 }]);
  });

  test("a bonus is paid on every well-formed turn, with the world's usual amount", async () => {
    const env = await makeWorldEnv("sokoban", {
      protocol: { name: "think" },
      maxActions: 1,
      minSolution: 4,
      maxSolution: 5,
      maxTurns: 9,
    });
    const steps = await play(env, 1, (turn) => (turn === 1 ? WRONG : undefined));
    expect(steps[0]).toMatchObject({
      rewards: [
        { name: "task", value: 0 },
        { name: "format", value: 0 },
      ],
      info: { parsed: false },
    });
    expect(total(steps)).toBeCloseTo(1 + 0.1 * (steps.length - 1));
    const own = await makeWorldEnv("sokoban", { protocol: { name: "think", bonus: 0.5 } });
    expect(own.options.formatReward).toEqual({ kind: "bonus", bonus: 0.5 });
    expect((await makeWorldEnv("frozen_lake")).options.formatReward).toEqual({ kind: "bonus", bonus: 0.02 });
  });
});

describe("turns", () => {
  test("a turn plays at most maxActions actions, and stops at the end of the episode", async () => {
    const env = await makeWorldEnv("frozen_lake", { board: ["SFFFG"], maxActions: 3 });
    await env.reset(0);
    const first = await env.step("<think>go</think><answer>right, right, right, right, right</answer>");
    expect(first.info.actions).toHaveLength(3);
    const second = await env.step("<think>go</think><answer>right, right, right</answer>");
    expect(second.info.actions).toHaveLength(1);
    expect(second).toMatchObject({ terminated: true, success: true });
  });

  test("standing on the goal without stopping is no success", async () => {
    const env = await makeWorldEnv("maze_2d/easy", { maxTurns: 12 }); // the plan of seed 0 has 12 moves and a stop
    const steps = await play(env, 0);
    expect(steps).toHaveLength(12);
    expect(steps.at(-1)).toMatchObject({ truncated: true, success: false, rewards: [{ value: 0 }] });
  });

  test("stepping before a reset or after the end is the caller's error", async () => {
    const env = await makeWorldEnv("frozen_lake", { maxTurns: 1 });
    await expect(env.step("x")).rejects.toThrow("reset");
    await env.reset(0);
    await env.step(WRONG);
    await expect(env.step("x")).rejects.toThrow("over");
    await expect(env.reset(-1)).rejects.toThrow("seed");
  });

  test("a saved episode goes on where it was", async () => {
    const env = await makeWorldEnv("sokoban", { minSolution: 5, maxSolution: 5, maxActions: 1 });
    await env.reset(4);
    await env.step(await env.oracleReply());
    const state = JSON.parse(JSON.stringify(await env.save()));
    const other = await makeWorldEnv("sokoban", { maxActions: 1 });
    await other.load(state);
    expect(other.turn).toBe(1);
    expect(await other.step(await other.oracleReply())).toEqual(await env.step(await env.oracleReply()));
  });

  test("a saved episode's oracle says the same words", async () => {
    const speaker = () => makeWorldEnv("frozen_lake", { protocol: { name: "world-model" } });
    const env = await speaker();
    const replies = new Set<string>();
    for (let seed = 1; seed < 9; seed++) {
      await env.reset(seed);
      const other = await speaker();
      await other.load(JSON.parse(JSON.stringify(await env.save())));
      expect(await other.oracleReply()).toBe(await env.oracleReply());
      replies.add(await env.oracleReply());
    }
    expect(replies.size).toBeGreaterThan(4);
  });

  test("paying for descriptions where none are asked for is refused", async () => {
    const made = makeWorldEnv("frozen_lake", { worldModel: { state: 0.5, transition: 0.5 } });
    await expect(made).rejects.toThrow(/asks for none.*world-model/);
  });
});

describe("slow worlds", () => {
  /** The world behind promises that take a while. */
  function slowly(world: World): World {
    const later = async <T>(work: () => T): Promise<Awaited<T>> => {
      await new Promise((resolve) => setImmediate(resolve));
      return await work();
    };
    return {
      actions: world.actions,
      reset: (seed) => later(() => world.reset(seed)),
      act: (action) => later(() => world.act(action)),
      observe: (mode) => later(() => world.observe(mode)),
      task: (style, mode) => later(() => world.task(style, mode)),
      success: () => later(() => world.success()),
      solve: () => later(() => world.solve?.() ?? []),
      save: () => later(() => world.save?.() ?? null),
      load: (state) => later(() => world.load?.(state)),
      close: () => later(() => world.close?.()),
    };
  }

  test("a world that answers with promises, made with a promise, plays as one that answers at once", async () => {
    const { id: _, ...rest } = frozenLake;
    const create = async (options: Parameters<typeof frozenLake.create>[0]) => slowly(await frozenLake.create(options));
    register(defineWorld({ ...rest, id: "slow_lake_test", create }));
    const options = { finalGoal: true, maxActions: 1 };
    const [quick, slow] = [await makeWorldEnv("frozen_lake", options), await makeWorldEnv("slow_lake_test", options)];
    expect(await slow.reset(3)).toEqual(await quick.reset(3));
    expect(await slow.save()).toEqual(await quick.save());
    expect(await play(slow, 3)).toEqual(await play(quick, 3));
    await slow.load(await quick.save());
    for (const agent of ["oracle", "random", "stop"] as const) {
      expect(await slow.builtinReply(agent, 1)).toEqual(await quick.builtinReply(agent, 1));
    }
    await slow.close();
  });
});

describe("messages", () => {
  test("the first message holds the instruction and the image, later ones what became of the action", async () => {
    const env = await makeWorldEnv("maze_2d/easy");
    const [first] = await env.reset(0);
    expect(textOf(first!)).toContain("('move', 0)");
    expect(textOf(first!)).toContain("Turn 1 of 20.");
    expect(imagesOf(first!)).toHaveLength(1);
    const { observation } = await env.step("('move', 0)");
    expect(textOf(observation[0]!)).toMatch(/right.*Turn 2 of 20\./);
    expect(imagesOf(observation[0]!)).toHaveLength(1);
  });

  test("without feedback only an unreadable reply is answered", async () => {
    const env = await makeWorldEnv("maze_2d/easy", { feedback: false });
    await env.reset(0);
    const wall = await env.step("('move', 3)");
    expect(wall.info).toMatchObject({ valid: false });
    expect(textOf(wall.observation[0]!)).toBe("Turn 2 of 20.");
    expect(textOf((await env.step(WRONG)).observation[0]!)).toMatch(/action/i);
  });

  test("text observations hold no image", async () => {
    const env = await makeWorldEnv("maze_2d/easy", { observation: "text" });
    const [first] = await env.reset(0);
    expect(imagesOf(first!)).toHaveLength(0);
    expect(textOf(first!)).toContain("#########");
  });

  test("finalGoal shows the solved state and leaves the episode as it was", async () => {
    const env = await makeWorldEnv("patch_reassembly/easy", { finalGoal: true });
    const plain = await makeWorldEnv("patch_reassembly/easy");
    const [first] = await env.reset(3);
    await plain.reset(3);
    expect(imagesOf(first!)).toHaveLength(2);
    expect(await env.save()).toEqual(await plain.save());
    const steps = await play(plain, 3);
    expect(imagesOf(steps.at(-1)!.observation[0]!)[0]!.hash).toBe(imagesOf(first!)[1]!.hash);
  });

  test("repeated instructions come every turn, brief ones are short, images shrink on request", async () => {
    const env = await makeWorldEnv("maze_2d/hard", {
      repeatInstructions: true,
      prompt: "brief",
      protocol: "keyword",
      maxLongSide: 100,
    });
    const [first] = await env.reset(0);
    expect(textOf(first!).length).toBeLessThan(200);
    expect(imagesOf(first!)[0]).toMatchObject({ width: 100, height: 100 });
    const { observation } = await env.step("<action>left</action>");
    expect(textOf(observation[0]!)).toContain(textOf(first!));
  });

  test("frameMultiple extends every image to whole tokens, blind or not", async () => {
    for (const blindfold of [false, true]) {
      const [first] = await (await makeWorldEnv("maze_2d/easy", { frameMultiple: 32, blindfold })).reset(0);
      expect(imagesOf(first!)[0]).toMatchObject({ width: 256, height: 256 });
    }
  });

  test("a blindfold shows grey of the same size, and changes nothing else", async () => {
    const [seen] = await (await makeWorldEnv("maze_2d/easy")).reset(0);
    const [grey] = await (await makeWorldEnv("maze_2d/easy", { blindfold: true })).reset(0);
    expect(textOf(grey!)).toBe(textOf(seen!));
    expect(imagesOf(grey!)[0]).toMatchObject({ width: 225, height: 225 });
    expect(new Set(imagesOf(grey!)[0]!.data)).toEqual(new Set([128]));
  });
});

describe("random play and noise", () => {
  const count = async (name: string, reply: (env: WorldEnv, random: NumpyRandom) => string) => {
    const env = await makeWorldEnv(name, { protocol: "keyword" });
    await env.reset(0);
    const random = new NumpyRandom(0);
    const seen = new Map<string, number>();
    for (let i = 0; i < 5000; i++) {
      const said = reply(env, random);
      seen.set(said, (seen.get(said) ?? 0) + 1);
    }
    return seen;
  };

  test("a random agent in a maze draws the four directions and stop evenly", async () => {
    const seen = await count("maze_2d/easy", (env, random) => env.randomReply(random));
    expect([...seen.keys()].sort()).toEqual(
      ["down", "left", "right", "stop", "up"].map((word) => `<action>${word}</action>`),
    );
    for (const times of seen.values()) expect(Math.abs(times - 1000)).toBeLessThan(150);
  });

  test("noise never plays what ends an episode", async () => {
    const maze = await count("maze_2d/easy", (env, random) => env.noisyReply(random));
    expect([...maze.keys()].sort()).toEqual(["down", "left", "right", "up"].map((word) => `<action>${word}</action>`));
    const code = await count("color_codeword", (env, random) => env.noisyReply(random));
    expect([...code.keys()]).toEqual(["<action>next</action>"]);
  });

  test("noisy demonstrations of a maze succeed, given the turns", async () => {
    const env = await makeWorldEnv("maze_2d/easy", { maxTurns: 200 });
    for (let seed = 0; seed < 100; seed++) {
      const demo = await playDemo("maze_2d/easy", env, seed, undefined, { probability: 0.5, labels: "played" });
      expect(demo.success, `seed ${seed}`).toBe(true);
    }
  });

  test("a world whose every action ends the episode has no noise, and says so", async () => {
    register(
      defineWorld({
        id: "quiz",
        create: () => ({
          actions: [stopAction("give up")],
          reset() {},
          act: () => ({ valid: true, reward: 0, ended: true }),
          observe: () => "?",
          task: () => "Give up.",
          success: () => false,
          solve: () => [act("stop")],
        }),
      }),
    );
    const env = await makeWorldEnv("quiz");
    await expect(playDemo("quiz", env, 0, undefined, { probability: 1, labels: "played" })).rejects.toThrow(
      "noise has nothing to play",
    );
  });
});

describe("an oracle that speaks", () => {
  const speaking = (strategy: string, env = "frozen_lake") =>
    makeWorldEnv(env, { protocol: { name: "world-model", strategy }, worldModel: { state: 1, transition: 1 } });

  test.each([
    ["none", ["answer"], []],
    ["free", ["think", "answer"], []],
    ["state", ["observation", "think", "answer"], ["state"]],
    ["transition", ["think", "answer", "prediction"], ["transition"]],
    ["both", ["observation", "think", "answer", "prediction"], ["state", "transition"]],
  ])("strategy %s: its demonstrations have the tags %j, and are true", async (strategy, tags, parts) => {
    for (const id of ["frozen_lake", "sokoban", "maze_2d/easy"]) {
      const env = await speaking(strategy, id);
      for (let seed = 0; seed < 12; seed++) {
        await env.reset(seed);
        for (let over = false; !over; ) {
          const reply = await env.oracleReply();
          expect([...reply.matchAll(/<(\w+)>/g)].map(([, tag]) => tag)).toEqual(tags);
          const step = await env.step(reply);
          expect(step.info.wellFormed).toBe(true);
          const paid = step.rewards.filter(({ name }) => name === "state" || name === "transition");
          expect(paid.map(({ name }) => name)).toEqual(parts);
          for (const { value, claims = [] } of paid) {
            expect(value).toBeGreaterThanOrEqual(0);
            expect(claims.length).toBeGreaterThan(0);
            expect(claims.every(({ right }) => right)).toBe(true);
          }
          over = step.terminated || step.truncated;
        }
        expect(await env.world.success()).toBe(true);
      }
    }
  });

  test("in tuple tags it says what it sees and the way from here, a word each unless it is asked to", async () => {
    const protocol = { name: "tuple", tags: true };
    const plain = await makeWorldEnv("maze_2d/easy", { protocol });
    await plain.reset(0);
    expect(await plain.oracleReply()).toMatch(/^<observation>here<.*><justification>next<.*><action>/);
    const env = await makeWorldEnv("maze_2d/easy", { protocol: { ...protocol, words: "true" }, prompt: "brief" });
    for (let seed = 0; seed < 8; seed++) {
      await env.reset(seed);
      for (let over = false; !over; ) {
        const reply = await env.oracleReply();
        const [fact] = (await env.world.facts?.()) ?? [];
        const plan = (await env.world.solve?.()) ?? [];
        const { observation, justification } = env.protocol.parse(reply, env.world.actions).sections;
        for (const relation of fact?.relations ?? [])
          if (!relation.startsWith("same")) expect(observation?.text).toContain(relation);
        expect(justification?.text).toBe(env.describe(plan.slice(0, 4)));
        const step = await env.step(reply);
        expect(step.info.wellFormed).toBe(true);
        over = step.terminated || step.truncated;
      }
    }
  });

  test("its words vary from episode to episode, and are the same when it is asked again", async () => {
    const env = await speaking("both");
    const said = new Set<string>();
    for (let seed = 0; seed < 20; seed++) {
      await env.reset(seed);
      const [first, again] = [await env.oracleReply(), await env.oracleReply()];
      expect(again).toBe(first);
      const { observation } = env.protocol.parse(first, env.world.actions).sections;
      said.add((observation?.text ?? "").replaceAll(/\b(above|below|left|right|up|down|hole|goal)\b/g, "…"));
    }
    expect(said.size).toBeGreaterThan(15);
  });

  test("a random agent and a slip of the hand say what is so and what will be, too", async () => {
    const env = await speaking("both");
    for (let seed = 0; seed < 20; seed++) {
      await env.reset(seed);
      const reply = (await env.builtinReply(seed % 2 === 0 ? "random" : "slip", seed)) ?? "";
      const { rewards } = await env.step(reply);
      for (const { name, claims = [] } of rewards) {
        if (name === "state" || name === "transition") expect(claims.every(({ right }) => right)).toBe(true);
      }
    }
  });
});
