import { expect, test } from "vitest";
import { makeOnce } from "./make-once.ts";

test("what is asked for twice is made once, and a failure is tried again", async () => {
  const known = new Map<string, Promise<number>>();
  let made = 0;
  const make = async () => {
    made += 1;
    if (made === 1) throw new Error("not yet");
    return made;
  };
  const failing = [makeOnce(known, "a", make), makeOnce(known, "a", make)];
  for (const one of failing) await expect(one).rejects.toThrow("not yet");
  expect(await Promise.all([makeOnce(known, "a", make), makeOnce(known, "a", make)])).toEqual([2, 2]);
  expect(made).toBe(2);
});
