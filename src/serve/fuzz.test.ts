/** Bodies of any kind, to every route that takes one: never a crash, never a fault of ours, always words. `npm run prove -- fuzz` sends 100,000. */
import { connect } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { MAX_BODY_BYTES } from "../wire/request.ts";
import { assail, hostile, renderedImage } from "./test-fuzz.ts";
import { type Served, serveTiny } from "./test-serve.ts";

const COUNT = 1500;
let served: Served;
beforeAll(async () => {
  served = await serveTiny({ environments: { names: ["frozen_lake"] } });
});
afterAll(() => served.close());

test("no body is answered with a fault or not at all", async () => {
  const { faults, refused, answered } = await assail(served.url, hostile(COUNT, 1, await renderedImage(served.url)));
  expect(faults).toEqual([]);
  expect(answered).toBeGreaterThan(0);
  for (const kind of [
    "fields",
    "bytes",
    "numbers",
    "images",
    "features",
    "addresses",
    "nesting",
    "multipart",
    "types",
  ]) {
    expect(refused[kind], kind).toBeGreaterThan(0);
  }
  expect((await fetch(`${served.url}/health`)).status).toBe(200);
});

test("a body that is too long is refused before it is read", async () => {
  const socket = connect(served.port, "127.0.0.1");
  socket.write(
    `POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${MAX_BODY_BYTES + 1}\r\n\r\n{`,
  );
  let said = "";
  for await (const part of socket) {
    said += String(part);
    if (said.includes("at most")) break;
  }
  expect(said).toMatch(/^HTTP\/1.1 413/);
  socket.destroy();
});
