/** `saccade torch`: the PyTorch engine's environment, and a worker for others to attach to. */
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { Command, Option } from "commander";
import { ConfigError } from "../core/index.ts";
import { adoptPython, defaultPython, packageFolder, setUpTorch, type TorchInstall } from "../engine/index.ts";
import { SYSTEM_PYTHON } from "../engine/torch/environment.ts";

type SetupFlags = { cuda?: boolean; cpu?: boolean; python?: string; base: string; indexUrl?: string };
type ServeFlags = { host: string; port: string; python?: string };

export function torchCommand(): Command {
  const setup = new Command("setup")
    .description("create the Python environment of the PyTorch engine, or choose an existing one")
    .addOption(new Option("--cuda", "fail unless PyTorch sees a GPU afterwards").conflicts("cpu"))
    .option("--cpu", "do not require a GPU (the default)")
    .option("--python <path>", "use this Python, which has torch and transformers, instead of creating an environment")
    .option("--base <python>", "Python to create the environment with, 3.11 or newer", SYSTEM_PYTHON)
    .option(
      "--index-url <url>",
      "pip index for torch (PyTorch's install page lists one for each CUDA version and one for CPUs)",
    )
    .action(async ({ cuda, python, base, indexUrl }: SetupFlags) => {
      const say = (line: string) => process.stderr.write(`${line}\n`);
      const install =
        python === undefined
          ? await setUpTorch({ base, ...(indexUrl && { index: indexUrl }) }, say)
          : await adoptPython(python);
      if (cuda && install.devices.length === 0) {
        throw new ConfigError(
          `torch ${install.torch} in ${install.executable} sees no GPU. Check the driver, or choose a build for it with --index-url.`,
        );
      }
      process.stdout.write(`${describe(install)}\nUse it: saccade train quickstart --engine torch\n`);
    });
  const serve = new Command("serve")
    .description("run a worker for `--engine torch@host:port`; flags after -- go to the worker")
    .option("--host <host>", "address to listen on; 0.0.0.0 for other machines", "127.0.0.1")
    .option("--port <port>", "port; 0 for any free one", "8765")
    .option("--python <path>", "Python of the environment (default: the one from setup)")
    .argument("[flags...]", "--device, --dtype, --pack-tokens, --compile, …")
    .action(async (flags: string[], { host, port, python }: ServeFlags) => {
      const key = process.env.SACCADE_TORCH_KEY || randomBytes(24).toString("hex");
      if (!process.env.SACCADE_TORCH_KEY) process.stderr.write(`SACCADE_TORCH_KEY=${key}\n`);
      const child = spawn(
        python ?? defaultPython(),
        ["-m", "saccade_torch", "--host", host, "--port", port, "--with-parent", ...flags],
        {
          env: { ...process.env, PYTHONPATH: packageFolder(), SACCADE_TORCH_KEY: key },
          stdio: ["pipe", "inherit", "inherit"],
        },
      );
      const [code] = (await once(child, "close")) as [number | null];
      process.exitCode = code ?? 1;
    });
  const torch = new Command("torch").description("set up the PyTorch engine and run its workers");
  for (const command of [setup, serve]) torch.addCommand(command.exitOverride());
  return torch;
}

function describe({ executable, torch, transformers, devices }: TorchInstall): string {
  const device = devices.length === 0 ? "on the CPU" : `on ${devices.join(", ")}`;
  return `${executable}: torch ${torch}, transformers ${transformers}, ${device}`;
}
