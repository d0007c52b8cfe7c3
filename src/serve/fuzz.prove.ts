/** `npm run prove -- fuzz`: 100,000 hostile bodies (SACCADE_FUZZ_SEED chooses which) are refused with words, and memory does not grow. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { assail, hostile, renderedImage } from "./test-fuzz.ts";

const COUNT = 100_000;
const ROUNDS = 10;
/** Before this many rounds, caches and the engine's pools still fill. */
const WARM = 4;
const MAX_MIB = 48;

test("100,000 hostile bodies: no fault, no leak", async () => {
  // A process of its own, so that its memory is its own.
  const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
  const child = fork(here("../../node_modules/jiti/lib/jiti-cli.mjs"), [here("./test-fuzz-server.ts")], {
    execArgv: ["--expose-gc"],
  });
  try {
    const [url] = (await once(child, "message")) as [string];
    const testImage = await renderedImage(url);
    const seed = Number(process.env.SACCADE_FUZZ_SEED ?? 1);
    const resident: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const { faults, refused, answered } = await assail(url, hostile(COUNT / ROUNDS, seed + round, testImage));
      expect(faults).toEqual([]);
      child.send("collect");
      await once(child, "message");
      const status = readFileSync(`/proc/${child.pid}/status`, "utf8");
      resident.push(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024);
      const share = JSON.stringify(refused);
      console.log(
        `${((round + 1) * COUNT) / ROUNDS} bodies: ${answered} answered, refused ${share}, ${resident.at(-1)?.toFixed(0)} MiB`,
      );
    }
    expect((resident.at(-1) as number) - (resident[WARM - 1] as number)).toBeLessThan(MAX_MIB);
  } finally {
    child.kill();
  }
});
