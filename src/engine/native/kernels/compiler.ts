/**
 * The system's C++ compiler: which one, and calls to it. It is started directly, without a shell, so that any path works; calls that do not need each
 * other run at once. The sources use vector extensions that GCC and clang know (clang-cl too) and Microsoft's cl does not.
 */
import { spawn, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";

export type Compiler = {
  /** As it was named: "g++", $CXX. */
  readonly name: string;
  readonly program: string;
  /** Before all others: CXX="ccache g++" has one. */
  readonly first: readonly string[];
};

/** What is looked for, in this order. */
export function compilerNames(): readonly string[] {
  const { CXX } = process.env;
  if (CXX) return [CXX];
  return process.platform === "win32" ? ["clang++", "clang-cl", "g++"] : ["c++", "g++", "clang++"];
}

export function findCompiler(): Compiler | undefined {
  for (const name of compilerNames()) {
    const compiler = parse(name);
    if (isStandIn(compiler.program)) continue;
    const { status } = spawnSync(compiler.program, [...compiler.first, "--version"], { stdio: "ignore" });
    if (status === 0) return compiler;
  }
  return undefined;
}

/** A Mac without Apple's tools has programs in /usr/bin that open a window to install them. Starting Saccade must not. */
function isStandIn(program: string): boolean {
  if (process.platform !== "darwin") return false;
  const folder = (process.env.PATH ?? "").split(delimiter).find((folder) => existsSync(join(folder, program)));
  return folder === "/usr/bin" && spawnSync("xcode-select", ["-p"], { stdio: "ignore" }).status !== 0;
}

function parse(name: string): Compiler {
  // A path may hold spaces; a command with arguments is not a path.
  const [program = name, ...own] = existsSync(name) ? [name] : name.trim().split(/\s+/);
  // clang-cl takes Microsoft's options unless told otherwise.
  return { name, program, first: /clang-cl(\.exe)?$/i.test(program) ? [...own, "--driver-mode=g++"] : own };
}

/** Runs the compiler once for each list of arguments, all at once. Returns what went wrong first. */
export async function compile(compiler: Compiler, calls: readonly (readonly string[])[]): Promise<string | undefined> {
  const problems = await Promise.all(calls.map((args) => compileOne(compiler, args)));
  return problems.find((problem) => problem !== undefined);
}

/** Windows: makes the library to link with from a list of the names that Node exports. Returns what went wrong. */
export async function importLibrary(compiler: Compiler, names: string, to: string): Promise<string | undefined> {
  // It comes with the compiler, and is next to it or on the path.
  const folder = dirname(compiler.program);
  const tools = ["llvm-dlltool", "dlltool"].flatMap((tool) => (folder === "." ? [tool] : [join(folder, tool), tool]));
  const machine = process.arch === "arm64" ? "arm64" : "i386:x86-64";
  const problems: string[] = [];
  for (const program of tools) {
    const problem = await compileOne({ name: program, program, first: [] }, ["-m", machine, "-d", names, "-l", to]);
    if (problem === undefined) return undefined;
    problems.push(problem);
  }
  return problems.join("\n");
}

function compileOne({ name, program, first }: Compiler, args: readonly string[]): Promise<string | undefined> {
  return new Promise((resolve) => {
    const told: Buffer[] = [];
    const child = spawn(program, [...first, ...args], { stdio: ["ignore", "ignore", "pipe"], windowsHide: true });
    const failed = (why: string) => resolve(`${name} failed to compile the kernels\n${args.join(" ")}\n${why}`);
    child.stderr.on("data", (chunk: Buffer) => told.push(chunk));
    // Whoever is stopped meanwhile stops the compiler, too.
    const stop = () => child.kill();
    process.once("exit", stop);
    child.on("error", (error) => {
      process.off("exit", stop);
      failed(error.message);
    });
    child.on("close", (status, signal) => {
      process.off("exit", stop);
      if (status === 0) resolve(undefined);
      else failed(Buffer.concat(told).toString().trim() || `it ended with ${signal ?? status}`);
    });
  });
}
