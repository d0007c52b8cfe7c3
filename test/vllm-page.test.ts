/**
 * docs/guide/vllm.md: its commands, as a shell runs them, on a port of our own and with fewer steps. Runs where SACCADE_VLLM_PYTHON names the Python of an
 * environment with vLLM; SACCADE_REQUIRE=vllm makes its absence a failure (src/train/vllm.test.ts).
 */
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { loadEvents } from "../src/run/index.ts";
import { freePort, Page, SHORT } from "./pages.ts";

const page = new Page("guide/vllm.md");
afterAll(() => page.close());

test.runIf(process.env.SACCADE_VLLM_PYTHON)(
  "the page's commands make a model, serve it on vLLM, train on it and evaluate there",
  async () => {
    const port = await freePort();
    const [lines] = page.commands() as [string[]];
    const [create, serve, train, evaluate, ...rest] = lines.map((line) => line.replaceAll("8000", String(port)));
    expect(rest).toEqual([]);
    await page.run(create as string);
    const server = page.start(serve as string);
    await expect.poll(server.output, { timeout: 600_000, interval: 500 }).toMatch(/in a recipe: engine:/);
    await page.run(`${train} ${SHORT}`);
    const { events } = await loadEvents(join(page.folder, "runs/quickstart"));
    const steps = events.filter(({ kind }) => kind === "train");
    expect(steps.length).toBe(1);
    expect(steps[0]?.metrics["drift/max"]).toBeLessThan(1e-4);
    expect(await page.run(`${evaluate?.replace("0..31", "0..3")} --max-turns 2`)).toContain("frozen_lake");
  },
  900_000,
);
