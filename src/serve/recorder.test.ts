/** A person records in a real browser: what is clicked on the frame is played in the world, and the kept episode is a demonstration that trains and replays. */
import { appendFile, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { textOf } from "../core/index.ts";
import { type Demo, DemoWriter, definePage, type Env, makeEnv, readDemos, register } from "../envs/index.ts";
import { systemBrowser } from "../envs/pages/find-browser.ts";
import { startRecorder } from "./recorder.ts";

const required = (process.env.SACCADE_REQUIRE ?? "").split(",").includes("browser");

register(
  definePage({
    id: "recorded",
    html: `<body style="margin:0"><button id="b" style="position:absolute;left:200px;top:150px;width:60px;height:40px">go</button><input id="i" style="position:absolute;left:10px;top:10px;width:90px;height:20px">`,
    viewport: { width: 320, height: 240 },
    task: "Write Ada, then press go.",
    reset: (page) => page.evaluate("b.onclick = () => { b.textContent = i.value; }; 0").then(() => undefined),
    success: (page) => page.evaluate<boolean>("b.textContent === 'Ada'"),
    solve: () => [],
  }),
);

describe.runIf(required || systemBrowser() !== undefined)("the recorder", () => {
  let folder = "";
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "saccade-record-"));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  test.each([undefined, 16])(
    "a person's clicks and text become a demonstration that succeeds when it is played again (scale %s)",
    async (scale) => {
      const options = { ...(scale !== undefined && { scale }) };
      const env: Env = await makeEnv("recorded", options);
      const file = join(folder, `${scale}.jsonl`);
      const writer = new DemoWriter(file, false);
      const demos: Demo[] = [];
      let done = () => {};
      const ended = new Promise<void>((resolve) => {
        done = resolve;
      });
      const server = await startRecorder({
        env,
        name: "recorded",
        options,
        seed: 5,
        judged: true,
        onDemo: (demo) => demos.push(demo) === 1,
        onDone: done,
      });
      const browser = await chromium.launch({ executablePath: systemBrowser() ?? "", args: ["--no-sandbox"] });
      try {
        const page = await browser.newPage({ viewport: { width: 900, height: 800 } });
        await page.goto(server.url);
        const frame = page.locator("#frame");
        const seen = (text: string) => page.getByText(text).waitFor();
        await seen("0 actions");
        await expect
          .poll(() => frame.evaluate((image) => (image as unknown as { naturalWidth: number }).naturalWidth))
          .toBe(320);
        /** On the frame as it is shown, which is larger than it is. */
        const click = async (x: number, y: number) => {
          const box = await frame.boundingBox();
          if (box === null) throw new Error("no frame");
          const times = Math.min(box.width / 320, box.height / 240);
          expect(times).toBeGreaterThan(1.5);
          await page.mouse.click(box.x + x * times, box.y + y * times);
        };
        await click(50, 20);
        await seen("1 action");
        await page.fill("#words", "Ada");
        await page.click("#text button");
        await seen("2 actions");
        await click(230, 170);
        await seen("solved");
        await page.click("#keep");
        await ended;
      } finally {
        await browser.close();
        await server.close();
      }
      const demo = demos[0] as Demo;
      expect(demo).toMatchObject({ env: "recorded", seed: 5, success: true, turns: 3, reward: 1 });
      await appendFile(file, `${writer.row(demo)}\n`);
      expect(await readFile(file, "utf8")).toContain(".frames/");
      const { value: read } = (await readDemos(file).next()) as { value: Demo };
      const replies = read.messages.filter(({ role }) => role === "assistant").map(textOf);
      expect(replies).toHaveLength(3);
      await env.reset(5);
      let last: Awaited<ReturnType<Env["step"]>> | undefined;
      for (const reply of replies) last = await env.step(reply);
      expect(last?.success).toBe(true);
      await env.close?.();
    },
    60_000,
  );

  test("a world without a pointer is refused, and so are pages of other sites", async () => {
    const lake = await makeEnv("recorded", { actions: ["wait"] });
    await expect(
      startRecorder({ env: lake, name: "x", seed: 0, judged: true, onDemo: () => true, onDone: () => {} }),
    ).rejects.toThrow(/where a person clicks/);
    await lake.close?.();
    const env = await makeEnv("recorded", {});
    const server = await startRecorder({ env, name: "x", seed: 0, judged: true, onDemo: () => true, onDone: () => {} });
    const act = (headers: Record<string, string>) =>
      fetch(`${server.url}/act`, { method: "POST", headers, body: JSON.stringify({ do: "wait" }) });
    expect((await act({ "content-type": "application/json", origin: "http://evil.example" })).status).toBe(403);
    expect((await act({ "content-type": "text/plain" })).status).toBe(400);
    expect((await act({ "content-type": "application/json" })).status).toBe(200);
    await server.close();
    await env.close?.();
  }, 60_000);
});
