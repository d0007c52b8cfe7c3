/** The model behind the routes: what several answers of one request have to do with each other. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { NativeEngine } from "../engine/index.ts";
import { temporaryFolder } from "../model/test-folder.ts";
import { Backend } from "./backend.ts";
import { createServable } from "./test-serve.ts";

let root = "";
let engine: NativeEngine;
let backend: Backend;
beforeAll(async () => {
  root = await temporaryFolder();
  await createServable(join(root, "model"));
  engine = new NativeEngine({ threads: 1 });
  backend = await Backend.open({ engine, folder: join(root, "model"), name: "policy", concurrency: 2, queue: 3 });
});
afterAll(async () => {
  await backend.close();
  await engine.close();
  await rm(root, { recursive: true, force: true });
});

const prompt = { ids: Int32Array.of(40, 41, 42), images: [] };
const params = { temperature: 1, maxTokens: 900, seed: 1, stopIds: [] };

test("the first answer that fails ends the others, and the request's own signal is left alone", async () => {
  const gone = new AbortController();
  const drawn = [0, 0];
  const answers = backend.together([0, 1, 2], gone.signal, (_, index, signal) =>
    index === 2
      ? new Promise<never>((__, fail) => setTimeout(() => fail(new Error("no more memory")), 50))
      : backend.generate({
          model: undefined,
          prompt,
          params: { ...params, seed: index },
          signal,
          onToken: () => {
            drawn[index] = (drawn[index] ?? 0) + 1;
          },
        }),
  );
  await expect(answers).rejects.toThrow("no more memory");
  await expect.poll(() => backend.metrics.running).toBe(0);
  expect(Math.max(...drawn)).toBeLessThan(params.maxTokens);
  expect(gone.signal.aborted).toBe(false);
});

test("more answers than can be at work and wait are refused before any is drawn", async () => {
  let begun = 0;
  const jobs = Array.from({ length: 6 });
  const asked = backend.together(jobs, new AbortController().signal, async () => {
    begun += 1;
  });
  await expect(asked).rejects.toThrow(/at most 5 answers/);
  expect(begun).toBe(0);
});
