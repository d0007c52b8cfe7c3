/** docs/guide/agents.md: its files and commands, as a shell runs them, with fewer steps. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { loadEvents } from "../src/run/index.ts";
import { Page } from "./pages.ts";

let page: Page | undefined;
afterEach(() => page?.close());

const SHORT = [
  "warmStart.episodes=8",
  "steps=1",
  "groups=2",
  "siblings=2",
  "minibatch=4",
  "filters=[]",
  "evaluate.before=false",
  "evaluate.seeds=[1000000000,1000000003]",
  "sight.episodes=4",
]
  .map((change) => `--set '${change}'`)
  .join(" ");

test("docs/guide/agents.md: the agent is solved by its oracle, trained without drift, and evaluated", async () => {
  page = new Page("guide/agents.md");
  const [agent, recipe, ...others] = page.blocks("ts");
  expect(others).toHaveLength(1);
  writeFileSync(join(page.folder, "agent.ts"), agent as string);
  writeFileSync(join(page.folder, "train.ts"), recipe as string);
  const [solve, train, evaluate, ...more] = page.commands().flat();
  expect(more).toEqual([]);
  expect(await page.run(solve as string)).toMatch(/agent\.ts \| 100\.0 %/);
  await page.run(`${train} ${SHORT}`);
  const { events } = await loadEvents(join(page.folder, "runs/signal"));
  const trained = events.filter(({ kind }) => kind === "train");
  expect(trained).toHaveLength(1);
  expect(trained[0]?.metrics["train/failed"]).toBe(0);
  expect(await page.run((evaluate as string).replace("2000000031", "2000000003"))).toContain("signal");
}, 300_000);
