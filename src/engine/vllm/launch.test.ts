/** Starting vLLM: the flags that training needs, and errors that say what is missing. (src/train/vllm.test.ts starts the real one.) */

import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findVllm, serveCommand, startVllm } from "./launch.ts";

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "saccade-launch-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Stands in for an interpreter: answers the question what is installed, and does `then` when a server is to be started. */
async function interpreter(name: string, installed: string, then = "exit 1"): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, `#!/bin/sh\ncase "$2" in *importlib*) echo '${installed}';; *) ${then};; esac\n`);
  await chmod(path, 0o755);
  return path;
}

describe("what is installed", () => {
  test("is found, with its kind", async () => {
    const gpu = await interpreter("gpu", '{"vllm": "0.32.0", "cpu": null}');
    expect(await findVllm(gpu)).toEqual({ python: gpu, version: "0.32.0", cpu: false });
    const cpu = await interpreter("cpu", '{"vllm": null, "cpu": "0.32.0"}');
    expect(await findVllm(cpu)).toEqual({ python: cpu, version: "0.32.0", cpu: true });
  });

  test("is an error that says what to do where there is no vLLM, or no Python", async () => {
    const none = await interpreter("none", '{"vllm": null, "cpu": null}');
    await expect(findVllm(none)).rejects.toThrow(/has no vLLM.*pip install vllm/);
    await expect(findVllm(join(folder, "nothing"))).rejects.toThrow(/is not a working Python/);
  });
});

describe("the command line", () => {
  const gpu = { python: "python", version: "0.32.0", cpu: false };
  const flagsOf = (more: object, install = gpu) =>
    serveCommand(install, { python: "python", model: "/m", port: 8000, ...more });

  test("has what training needs, and adapters and sleep when they are asked for", () => {
    const { args, env } = flagsOf({});
    expect(args.join(" ")).toContain("serve /m --served-model-name policy --host 127.0.0.1 --port 8000");
    for (const flag of ["--enable-scale-out", "--logprobs-mode processed_logprobs", "--generation-config vllm"]) {
      expect(args.join(" ")).toContain(flag);
    }
    expect(env.VLLM_SERVER_DEV_MODE).toBe("1");
    expect(args.join(" ")).not.toMatch(/lora|sleep|float32/);
    const rich = flagsOf({ loraRank: 16, sleep: true, flags: ["--seed", "3"] });
    expect(rich.args.join(" ")).toMatch(/--enable-lora --max-lora-rank 16 .*--enable-sleep-mode --seed 3$/);
    expect(rich.env.VLLM_ALLOW_RUNTIME_LORA_UPDATING).toBe("1");
  });

  test("takes weights from memory when that is asked for, with the extension that can", () => {
    const { args } = flagsOf({ transfer: true });
    expect(args.join(" ")).toContain("--worker-extension-cls saccade_vllm.Extension");
    expect(args.join(" ")).toContain('--weight-transfer-config {"backend":"saccade"}');
  });

  test("on the CPU computes in float32 and repairs reloads; a server that renders only has no weights to reload", () => {
    const cpu = { ...gpu, cpu: true };
    expect(flagsOf({}, cpu).args.join(" ")).toMatch(/--dtype float32.*--worker-extension-cls saccade_vllm\.Extension/);
    const { args } = flagsOf({ renderOnly: true }, cpu);
    expect(args.join(" ")).toContain("launch render /m");
    expect(args.join(" ")).not.toMatch(/extension|scale-out/);
  });
});

test("a server that does not start says its last words, and a port that is taken is not waited for", async () => {
  const broken = await interpreter(
    "broken",
    '{"vllm": "0.32.0", "cpu": null}',
    'echo "starting"; echo "ValueError: no module or parameter named first"; exit 1',
  );
  await expect(startVllm({ python: broken, model: "/m" })).rejects.toThrow(/did not start.*\n.*parameter named first/);
  const taken = createServer();
  await new Promise<void>((done) => taken.listen(0, "127.0.0.1", done));
  const { port } = taken.address() as AddressInfo;
  await expect(startVllm({ python: broken, model: "/m", port })).rejects.toThrow(/already listens on/);
  taken.close();
});
