/** `saccade doctor`: what this machine has and what that means. `--build` compiles the engine's kernels beforehand. */
import { execFileSync } from "node:child_process";
import { availableParallelism, cpus, totalmem } from "node:os";
import { Command } from "commander";
import { compileKernels, defaultPython, EngineError, expectedKernels } from "../engine/index.ts";
import { EXIT } from "./common.ts";

type Finding = {
  readonly part: string;
  readonly state: "ok" | "absent" | "problem";
  readonly found: string;
  readonly meaning: string;
};

export function doctorCommand(): Command {
  return new Command("doctor")
    .description("show what Saccade can use on this machine")
    .option("--json", "print JSON")
    .option("--build", "compile the native engine's kernels now instead of on first use")
    .action(async (flags: { json?: boolean; build?: boolean }) => {
      if (flags.build) await build();
      const findings = examine();
      if (flags.json) process.stdout.write(`${JSON.stringify(findings, null, 2)}\n`);
      else for (const finding of findings) process.stdout.write(`${format(finding)}\n`);
      if (findings.some((finding) => finding.state === "problem")) process.exitCode = EXIT.failed;
    });
}

async function build(): Promise<void> {
  const result = await compileKernels();
  if ("problem" in result) throw new EngineError(`The kernels can't be compiled: ${result.problem}`);
  process.stderr.write(`kernels (${result.compiler}, ${result.seconds.toFixed(1)} s): ${result.file}\n`);
}

function examine(): Finding[] {
  return [node(), machine(), kernels(), python(), browser(), terminal()];
}

function node(): Finding {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  const ok = major > 20 || (major === 20 && minor >= 19);
  return {
    part: "Node",
    state: ok ? "ok" : "problem",
    found: process.versions.node,
    meaning: ok ? "new enough" : "Saccade needs Node 20.19 or newer: install it from your package manager",
  };
}

function machine(): Finding {
  const model = cpus()[0]?.model.trim() ?? "unknown processor";
  return {
    part: "Machine",
    state: "ok",
    found: `${availableParallelism()} cores (${model}), ${Math.round(totalmem() / 2 ** 30)} GiB`,
    meaning: "environments and the native engine use up to that many threads",
  };
}

function kernels(): Finding {
  const { name, why } = expectedKernels();
  const meaning = {
    compiled: "the native engine runs at full speed",
    wasm: "the native engine works, two to four times slower; install g++ or clang++ to make it faster",
    reference: "the native engine works, a hundred times slower; for reading and tests only",
  }[name];
  const found = { compiled: "compiled C++", wasm: "WebAssembly", reference: "TypeScript" }[name];
  return { part: "Kernels", state: name === "compiled" ? "ok" : "absent", found: `${found} (${why})`, meaning };
}

function python(): Finding {
  const command = defaultPython();
  const version = firstLine(command, ["--version"]);
  const torch = version && firstLine(command, ["-c", "import torch; print('torch', torch.__version__)"]);
  return {
    part: "Python",
    state: version && torch ? "ok" : "absent",
    found: [version ?? "none", torch ?? "no torch"].join(", "),
    meaning: "only the PyTorch engine needs it (saccade torch setup), and tests",
  };
}

function browser(): Finding {
  for (const command of ["chromium", "chromium-browser", "google-chrome"]) {
    const version = firstLine(command, ["--version"]);
    if (version !== undefined)
      return { part: "Chromium", state: "ok", found: version, meaning: "browser tests can run" };
  }
  return { part: "Chromium", state: "absent", found: "none", meaning: "only the browser tests need it" };
}

function terminal(): Finding {
  const truecolor =
    /truecolor|24bit/.test(process.env.COLORTERM ?? "") ||
    (process.stdout.isTTY && process.stdout.getColorDepth() >= 24);
  return {
    part: "Terminal",
    state: "ok",
    found: process.stdout.isTTY ? `${process.stdout.columns} columns` : "not a terminal",
    meaning: truecolor ? "images in full colour" : "images need a terminal with 24-bit colour (COLORTERM=truecolor)",
  };
}

function firstLine(command: string, args: readonly string[]): string | undefined {
  try {
    const output = execFileSync(command, args, {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
      timeout: 20_000,
    });
    return output.split("\n")[0]?.trim();
  } catch {
    return undefined;
  }
}

function format({ part, state, found, meaning }: Finding): string {
  const mark = { ok: "✓", absent: "·", problem: "✗" }[state];
  return `${mark} ${part.padEnd(13)} ${found}\n  ${" ".repeat(13)} ${meaning}`;
}
