/** The judge that reads with a chat model, over a local server that speaks the providers' wire formats, well and badly. */
import { afterEach, expect, test } from "vitest";
import "../envs/index.ts";
import { worldModelOf } from "../envs/registry.ts";
import { readText } from "../envs/world-model/reader.ts";
import { builtinAgent } from "../rollout/builtin-agents.ts";
import { playGroups } from "../rollout/groups.ts";
import { EnvHost } from "../rollout/hosts.ts";
import type { Judge } from "../rollout/judge.ts";
import type { Trajectory } from "../rollout/trajectory.ts";
import { chatJudge } from "./chat-judge.ts";
import { type Answer, type Asked, TestServer, type Wire } from "./test-server.ts";

const ENV = "sokoban";
const WORLD = { minSolution: 2 };
const PAY = { state: 0.5, transition: 0.25 };
const { view } = await worldModelOf(ENV, WORLD);

let server: TestServer | undefined;
afterEach(() => server?.stop());

/** Reads the texts of a request as the program would, and answers as it was asked to. */
function reading({ turns }: Asked): Answer {
  const texts = [...(turns[0]?.text ?? "").matchAll(/^\d+\. (".*")$/gm)].map(
    ([, json]) => JSON.parse(json as string) as string,
  );
  const lists = texts.map((text) =>
    readText(text, view).claims.map(({ kind, at }) => ({
      thing: kind,
      place: at.map((place, axis) => (place === undefined ? null : view.axes[axis]?.[place])),
    })),
  );
  return { text: `\`\`\`json\n${JSON.stringify(lists)}\n\`\`\``, input: 100, output: 20 };
}

async function judgeOf(wire: Wire, script: (asked: Asked, call: number) => Answer, timeoutMs = 5000) {
  server = await new TestServer(script).start();
  return chatJudge({
    ...server.model(wire),
    ...PAY,
    env: ENV,
    envOptions: WORLD,
    timeoutMs,
    retries: 3,
    backoff: { firstMs: 1, mostMs: 2 },
  });
}

/** Random play whose words are true, judged by the program in the environment or by a judge after it. */
async function play(judge?: Judge, siblings = 2): Promise<Trajectory[]> {
  const host = new EnvHost();
  const protocol = { name: "world-model", thinking: "free", maxActions: 1 };
  const options = { ...WORLD, protocol, maxTurns: 3, ...(judge === undefined && { worldModel: PAY }) };
  const requests = [5, 6, 7].map((seed) => ({ env: { id: ENV, options }, seed, siblings }));
  const episodes: Trajectory[] = [];
  const common = { agent: builtinAgent("random"), host, samplingSeed: 1, live: 4 };
  for await (const group of playGroups(requests, { ...common, ...(judge && { judge }) }))
    episodes.push(...group.trajectories);
  await host.close();
  return episodes;
}

const paid = (episodes: readonly Trajectory[]) =>
  episodes.flatMap(({ turns }) =>
    turns.map(({ rewards }) =>
      rewards
        .filter(({ name }) => name in PAY)
        .map(({ name, value, span }) => ({ name, value: value.toFixed(9), span })),
    ),
  );

test.each(["openai", "anthropic", "google", "server"] as const)(
  "over %s it pays what the program would, on the same spans",
  async (wire) => {
    const judge = await judgeOf(wire, reading);
    const judged = await play(judge);
    expect(judged.map((episode) => episode.judge?.error)).toEqual(judged.map(() => undefined));
    expect(paid(judged)).toEqual(paid(await play()));
    expect(
      paid(judged)
        .flat()
        .some(({ value }) => Number(value) !== 0),
    ).toBe(true);
    expect(server?.complaints).toEqual([]);
    const { requests, inputTokens, outputTokens } = judge.usage();
    expect({ requests, inputTokens, outputTokens }).toEqual({
      requests: server?.asked.length,
      inputTokens: 100 * requests,
      outputTokens: 20 * requests,
    });
    await judge.close();
  },
);

test("an episode is one request, and what was read once is not asked for again", async () => {
  const judge = await judgeOf("server", reading);
  const first = await play(judge, 1);
  expect(server?.asked.length).toBe(first.length);
  const again = await play(judge, 1);
  expect(server?.asked.length).toBe(first.length);
  expect(paid(again)).toEqual(paid(first));
});

test("rate limits and failures of the server are waited out", async () => {
  const troubles: Answer[] = [{ status: 429, headers: { "retry-after-ms": "1" } }, { status: 500 }, "drop"];
  const judge = await judgeOf("openai", (asked, call) => troubles[call] ?? reading(asked));
  const judged = await play(judge, 1);
  expect(judged.map((episode) => episode.judge?.error)).toEqual([undefined, undefined, undefined]);
  expect(judge.usage().retries).toBe(3);
});

const BAD: [string, Answer, string][] = [
  ["says something else", { text: "They look right to me." }, "not a list of"],
  ["forgets a text", { text: "[]" }, "not a list of"],
  ["never answers", "hang", "no answer within"],
  ["breaks off", "broken", "asked 4 times"],
  ["is down", { status: 503 }, "asked 4 times"],
];
test.each(BAD)("a judge that %s costs no episode, pays nothing, and is asked again", async (_, answer, why) => {
  const judge = await judgeOf("server", () => answer, 150);
  const judged = await play(judge);
  expect(judged).toHaveLength(6);
  for (const episode of judged) {
    expect(episode.judge?.error).toContain(why);
    expect(episode.turns.flatMap(({ rewards }) => rewards.map(({ name }) => name))).not.toContain("state");
  }
  if (server) server.script = reading;
  expect(paid(await play(judge, 1)).flat().length).toBeGreaterThan(0);
});

test.each(["openai", "anthropic", "server"] as const)(
  "over %s with everything that goes wrong at once no episode is lost, each is paid in full or not at all, and every answer is in the bill",
  async (wire) => {
    const chatter = { text: "They look right to me.", input: 100, output: 20 };
    let bill = 0;
    const billed = (answer: Answer) => {
      bill += 1;
      return answer;
    };
    const judge = await judgeOf(
      wire,
      (asked, call) => {
        const troubles: Readonly<Record<number, () => Answer>> = {
          0: () => ({ status: 429, headers: { "retry-after-ms": "1" } }),
          2: () => ({ status: 500 }),
          3: () => billed({ ...(reading(asked) as { text: string }), delayMs: 300 }),
          5: () => "broken",
          6: () => "drop",
          7: () => billed(chatter),
          9: () => "nonsense",
          10: () => ({ status: 529 }),
          11: () => (call < 13 ? "hang" : billed(reading(asked))),
        };
        return (troubles[call % 13] ?? (() => billed(reading(asked))))();
      },
      2000,
    );
    const [judged, programmed] = [await play(judge, 8), await play(undefined, 8)];
    expect(judged).toHaveLength(24);
    const failed = judged.filter((episode) => episode.judge?.error !== undefined);
    expect(failed.length).toBeGreaterThan(0);
    expect(failed.length).toBeLessThan(8);
    for (const [i, episode] of judged.entries()) {
      const nothing = episode.turns.map(() => []);
      expect(paid([episode])).toEqual(episode.judge?.error ? nothing : paid([programmed[i] as Trajectory]));
    }
    const { requests, inputTokens, outputTokens } = judge.usage();
    expect({ requests, inputTokens, outputTokens }).toEqual({
      requests: server?.asked.length,
      inputTokens: 100 * bill,
      outputTokens: 20 * bill,
    });
    expect(server?.complaints).toEqual([]);
  },
);
