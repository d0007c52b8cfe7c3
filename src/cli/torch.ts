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
    .description("make the Python environment of the PyTorch engine, or name one that exists")
    .addOption(new Option("--cuda", "fail unless PyTorch sees a GPU afterwards").conflicts("cpu"))
    .option("--cpu", "a GPU is not needed (the default)")
    .option("--python <path>", "use this environment, which has torch and transformers, and make none")
    .option("--base <python>", "the Python that makes the environment, 3.11 or newer", SYSTEM_PYTHON)
    .option(
      "--index-url <url>",
      "where pip finds the wheels of torch (PyTorch's install page has one for each CUDA and for CPUs)",
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
    .description("run a worker that others attach to with --engine torch@host:port; flags after -- are the worker's")
    .option("--host <host>", "where to listen; 0.0.0.0 for other machines", "127.0.0.1")
    .option("--port <port>", "0: any that is free", "8765")
    .option("--python <path>", "the environment (default: what setup made or was told)")
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
  const torch = new Command("torch").description("the PyTorch engine: its environment, and workers");
  for (const command of [setup, serve]) torch.addCommand(command.exitOverride());
  return torch;
}

function describe({ executable, torch, transformers, devices }: TorchInstall): string {
  const device = devices.length === 0 ? "on the CPU" : `on ${devices.join(", ")}`;
  return `${executable}: torch ${torch}, transformers ${transformers}, ${device}`;
}
