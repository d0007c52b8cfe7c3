import { describe, expect, test } from "vitest";
import { TimedOut, within } from "./deadline.ts";

const later = <T>(value: T, ms = 1) => new Promise<T>((resolve) => setTimeout(resolve, ms, value));
const never = new Promise<never>(() => {});

describe("within", () => {
  test("gives what was answered, at once or later", async () => {
    expect(await within(() => 7, 1)).toBe(7);
    expect(await within(() => undefined, 1)).toBe(undefined);
    expect(await within(() => later(8), 1000)).toBe(8);
  });

  test("a failure is a rejection, whether it was thrown or came later", async () => {
    const fail = () => {
      throw new Error("no");
    };
    await expect(within(fail, 1)).rejects.toThrow("no");
    await expect(within(() => later(0).then(fail), 1000)).rejects.toThrow("no");
  });

  test("ends when the time is over, and a late failure troubles nobody", async () => {
    const late = later(0, 20).then(() => {
      throw new Error("too late");
    });
    await expect(within(() => late, 5)).rejects.toBeInstanceOf(TimedOut);
    // An unhandled rejection would fail this file.
    await later(0, 40);
  });

  test("ends with the signal's reason: before, while and after the work is asked for", async () => {
    const asked: string[] = [];
    const gone = AbortSignal.abort(new Error("gone"));
    const work = () => {
      asked.push("asked");
      return never;
    };
    await expect(within(work, 1000, gone)).rejects.toThrow("gone");
    expect(asked).toEqual([]);
    for (const when of ["while", "after"]) {
      const controller = new AbortController();
      const waiting = within(
        () => {
          if (when === "while") controller.abort(new Error(when));
          return work();
        },
        1000,
        controller.signal,
      );
      if (when === "after") setTimeout(() => controller.abort(new Error(when)), 5);
      await expect(waiting).rejects.toThrow(when);
    }
  });
});
