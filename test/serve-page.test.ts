/** docs/guide/serve.md, remote-environments.md and gymnasium.md: their commands and programs, as a shell runs them, on ports of our own and with fewer steps. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { loadEvents } from "../src/run/index.ts";
import { gymPython } from "../src/serve/test-gym.ts";
import { freePort, Page, SHORT } from "./pages.ts";

let page: Page | undefined;
afterEach(() => page?.close());

/** Starts a server and waits until it says where it is. */
async function up(page: Page, command: string): Promise<void> {
  const { output } = page.start(command);
  await expect.poll(output, { timeout: 60_000 }).toMatch(/http:\/\//);
}

test("docs/guide/serve.md: a model is made, served, asked, evaluated, rendered and trained with; a key locks it", async () => {
  page = new Page("guide/serve.md");
  const port = String(await freePort());
  const here = (text: string) => text.replaceAll("8000", port);
  const [start, train, lock, ...rest] = page.commands().map((lines) => lines.map(here));
  expect(rest).toEqual([]);
  const [create, serve, ask, evaluate] = start as string[];
  await page.run(create as string);
  await up(page, serve as string);
  expect(JSON.parse(await page.run(ask as string))).toMatchObject({ choices: [{ message: { role: "assistant" } }] });
  expect(await page.run((evaluate as string).replace("0..31", "0..3"))).toContain("frozen_lake");

  const [chat, structured, generate, ...others] = page.blocks("ts").map(here);
  expect(others).toEqual([]);
  // The second goes on with the client of the first.
  for (const [name, program] of Object.entries({ chat: `${chat}${structured}`, generate })) {
    writeFileSync(join(page.folder, `${name}.ts`), program as string);
  }
  const jiti = `"${process.execPath}" node_modules/jiti/lib/jiti-cli.mjs`;
  expect(JSON.parse((await page.run(`${jiti} chat.ts`)).trim().split("\n").at(-1) as string)).toMatch(/^(left|right)$/);
  const [ids, versions] = (await page.run(`${jiti} generate.ts`))
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(ids.length).toBeGreaterThan(0);
  expect(versions).toEqual([{ version: "default", start: 0, end: ids.length }]);

  await page.run(`${train?.[0]} ${SHORT}`);
  const { events } = await loadEvents(join(page.folder, "runs/quickstart"));
  expect(events.filter(({ kind }) => kind === "train").map(({ metrics }) => metrics["drift/max"])).toEqual([0]);

  const other = String(await freePort());
  const [key, locked, open] = (lock as string[]).map((line) => line.replaceAll("8001", other));
  await page.run(key as string);
  await up(page, locked as string);
  expect(JSON.parse(await page.run(open as string))).toMatchObject({ data: [{ id: "first" }] });
  expect(await page.run(`curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:${other}/v1/models`)).toBe("401");
}, 300_000);

const WORLD = `import { defineTask, text, user } from "saccade";
export default defineTask({ id: "mine", data: [{ n: 1 }], prompt: () => [user(text("Say 1."))], reward: (reply) => (reply === "1" ? 1 : 0) });
`;

test("docs/guide/remote-environments.md: environments are served and played from another process", async () => {
  page = new Page("guide/remote-environments.md");
  writeFileSync(join(page.folder, "my-world.ts"), WORLD);
  const port = String(await freePort());
  const [[serve, play] = []] = page.commands().map((lines) => lines.map((line) => line.replaceAll("8100", port)));
  await up(page, serve as string);
  expect(JSON.parse(await page.run(play as string))).toMatchObject({ success: true });
}, 120_000);

test.runIf(gymPython)(
  "docs/guide/gymnasium.md: a Gymnasium environment is served by Python and played",
  async () => {
    page = new Page("guide/gymnasium.md");
    const port = String(await freePort());
    const [[serve, play] = []] = page.commands().map((lines) => lines.map((line) => line.replaceAll("8101", port)));
    await up(page, (serve as string).replace(/^python/, gymPython as string));
    expect(await page.run(play as string)).toContain("reward");
  },
  120_000,
);
