import { mkdir, readdir, readFile, rename, symlink, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { encodePng } from "../images/png.ts";
import { withFolder } from "../run/test-run.ts";
import { type RunOverview, type RunsReply, routes, type TrajectoryPage } from "./api.ts";
import { startViewer } from "./server.ts";
import { frame, get, raw, sharedViewer, withViewer, writeRun } from "./test-viewer.ts";

const HOST = "Host: localhost";
const KEY = "a-key-with-24-characters";

describe("nothing outside the run folders is served", () => {
  const shared = sharedViewer(async (folder) => {
    await writeFile(join(folder, "secret.txt"), "SECRET");
    await writeFile(join(folder, "secret.png"), "SECRET");
  });
  const paths = [
    "/../secret.txt",
    "/%2e%2e/secret.txt",
    "/..%2fsecret.txt",
    "/%2e%2e%2fsecret.txt",
    "/..\\secret.txt",
    "/..%5csecret.txt",
    "/%252e%252e%252fsecret.txt",
    "/%c0%ae%c0%ae/secret.txt",
    "//secret.txt",
    "/api/runs/..",
    "/api/runs/%2e%2e",
    "/api/runs/..%2fsecret",
    "/api/runs/secret",
    "/api/runs/small%00",
    "/api/runs/small/../../secret.txt",
    "/api/runs/small/frames/../run.json",
    "/api/runs/small/frames/..%2frun.json",
    "/api/runs/small/frames/..%2f..%2fsecret.png",
    "/api/runs/small/frames/run.json",
    "/api/runs/small/run.json",
    "/api/runs/small/trajectories/..%2f..%2fsecret.txt",
    "/api/runs/small%2ftrajectories",
    "http://elsewhere/secret.txt",
    "secret.txt",
    "*",
  ];
  test.each(paths)("%s is refused", async (path) => {
    const { status, text } = await raw(shared.viewer.port, [`GET ${path} HTTP/1.1`, HOST]);
    expect([400, 404]).toContain(status);
    expect(text).not.toContain("SECRET");
    expect(text).not.toContain('"config"');
  });

  test("a frame that is a link out of the run is not followed", () =>
    withViewer(async ({ port }, folder) => {
      const secret = encodePng(frame(77));
      await writeFile(join(folder, "secret.png"), secret);
      const hash = "a".repeat(32);
      await symlink(join(folder, "secret.png"), join(folder, `small/frames/${hash}.png`));
      expect((await raw(port, [`GET ${routes.frame("small", hash)} HTTP/1.1`, HOST])).status).toBe(404);
    }));

  test("files and folders of a run that are links out of it are not read, and that is said", () =>
    withFolder(async (folder) => {
      const outside = await writeRun(join(folder, "outside"));
      await outside.close("finished");
      const runs = join(folder, "runs");
      await mkdir(runs);
      const inside = await writeRun(join(runs, "inside"), { steps: 1 });
      await inside.close("finished");
      await rename(join(runs, "inside/trajectories"), join(runs, "inside/old"));
      await symlink(join(folder, "outside/trajectories"), join(runs, "inside/trajectories"));
      const linked = await writeRun(join(runs, "linked"), { steps: 0 });
      await linked.close("finished");
      await symlink(join(folder, "outside/trajectories/step-3.jsonl"), join(runs, "linked/trajectories/step-3.jsonl"));
      await symlink(join(folder, "outside"), join(runs, "whole"));
      const viewer = await startViewer({ folder: runs });
      try {
        const list = await get<RunsReply>(viewer, routes.runs());
        expect(list.runs.map(({ id }) => id).sort()).toEqual(["inside", "linked"]);
        expect(list.missing.join()).toContain("whole is a link");
        expect((await get<TrajectoryPage>(viewer, routes.trajectories("inside"))).total).toBe(0);
        expect((await get<RunOverview>(viewer, routes.overview("inside"))).missing.join()).toContain("a link out of");
        const page = await get<TrajectoryPage>(viewer, routes.trajectories("linked"));
        expect([page.total, page.missing.join()]).toEqual([0, "step-3.jsonl is not a plain file; it is left out."]);
        expect((await raw(viewer.port, ["GET /api/runs/whole HTTP/1.1", HOST])).status).toBe(404);
      } finally {
        await viewer.close();
      }
    }));

  test("an index folder that is a link is not written through", () =>
    withViewer(async (viewer, folder) => {
      await mkdir(join(folder, "target"));
      await symlink(join(folder, "target"), join(folder, "small/.view"));
      const page = await get<TrajectoryPage>(viewer, routes.trajectories("small"));
      expect(page.total).toBe(14);
      expect(page.missing.join()).toContain(".view");
    }));
});

describe("only the viewer's own page may ask", () => {
  const shared = sharedViewer();
  const refused: [string, string[]][] = [
    ["another Host", ["Host: evil.example"]],
    ["no Host", ["X-Nothing: 1"]],
    ["a Host that begins like ours", ["Host: localhost.evil.example"]],
    ["another Origin", [HOST, "Origin: http://evil.example"]],
    ["the Origin of another port", [`${HOST}:1`, "Origin: http://localhost:2"]],
    ["the Origin null", [HOST, "Origin: null"]],
    ["a page of another site that asks for an image", [HOST, "Sec-Fetch-Site: cross-site"]],
  ];
  test.each(refused)("%s is refused", async (_, headers) => {
    const { port } = shared.viewer;
    const { status, text } = await raw(port, ["GET /api/runs HTTP/1.1", ...headers]);
    expect([400, 403]).toContain(status);
    expect(text).not.toContain("small");
  });

  test.each(["127.0.0.1", "localhost:8080", "[::1]:4400", "LOCALHOST"])("Host %s is this machine", async (host) => {
    const { port } = shared.viewer;
    expect((await raw(port, ["GET /api/runs HTTP/1.1", `Host: ${host}`])).status).toBe(200);
  });

  test("every answer forbids foreign scripts, sniffing and framing, and none allows another origin", async () => {
    const { port } = shared.viewer;
    for (const path of ["/", "/api/runs", "/api/none", `/api/runs/small/frames/${frame(1).hash}.png`, "/../x"]) {
      const { text } = await raw(port, [`GET ${path} HTTP/1.1`, `${HOST}:${port}`, `Origin: http://localhost:${port}`]);
      expect(text).toMatch(/content-security-policy: default-src 'none'; script-src 'self';/i);
      expect(text).toMatch(/x-content-type-options: nosniff/i);
      expect(text).toMatch(/frame-ancestors 'none'/i);
      expect(text).not.toMatch(/access-control-allow/i);
      expect(text).not.toMatch(/unsafe-inline|unsafe-eval/);
    }
  });

  test("a question before a request from another origin gets no permission", async () => {
    const { port } = shared.viewer;
    const preflight = ["OPTIONS /api/play HTTP/1.1", HOST, "Origin: http://evil.example"];
    const { status, text } = await raw(port, [...preflight, "Access-Control-Request-Method: POST"]);
    expect(status).toBe(403);
    expect(text).not.toMatch(/access-control-allow/i);
  });

  test("a form of another site, which can't send JSON, starts nothing", async () => {
    const { port } = shared.viewer;
    const body = JSON.stringify({ env: "frozen_lake", seed: 1 });
    const head = ["POST /api/play HTTP/1.1", HOST, `Content-Length: ${body.length}`];
    expect((await raw(port, [...head, "Content-Type: text/plain"], body)).status).toBe(400);
    expect((await raw(port, [...head, "Content-Type: application/json"], body)).status).toBe(200);
  });

  test("what a model wrote is only ever JSON", async () => {
    const { viewer } = shared;
    const page = await get<TrajectoryPage>(viewer, `${routes.trajectories("small")}?text=script`);
    const answer = await raw(viewer.port, [`GET ${routes.trajectory("small", page.rows[0]!.key)} HTTP/1.1`, HOST]);
    expect(answer.text).toContain("<script>alert(1)</script>");
    expect(answer.text).toMatch(/content-type: application\/json/i);
  });
});

describe("only the viewer's own page may write", () => {
  const post = (port: number, path: string, body: unknown, headers: string[] = []) => {
    const text = JSON.stringify(body);
    const head = [`POST ${path} HTTP/1.1`, HOST, `Content-Length: ${text.length}`];
    return raw(port, [...head, ...(headers.length > 0 ? headers : ["Content-Type: application/json"])], text);
  };
  const writes = (key: string): [string, unknown][] => [
    [routes.notes("small"), { star: true }],
    [routes.remove("small"), { confirm: "small" }],
    [routes.label("small", key), { label: "x" }],
  ];
  const keyOf = async (viewer: Parameters<typeof get>[0]) =>
    (await get<TrajectoryPage>(viewer, routes.trajectories("small"))).rows[0]!.key;

  test("other sites can neither note, label nor delete", () =>
    withViewer(async (viewer, folder) => {
      for (const [path, body] of writes(await keyOf(viewer))) {
        for (const headers of [
          ["Content-Type: application/json", "Origin: http://evil.example"],
          ["Content-Type: application/json", "Origin: null"],
          ["Content-Type: application/json", "Sec-Fetch-Site: cross-site"],
          ["Content-Type: text/plain"],
        ]) {
          expect([400, 403]).toContain((await post(viewer.port, path, body, headers)).status);
        }
      }
      expect((await readdir(join(folder, "small"))).filter((name) => /notes|labels/.test(name))).toEqual([]);
    }));

  test("a viewer that is read only, or shows a single run, refuses to write and to delete", () =>
    withViewer(async (viewer, folder) => {
      const key = await keyOf(viewer);
      const others = [
        await startViewer({ folder, readOnly: true }),
        await startViewer({ folder: join(folder, "small") }),
      ];
      for (const other of others) {
        for (const [path, body] of writes(key)) expect((await post(other.port, path, body)).status).toBe(403);
        await other.close();
      }
      expect(await readdir(folder)).toContain("small");
    }));

  test("deleting names the run again, and never leaves the folder of runs", () =>
    withViewer(async ({ port }, folder) => {
      await mkdir(join(folder, "outside"));
      const kept = await writeRun(join(folder, "outside/kept"), { steps: 1 });
      await kept.close("finished");
      await symlink(join(folder, "outside/kept"), join(folder, "linked"));
      const paths = ["..", "%2e%2e", "outside%2fkept", "outside", "none"].map((id) => `/api/runs/${id}/delete`);
      for (const path of paths) expect([400, 404]).toContain((await post(port, path, { confirm: "outside" })).status);
      expect((await post(port, routes.remove("small"), {})).status).toBe(400);
      expect((await post(port, routes.remove("small"), { confirm: "other" })).status).toBe(400);
      expect(await readdir(folder)).toContain("small");
      expect((await post(port, routes.remove("linked"), { confirm: "linked" })).status).toBe(200);
      // The link went; what it led to stays.
      expect(await readdir(join(folder, "outside"))).toEqual(["kept"]);
      expect((await post(port, routes.remove("small"), { confirm: "small" })).status).toBe(200);
      expect(await readdir(folder)).toEqual(["outside"]);
    }));

  test("a run whose files are links out of it is not written to", () =>
    withViewer(async ({ port }, folder) => {
      await writeFile(join(folder, "elsewhere.json"), "{}");
      await symlink(join(folder, "elsewhere.json"), join(folder, "small/notes.json"));
      expect((await post(port, routes.notes("small"), { note: "hello" })).status).toBe(403);
      expect(await readFile(join(folder, "elsewhere.json"), "utf8")).toBe("{}");
    }));
});

describe("beyond this machine", () => {
  test.each(["0.0.0.0", "192.168.1.2", "example.org", "::"])("binding to %s without a key is refused", (host) =>
    withFolder(async (folder) => {
      await expect(startViewer({ folder, host })).rejects.toThrow("give a key");
    }),
  );

  test("a short key is refused", () =>
    withFolder(async (folder) => {
      await expect(startViewer({ folder, host: "0.0.0.0", key: "short" })).rejects.toThrow("16 characters");
    }));

  test("nothing is answered without the key; the printed address puts it into a cookie that only the server reads", () =>
    withViewer(
      async ({ port, url }) => {
        expect(url).toBe(`http://${hostname()}:${port}/?key=${KEY}`);
        const ask = (path: string, ...headers: string[]) => raw(port, [`GET ${path} HTTP/1.1`, HOST, ...headers]);
        for (const path of ["/", "/api/runs", "/?key=wrong-wrong-wrong-wrong", `/api/runs?key=${KEY}`]) {
          expect((await ask(path)).status).toBe(401);
        }
        expect((await ask("/api/runs", "Authorization: Bearer wrong")).status).toBe(401);
        expect((await ask("/api/runs", `Authorization: Bearer ${KEY}`)).status).toBe(200);
        const landing = await ask(`/?key=${KEY}`);
        expect(landing.status).toBe(303);
        const cookie = /set-cookie: (\S+?);(.*)/i.exec(landing.text)!;
        expect(cookie[2]).toMatch(/HttpOnly; SameSite=Strict/);
        expect((await ask("/api/runs", `Cookie: a=b; ${cookie[1]}`)).status).toBe(200);
        expect((await raw(port, ["GET /api/runs HTTP/1.1", "Host: evil.example", `Cookie: ${cookie[1]}`])).status).toBe(
          403,
        );
      },
      { host: "0.0.0.0", key: KEY },
    ));
});
