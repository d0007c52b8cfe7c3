import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { decodePng } from "../images/png.ts";
import { withFolder } from "../run/test-run.ts";
import type { Embedded, Source, TrajectoryQuery } from "./api.ts";
import { exportRuns } from "./export.ts";
import { embeddedSource, httpSource } from "./source.ts";
import { frame, withViewer } from "./test-viewer.ts";

const SCRIPT = 'document.title="</script>"+"$&"+"<!--";';

/** What Vite builds, in small. */
async function webFolder(folder: string): Promise<string> {
  const web = join(folder, "web");
  await mkdir(web);
  const head = `<meta charset="utf-8"><script type="module" crossorigin src="./app.js"></script><link rel="stylesheet" href="./app.css">`;
  await writeFile(
    join(web, "index.html"),
    `<!doctype html><html><head>${head}</head><body><div id="app"></div></body></html>`,
  );
  await writeFile(join(web, "app.js"), SCRIPT);
  await writeFile(join(web, "app.css"), "body{color:red}");
  return web;
}

async function exported(folder: string, maxBytes?: number) {
  return withFolder(async (place) => {
    const out = join(place, "out.html");
    const web = await webFolder(place);
    const report = await exportRuns({ folder, out, webFolder: web, ...(maxBytes !== undefined && { maxBytes }) });
    const html = await readFile(out, "utf8");
    const json = /<script type="application\/json" id="saccade-data">([^<]*)<\/script>/.exec(html)?.[1] ?? "";
    return { html, report, embedded: JSON.parse(json) as Embedded };
  });
}

describe("an exported page", () => {
  test("holds its script, styles and data, and loads nothing else", () =>
    withViewer(async (_, folder) => {
      const { html, report } = await exported(join(folder, "small"));
      expect(html).not.toMatch(/\bsrc=|\bhref=/);
      expect(html).toContain("body{color:red}");
      expect(html).toContain('document.title="<\\/script>"+"$&"+"\\x3c!--";');
      expect(html).toMatch(/default-src 'none'; script-src 'sha256-\S+' 'sha256-\S+'; style-src 'sha256-\S+'/);
      expect(html.indexOf("charset")).toBeLessThan(1024);
      expect(report).toEqual({ bytes: Buffer.byteLength(html), trajectories: 14, leftOut: [] });
      // The model's script tag can't end the data.
      expect(html.match(/<script/g)).toHaveLength(3);
    }));

  test("answers as the server does", () =>
    withViewer(async (viewer, folder) => {
      const embedded = embeddedSource((await exported(folder)).embedded);
      const server = httpSource(`http://127.0.0.1:${viewer.port}`);
      const queries: TrajectoryQuery[] = [
        {},
        { split: "eval" },
        { text: "NICHT", order: "asc" },
        { sort: "drift", limit: 3 },
        { rewardMin: 2, success: true, offset: 1 },
      ];
      const page = await server.trajectories("small");
      const keys = page.rows.map(({ key }) => key);
      const asks: ((source: Source) => Promise<unknown>)[] = [
        (source) => source.overview("small"),
        (source) => source.series("small", ["train/success"], 8),
        (source) => source.sight("small"),
        (source) => source.timeline("small", 2, 3),
        (source) => source.evaluations("small"),
        (source) => source.pinned("small", "maze", 900, 0),
        (source) => source.compare(["small", "small"]),
        ...queries.map((query) => (source: Source) => source.trajectories("small", query)),
        ...keys.map((key) => (source: Source) => source.trajectory("small", key)),
        ...keys.map((key) => (source: Source) => source.group("small", key)),
      ];
      // A page says neither where the runs were, nor that they may be changed.
      const plain = (value: unknown) =>
        JSON.stringify(value)
          .replaceAll(join(folder, "small"), "runs/small")
          .replace('"writable":true', '"writable":false');
      for (const ask of asks) {
        const [here, there] = [JSON.stringify(await ask(embedded)), plain(await ask(server))];
        expect(JSON.parse(here)).toEqual(JSON.parse(there));
        expect(here).not.toContain(folder);
      }
      expect([embedded.play, embedded.write]).toEqual([undefined, undefined]);
    }));

  test("has every frame of its trajectories as it was stored", () =>
    withViewer(async (_, folder) => {
      const { embedded } = await exported(folder);
      const source = embeddedSource(embedded);
      const uri = source.frameUrl("small", frame(3).hash) ?? "";
      const png = Buffer.from(uri.replace("data:image/png;base64,", ""), "base64");
      expect(decodePng(png).hash).toBe(frame(3).hash);
      expect(Object.keys(embedded.frames)).toHaveLength(7);
    }));

  test("keeps within its size, takes the newest evaluations first, and says what it left out", () =>
    withViewer(async (_, folder) => {
      const whole = (await exported(folder)).report.bytes;
      const { report, embedded } = await exported(folder, whole - 9000);
      expect(report.bytes).toBeLessThanOrEqual(whole - 9000);
      expect(report.trajectories).toBeGreaterThan(1);
      expect(report.trajectories).toBeLessThan(14);
      expect(report.leftOut.join()).toContain(`${14 - report.trajectories} of 14 trajectories`);
      const { rows } = await embeddedSource(embedded).trajectories("small");
      expect(rows.filter(({ split }) => split === "eval")).toHaveLength(2);
      const steps = rows.filter(({ split }) => split === "train").map(({ step }) => step);
      expect(steps.every((step) => step >= 2)).toBe(true);
    }));

  test("is refused where not even its curves fit", () =>
    withViewer(async (_, folder) => {
      await expect(exported(folder, 2000)).rejects.toThrow(/more than the 0\.0 MB/);
    }));

  test("needs the built page", () =>
    withViewer(async (_, folder) => {
      await expect(
        exportRuns({ folder, out: join(folder, "x.html"), webFolder: join(folder, "none") }),
      ).rejects.toThrow();
    }));
});
