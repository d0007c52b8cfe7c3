/** Renames, and what is done when the system refuses one. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { move, persist } from "./move.ts";

test("a file takes another's place", async ({ onTestFinished }) => {
  const folder = mkdtempSync(join(tmpdir(), "saccade-move-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const [from, to] = [join(folder, "new"), join(folder, "old")];
  writeFileSync(from, "new");
  writeFileSync(to, "old");
  await move(from, to);
  expect(readFileSync(to, "utf8")).toBe("new");
  expect(existsSync(from)).toBe(false);
});

/** What Windows does while somebody has the file open: `times` refusals, then success. */
function busy(times: number, code: string) {
  const state = { tries: 0 };
  const attempt = async () => {
    if (state.tries++ < times) throw Object.assign(new Error(`${code}: refused`), { code });
  };
  return { state, attempt };
}

test.each(["EPERM", "EACCES", "EBUSY"])("a refusal (%s) is tried again until it succeeds", async (code) => {
  const { state, attempt } = busy(2, code);
  await persist(attempt, [0, 0, 0]);
  expect(state.tries).toBe(3);
});

test("the last refusal is the error, and what is no refusal is one at once", async () => {
  const stubborn = busy(9, "EPERM");
  await expect(persist(stubborn.attempt, [0, 0])).rejects.toMatchObject({ code: "EPERM" });
  expect(stubborn.state.tries).toBe(3);
  const missing = busy(9, "ENOENT");
  await expect(persist(missing.attempt, [0, 0])).rejects.toMatchObject({ code: "ENOENT" });
  expect(missing.state.tries).toBe(1);
});
