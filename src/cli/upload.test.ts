import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { TestHub, TOKEN } from "../train/test-hub.ts";
import { uploadCommand } from "./upload.ts";

const hub = new TestHub();
const model = mkdtempSync(join(tmpdir(), "saccade-upload-"));
beforeAll(async () => {
  await hub.open();
  writeFileSync(join(model, "config.json"), "{}");
});
afterAll(() => {
  hub.close();
  rmSync(model, { recursive: true, force: true });
});

test("saccade run upload takes token and address from the environment and prints where the model is", async () => {
  vi.stubEnv("HF_TOKEN", TOKEN);
  vi.stubEnv("HF_ENDPOINT", `${hub.url}/`);
  const print = vi.spyOn(process.stdout, "write").mockReturnValue(true);
  try {
    await uploadCommand().parseAsync([model, "me/cli", "--private"], { from: "user" });
    expect(print).toHaveBeenCalledWith(`1 file in commit c0ffee: ${hub.url}/me/cli\n`);
  } finally {
    print.mockRestore();
    vi.unstubAllEnvs();
  }
  expect(hub.repos.get("me/cli")).toMatchObject({ visibility: "private" });
});
