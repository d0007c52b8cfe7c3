/** The packed tarball, installed without scripts in an empty folder, is a working Saccade. */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import ts from "typescript";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const root = resolve(import.meta.dirname, "..");
const folder = mkdtempSync(join(tmpdir(), "saccade-package-"));
const npm = (args: string[], cwd: string) =>
  execFileSync("npm", args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });

function saccade(...args: string[]): { status: number | null; stdout: string; stderr: string } {
  const bin = join(folder, "node_modules", ".bin", "saccade");
  return spawnSync(bin, args, { cwd: folder, encoding: "utf8", maxBuffer: 1 << 26 });
}

/** The first code block of the docs page that says `word`: what a newcomer would paste. */
function docsExample(word: string, name: string): string {
  const page = readFileSync(join(root, "docs", name), "utf8");
  const code = [...page.matchAll(/```ts\n([\s\S]*?)```/g)].find(([, block]) => block?.includes(word))?.[1];
  if (code === undefined) throw new Error("the docs page has lost its example");
  return code;
}

const readmeExample = () => /```ts\n([\s\S]*?)```/.exec(readFileSync(join(root, "README.md"), "utf8"))?.[1] ?? "";

/** A usual project of Node: strict, with the types of Node, and declarations are checked too (`skipLibCheck: false`). */
const compilerOptions: ts.CompilerOptions = {
  noEmit: true,
  strict: true,
  skipLibCheck: false,
  module: ts.ModuleKind.NodeNext,
  target: ts.ScriptTarget.ES2023,
  types: ["node"],
  typeRoots: [join(root, "node_modules", "@types")],
};

/** Declarations that several projects import are parsed once. */
const documents = ts.createDocumentRegistry();

/** What an editor runs for a project. */
function languageService(names: readonly string[], settings = compilerOptions): ts.LanguageService {
  const host: ts.LanguageServiceHost = {
    fileExists: ts.sys.fileExists,
    readFile: ts.sys.readFile,
    directoryExists: ts.sys.directoryExists,
    getDirectories: ts.sys.getDirectories,
    useCaseSensitiveFileNames: () => ts.sys.useCaseSensitiveFileNames,
    getCompilationSettings: () => settings,
    getScriptFileNames: () => names.map((name) => resolve(folder, name)),
    getScriptVersion: () => "1",
    getScriptSnapshot: (file) => {
      const text = ts.sys.readFile(file);
      return text === undefined ? undefined : ts.ScriptSnapshot.fromString(text);
    },
    getCurrentDirectory: () => folder,
    getDefaultLibFileName: ts.getDefaultLibFilePath,
  };
  return ts.createLanguageService(host, documents);
}

function problemsIn(service: ts.LanguageService): string[] {
  const program = service.getProgram();
  if (program === undefined) throw new Error("the service has no program");
  return ts
    .getPreEmitDiagnostics(program)
    .map(({ file, messageText }) => `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, " ")}`);
}

