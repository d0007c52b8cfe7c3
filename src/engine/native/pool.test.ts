import { afterEach, expect, test } from "vitest";
import { Pool } from "./pool.ts";
import { nodeThreads } from "./threads.ts";

const job = { kind: "kernels" } as const;
let pool: Pool;
afterEach(() => pool.close());

test("a worker does what it was given in the order it was given, sent together or run", async () => {
  pool = new Pool(nodeThreads(), 1);
  const done: number[] = [];
  const note = (n: number) => () => void done.push(n);
  const sent = [1, 2].map((n) => pool.send(0, job).result.then(note(n)));
  const run = pool.run(job).then(note(3));
  const later = pool.send(0, job).result.then(note(4));
  await Promise.all([...sent, run, later]);
  expect(done).toEqual([1, 2, 3, 4]);
});

test("jobs of a worker that dies before they left for it fail, and its successor does the next", async () => {
  pool = new Pool(nodeThreads(), 1);
  await pool.run(job);
  const lost = [1, 2].map(() => pool.send(0, job).result);
  const caught = lost.map((result) => expect(result).rejects.toMatchObject({ name: "EngineError" }));
  await pool.kill(0);
  await Promise.all(caught);
  const [next, after] = await Promise.all([pool.send(0, job).result, pool.run(job)]);
  expect(next).toEqual(after);
});
