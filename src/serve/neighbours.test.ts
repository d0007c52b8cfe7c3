/** Faulty messages on the wires to other stacks: clear errors, nothing stuck. `npm run prove -- neighbours` sends 10,000 on each. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { assailMcpClient, assailMcpServer, assailMlflow } from "./test-faulty-peers.ts";
import { assailAtif, assailClient, assailOpenEnv, assailRoutes, GENERATE_ROUTE } from "./test-neighbours.ts";
import { type Served, serveTiny } from "./test-serve.ts";

const COUNT = Number(process.env.SACCADE_FAULTS ?? 60);
const folder = mkdtempSync(join(tmpdir(), "saccade-faults-"));
let served: Served;
beforeAll(async () => {
  served = await serveTiny({ environments: { names: ["frozen_lake"], openenv: true, workers: "inline" } });
});
afterAll(async () => {
  await served.close();
  rmSync(folder, { recursive: true, force: true });
});

const wires: readonly [string, () => Promise<string[]>][] = [
  ["OpenEnv's sockets", () => assailOpenEnv(served.url, COUNT)],
  ["OpenEnv's routes", () => assailRoutes(served.url, COUNT)],
  ["generate with images", () => assailRoutes(served.url, COUNT, GENERATE_ROUTE)],
  ["an OpenEnv server", () => assailClient(COUNT)],
  ["ATIF files", () => assailAtif(folder, COUNT)],
  ["an MCP server of ours", () => assailMcpServer(COUNT)],
  ["an MCP server of a task's", () => assailMcpClient(COUNT)],
  ["an MLflow server", () => assailMlflow(COUNT)],
];
test.each(wires)(
  "%s: every faulty message is answered in words",
  async (name, assail) => {
    const start = performance.now();
    expect(await assail()).toEqual([]);
    if (COUNT > 1000) console.log(`${name}: ${COUNT} in ${((performance.now() - start) / 1000).toFixed(0)} s`);
  },
  3_600_000,
);

test("after that the server plays and samples", async () => {
  expect((await fetch(`${served.url}/health`)).status).toBe(200);
  const asked = { method: "POST", headers: { "content-type": "application/json" }, body: '{"seed": 1}' };
  expect((await fetch(`${served.url}/reset`, asked)).status).toBe(200);
});