beforeAll(() => {
  npm(["pack", "--ignore-scripts", "--pack-destination", folder], root);
  const tarball = readdirSync(folder).find((name) => name.endsWith(".tgz"));
  writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "stranger", private: true, type: "module" }));
  npm(["install", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund", `./${tarball}`], folder);
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("the packed tarball in an empty project", () => {
  test("lists at least twelve environments", () => {
    const { status, stdout } = saccade("envs", "--json");
    expect(status).toBe(0);
    expect((JSON.parse(stdout) as unknown[]).length).toBeGreaterThanOrEqual(12);
  });

  test("plays the world of the docs page, which takes at most 30 lines", () => {
    const code = docsExample("defineWorld", "start/your-environment.md");
    expect(code.trimEnd().split("\n").length).toBeLessThanOrEqual(30);
    writeFileSync(join(folder, "catch.ts"), code);
    const oracle = saccade("play", "./catch.ts", "--oracle", "--json", "--gif", "catch.gif");
    expect(oracle.stderr).toContain("frames in catch.gif");
    expect(JSON.parse(oracle.stdout.trim().split("\n").at(-1) as string)).toMatchObject({
      success: true,
      reward: 1,
      terminated: true,
    });
    expect(statSync(join(folder, "catch.gif")).size).toBeGreaterThan(200);
    const demos = saccade("data", "demos", "./catch.ts", "--episodes", "3", "--out", "catch.jsonl");
    expect(demos.status).toBe(0);
    expect(readFileSync(join(folder, "catch.jsonl"), "utf8").trim().split("\n")).toHaveLength(3);
  });

  test("plays the task of the docs page, which takes at most 15 lines", () => {
    const code = docsExample("defineTask", "start/your-data.md");
    expect(code.trimEnd().split("\n").length).toBeLessThanOrEqual(15);
    writeFileSync(join(folder, "sums.ts"), code);
    const rows = Array.from({ length: 40 }, (_, i) => JSON.stringify({ question: `${i} + 2`, answer: i + 2 }));
    writeFileSync(join(folder, "sums.jsonl"), `${rows.join("\n")}\n`);
    const { stdout } = saccade("play", "./sums.ts", "--oracle", "--json", "--seed", "7");
    expect(JSON.parse(stdout.trim())).toMatchObject({ reply: "9", reward: 1, success: true, terminated: true });
    const outside = saccade("play", "./sums.ts", "--oracle", "--seed", "40");
    expect(outside.status).toBe(2);
    expect(outside.stderr).toContain("has rows 0 to 39; there is no row 40");
  });

  test("plays the tool of the docs page, which takes at most ten lines", () => {
    const code = docsExample("defineTool", "guide/tools.md");
    expect(code.trimEnd().split("\n").length).toBeLessThanOrEqual(10);
    writeFileSync(join(folder, "guess.ts"), code);
    const call = (number: unknown) => `<tool_call>{"name": "guess", "arguments": {"number": ${number}}}</tool_call>`;
    const replies = [4, '"many"', 9, 7].map(call).join("\n");
    const { stdout } = spawnSync(
      join(folder, "node_modules", ".bin", "saccade"),
      ["play", "./guess.ts", "--json", "--seed", "7"],
      {
        cwd: folder,
        encoding: "utf8",
        input: `${replies}\n`,
      },
    );
    const turns = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(turns.filter(({ turn }) => Number(turn) > 0)).toMatchObject([
      { reward: 0, terminated: false, feedback: expect.stringContaining("It is larger.") },
      { reward: 0, valid: false, feedback: expect.stringContaining("The arguments of guess do not fit") },
      { reward: 0, feedback: expect.stringContaining("It is smaller.") },
      { reward: 1, terminated: true, success: true },
    ]);
  });

  test("trains on the task of the docs page with the recipe beside it", () => {
    writeFileSync(join(folder, "train-sums.ts"), docsExample('name: "sums"', "start/your-data.md"));
    const { status, stdout, stderr } = saccade("train", "./train-sums.ts", "--out", "sums-run");
    expect([status, stderr]).toEqual([0, expect.anything()]);
    expect(stdout).not.toContain("Error");
    const events = readFileSync(join(folder, "sums-run", "events.jsonl"), "utf8")
      .trim()
      .split("\n");
    const logged = events.map((line) => JSON.parse(line) as { kind: string; metrics: Record<string, number> });
    const trained = logged.filter(({ kind }) => kind === "train");
    expect(trained).toHaveLength(2);
    expect(trained[0]?.metrics["train/episodes"]).toBe(16);
    expect(trained[0]?.metrics["reward/task"]).toEqual(expect.any(Number));
    expect(logged.find(({ kind }) => kind === "eval")?.metrics["eval/ceiling"]).toBe(1);
  });

  test("runs the README's example", () => {
    writeFileSync(join(folder, "readme.mjs"), readmeExample());
    const { stdout } = spawnSync(process.execPath, ["readme.mjs"], { cwd: folder, encoding: "utf8" });
    expect(stdout).toContain("over, success true");
  });

  test("the README's example and a user's world, task, tool and recipe compile, and so do the declarations of every room", () => {
    const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
      exports: Record<string, unknown>;
    };
    const rooms = Object.keys(exports).filter((name) => name !== "./package.json");
    const files = {
      "user-readme.ts": readmeExample(),
      "user-world.ts": docsExample("defineWorld", "start/your-environment.md"),
      "user-task.ts": docsExample("defineTask", "start/your-data.md"),
      "user-tool.ts": docsExample("defineTool", "guide/tools.md"),
      "user-recipe.ts": docsExample('name: "sums"', "start/your-data.md"),
      "user-rooms.ts": rooms.map((name, i) => `export * as room${i} from "saccade${name.slice(1)}";`).join("\n"),
    };
    for (const [name, code] of Object.entries(files)) writeFileSync(join(folder, name), code);
    expect(problemsIn(languageService(Object.keys(files)))).toEqual([]);
  });

  test("an editor explains a recipe's fields and completes the names of losses", () => {
    const code = `import { defineRecipe } from "saccade";
export default defineRecipe({ name: "mine", model: "./model", envs: [{ env: "maze_2d/easy" }], steps: 3,
  optimizer: { learningRate: 1e-4 }, sampling: { maxTokens: 32 }, loss: { name: "" }, advantage: { name: "" } });`;
    writeFileSync(join(folder, "hover.ts"), code);
    const service = languageService(["hover.ts"]);
    const path = join(folder, "hover.ts");
    const explained = (word: string) =>
      ts.displayPartsToString(service.getQuickInfoAtPosition(path, code.indexOf(word))?.documentation);
    expect(explained("steps:")).toContain("Number of reinforcement learning steps.");
    expect(explained("maxTokens:")).toContain("Longest reply, in tokens.");
    expect(explained("learningRate:")).toContain("Learning rate.");
    const completed = (start: string) =>
      service
        .getCompletionsAtPosition(path, code.indexOf(start) + start.length, undefined)
        ?.entries.map(({ name }) => name);
    expect(completed('loss: { name: "')).toEqual(expect.arrayContaining(["ppo", "gspo", "cispo", "dppo"]));
    expect(completed('advantage: { name: "')).toEqual(expect.arrayContaining(["grpo", "gae"]));
    // A name that the user registers is allowed.
    expect(service.getSemanticDiagnostics(path)).toEqual([]);
  });

  describe.each([
    ["world", "env.ts"],
    ["task", "env.ts"],
    ["agent", "agent.ts"],
  ])("saccade init --kind %s", (kind, file) => {
    const project = () => join(folder, `my-${kind}`);
    const inProject = (command: string, ...args: string[]) =>
      spawnSync(join(folder, "node_modules", ".bin", command), args, { cwd: project(), encoding: "utf8" });

    let service: ts.LanguageService;

    test("writes a project that compiles, has nothing wrong and passes its tests", () => {
      expect(saccade("init", `my-${kind}`, "--kind", kind).status).toBe(0);
      const { config } = ts.readConfigFile(join(project(), "tsconfig.json"), ts.sys.readFile);
      const { options, fileNames } = ts.parseJsonConfigFileContent(config, ts.sys, project());
      service = languageService(fileNames, { ...options, typeRoots: [join(root, "node_modules", "@types")] });
      expect([fileNames.length, problemsIn(service)]).toEqual([3, []]);
      const check = inProject("saccade", "check", `./${file}`, "--seeds", "8");
      expect([check.status, check.stdout]).toEqual([0, expect.stringContaining("Nothing is wrong.")]);
      const tests = inProject("jiti", "test.ts");
      expect([tests.status, tests.stdout]).toEqual([0, expect.stringContaining("# fail 0")]);
    });

    test("is trained, played and measured by the commands of its README, with fewer steps", () => {
      const changes = [
        "warmStart.episodes=16",
        "steps=1",
        "groups=2",
        "siblings=2",
        "evaluate.seeds=[3990,3993]",
        "sight.every=0",
      ];
      const fewer = changes.flatMap((change) => ["--set", change]);
      const trained = inProject("saccade", "train", "./recipe.ts", ...fewer);
      expect([trained.status, trained.stdout]).toEqual([0, expect.stringContaining("held-out episodes")]);
      const commands = readFileSync(join(project(), "README.md"), "utf8").matchAll(
        /^npx saccade (eval|play) (.*?)( {2,}#.*)?$/gm,
      );
      const played = [...commands].map(([, verb = "", rest = ""]) => [verb, ...rest.split(" ")]);
      expect(played).toHaveLength(kind === "agent" ? 2 : 3);
      for (const [verb = "", ...words] of played) {
        // A person plays with the keyboard; here the oracle does.
        const alone = verb === "eval" ? ["--seeds", "3990..3991"] : words.includes("--agent") ? [] : ["--oracle"];
        const { status, stderr } = inProject("saccade", verb, ...words, ...alone);
        expect([verb, words, status, stderr]).toEqual([verb, words, 0, expect.any(String)]);
      }
    });

    test("gives an editor what it needs to complete and explain the recipe", () => {
      const path = join(project(), "recipe.ts");
      const code = readFileSync(path, "utf8");
      const explained = (word: string) =>
        ts.displayPartsToString(service.getQuickInfoAtPosition(path, code.indexOf(word))?.documentation);
      for (const field of [
        "warmStart:",
        "noise:",
        "steps:",
        "groups:",
        "siblings:",
        "sampling:",
        "evaluate:",
        "sight:",
        "teaches:",
      ])
        if (code.includes(field)) expect([field, explained(field)]).toEqual([field, expect.stringMatching(/\w{3}/)]);
      const completed = service.getCompletionsAtPosition(path, code.indexOf("  steps:"), undefined)?.entries;
      expect(completed?.map((entry) => entry.name)).toEqual(
        expect.arrayContaining(["advantage", "loss", "filters", "kl"]),
      );
      const optimizers = service.getCompletionsAtPosition(path, code.indexOf('"muon"') + 1, undefined)?.entries;
      expect(optimizers?.map((entry) => entry.name)).toEqual(expect.arrayContaining(["adamw", "muon"]));
      expect(service.getSemanticDiagnostics(path)).toEqual([]);
    });
  });

  test("is imported by a program", () => {
    const program = `
      import { makeEnv, makeWorld, NumpyRandom } from "saccade";
      import { Image } from "saccade/core";
      import { encodePng } from "saccade/images";
      import { ModelInput, ServiceClient } from "saccade/tinker";
      const env = await makeEnv("maze_2d/easy");
      const [first] = await env.reset(3);
      const testImage = first.content.find((part) => part.type === "image").image;
      console.log(testImage instanceof Image, encodePng(testImage).length > 100, (await makeWorld("sokoban")).actions.length, new NumpyRandom(0).random());
      console.log(ModelInput.fromInts([1, 2]).length, new ServiceClient({ base_url: "http://127.0.0.1:9", api_key: "tml-x" }).connection.hosted);`;
    writeFileSync(join(folder, "program.mjs"), program);
    const { stdout, stderr } = spawnSync(process.execPath, ["program.mjs"], { cwd: folder, encoding: "utf8" });
    expect(stderr).toBe("");
    expect(stdout.trim()).toBe("true true 4 0.6369616873214543\n2 false");
  });

  test("answers wrong usage with exit code 2 and a hint", () => {
    const unknown = saccade("play", "no_such_world");
    expect(unknown.status).toBe(2);
    expect(unknown.stderr).toContain("Known ids");
    expect(saccade("play", "./missing.ts").stderr).toContain("There is no file");
    const option = saccade("play", "frozen_lake", "--oracle", "--set", "size=1");
    expect(option.status).toBe(2);
    expect(option.stderr).toContain('option "size"');
    writeFileSync(join(folder, "broken.ts"), "export default 3;");
    expect(saccade("play", "./broken.ts").stderr).toContain("defineWorld");
    expect(saccade("demos").status).toBe(2);
  });
});
