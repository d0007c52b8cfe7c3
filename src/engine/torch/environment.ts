/**
 * The Python that the worker runs in. `saccade torch setup` makes an environment for it under the cache folder, or remembers one that exists; another is
 * named by the engine's `python` setting or SACCADE_TORCH_PYTHON. The package itself comes with Saccade and is found on PYTHONPATH: nothing of it is installed.
 */
import { execFile, spawn } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { cacheFolder, mistrust } from "../../core/cache-folder.ts";
import { errorMessage } from "../../core/errors.ts";
import { EngineError } from "../errors.ts";

/** What `setup` installs beside torch. */
const PACKAGES = ["aiohttp>=3.10", "msgpack>=1.1", "numpy>=2", "safetensors>=0.5", "transformers>=5,<6"];
const TORCH = "torch>=2.11";

export type TorchInstall = {
  readonly python: string;
  /** Where that is. */
  readonly executable: string;
  readonly torch: string;
  readonly transformers: string;
  /** Names of the GPUs it sees. */
  readonly devices: readonly string[];
  /** Bytes of memory of each. */
  readonly memories: readonly number[];
};

const PROBE = `
import json, sys
import aiohttp, msgpack, numpy, safetensors, torch, transformers
assert sys.version_info >= (3, 11), "Python 3.11 or newer is needed"
found = range(torch.cuda.device_count())
devices = [torch.cuda.get_device_name(i) for i in found]
memories = [torch.cuda.get_device_properties(i).total_memory for i in found]
print(json.dumps({"executable": sys.executable, "torch": torch.__version__, "transformers": transformers.__version__, "devices": devices, "memories": memories}))`;

/** On Windows `python3` is often a stand-in that opens a shop. */
export const SYSTEM_PYTHON = process.platform === "win32" ? "python" : "python3";

/** The environment that `setup` makes. */
export function environmentFolder(): string {
  return join(cacheFolder(), "torch");
}

/** Which Python is used when nothing is named: what `setup` made or was told, if that is there. */
export function defaultPython(): string {
  const file = rememberedIn();
  const told = existsSync(file) && mistrust(file) === undefined ? readFileSync(file, "utf8").trim() : undefined;
  const found = [told, pythonIn(environmentFolder())].find((python) => python !== undefined && existsSync(python));
  return process.env.SACCADE_TORCH_PYTHON || found || SYSTEM_PYTHON;
}

/** Checks a Python and uses it from now on. */
export async function adoptPython(python: string): Promise<TorchInstall> {
  const install = await findTorch(python);
  writeFileSync(rememberedIn(), `${install.executable}\n`);
  return install;
}

function rememberedIn(): string {
  return join(cacheFolder(), "torch-python");
}

/** Throws with what to do when something is missing there. */
export async function findTorch(python: string): Promise<TorchInstall> {
  try {
    const { stdout } = await promisify(execFile)(python, ["-c", PROBE]);
    return { python, ...(JSON.parse(stdout) as Omit<TorchInstall, "python">) };
  } catch (error) {
    const lines = errorMessage(error).trim().split("\n");
    throw new EngineError(
      `${python} can't run the PyTorch worker: ${lines.at(-1)}. Make an environment with \`saccade torch setup\`, or name another Python.`,
    );
  }
}

/** The folder that has the Python package, upward from this file: it runs from src/ and from dist/. */
export function packageFolder(): string {
  for (let folder = dirname(fileURLToPath(import.meta.url)); ; folder = dirname(folder)) {
    const found = join(folder, "python");
    if (existsSync(join(found, "saccade_torch", "__main__.py"))) return found;
    if (dirname(folder) === folder)
      throw new EngineError("python/saccade_torch is missing; install the package again.");
  }
}

/** Makes or updates the environment. `index`: where pip finds the wheels of torch, if not where it finds all others. `say` gets what pip prints. */
export async function setUp(
  options: { readonly base: string; readonly index?: string; readonly folder?: string },
  say: (line: string) => void,
): Promise<TorchInstall> {
  const folder = options.folder ?? environmentFolder();
  const python = pythonIn(folder);
  if (!existsSync(python)) await run(options.base, ["-m", "venv", folder], say);
  const where = options.index === undefined ? [] : ["--index-url", options.index];
  await run(python, ["-m", "pip", "install", "--upgrade", TORCH, ...where], say);
  await run(python, ["-m", "pip", "install", "--upgrade", ...PACKAGES], say);
  return adoptPython(python);
}

function pythonIn(folder: string): string {
  return process.platform === "win32" ? join(folder, "Scripts", "python.exe") : join(folder, "bin", "python");
}

function run(command: string, args: readonly string[], say: (line: string) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] });
    const last: string[] = [];
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text: string) => {
        for (const line of text.split("\n").filter((part) => part.trim() !== "")) {
          last.push(line);
          if (last.length > 5) last.shift();
          say(line);
        }
      });
    }
    child.once("error", (error) => reject(new EngineError(`${command} does not run: ${error.message}.`)));
    child.once("close", (code) => {
      if (code === 0) resolve();
      else reject(new EngineError(`${command} ${args.slice(0, 3).join(" ")} failed: ${last.join(" · ")}`));
    });
  });
}
