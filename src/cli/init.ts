/**
 * `saccade init`: a small project that trains, as files to change. The files are those of `examples/templates/`; `package.json`, `tsconfig.json`
 * and a README are written around them. Nothing that is there already is overwritten.
 */
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join, relative, resolve } from "node:path";
import { Command, Option } from "commander";
import { ConfigError } from "../core/index.ts";

const TEMPLATES = join(import.meta.dirname, "../examples/templates");
const FROM_SOURCE = join(import.meta.dirname, "../../examples/templates");

/** What a project is about: its main file, in words, and how a person looks at it before training. */
type Kind = { readonly file: string; readonly words: string; readonly look: string; readonly looks: string };

const KINDS = {
  world: {
    file: "env.ts",
    words: "a world: a simulator with actions and images",
    look: "npx saccade play ./env.ts",
    looks: "play it yourself",
  },
  task: {
    file: "env.ts",
    words: "a task: rows of data and a function that grades replies",
    look: "npx saccade play ./env.ts",
    looks: "answer it yourself",
  },
  agent: {
    file: "agent.ts",
    words: "an agent: a loop of your own that calls a model",
    look: "npx saccade eval agent:oracle --env ./agent.ts",
    looks: "see right answers solve it",
  },
} as const satisfies Record<string, Kind>;
type KindName = keyof typeof KINDS;

export function initCommand(): Command {
  return new Command("init")
    .description("create a project: environment, recipe, test, tsconfig, README")
    .argument("[folder]", "folder of the project; created if it does not exist", ".")
    .addOption(
      new Option(
        "--kind <kind>",
        "what you bring: a `world` (simulator), a `task` (data and a reward function) or an `agent` (your own loop)",
      )
        .choices(Object.keys(KINDS))
        .default("world"),
    )
    .action((folder: string, { kind }: { kind: KindName }) => {
      const files = initProject(folder, kind);
      const inside = relative(process.cwd(), resolve(folder));
      process.stdout.write(
        [
          `${KINDS[kind].words}, in ${resolve(folder)}:`,
          ...files.map((file) => `  ${file}`),
          "",
          "Next:",
          ...(inside === "" ? [] : [`  cd ${inside}`]),
          ...lines([
            ["npm install", ""],
            [KINDS[kind].look, KINDS[kind].looks],
            ["npm test", "types, the usual mistakes, your tests"],
            ["npm run train", "about two minutes on two cores"],
            ["npx saccade view", "look at what it learned"],
          ]).map((line) => `  ${line}`),
          "",
        ].join("\n"),
      );
    });
}

/** Commands with remarks, in two columns. */
function lines(rows: readonly (readonly [command: string, remark: string])[], sign = ""): string[] {
  const width = Math.max(...rows.map(([command]) => command.length)) + 3;
  return rows.map(([command, remark]) => (remark === "" ? command : `${command.padEnd(width)}${sign}${remark}`));
}

/** Writes the project and returns its files. */
export function initProject(folder: string, kind: KindName): string[] {
  const target = resolve(folder);
  const source = join(existsSync(TEMPLATES) ? TEMPLATES : FROM_SOURCE, kind);
  const copied = readdirSync(source);
  const written: Readonly<Record<string, string>> = {
    "package.json": packageJson(projectName(target), kind),
    "tsconfig.json": TSCONFIG,
    "README.md": readme(projectName(target), kind),
    ".gitignore": "node_modules\nruns\nevals\n",
  };
  const files = [...copied, ...Object.keys(written)];
  const there = files.filter((file) => existsSync(join(target, file)));
  if (there.length > 0) {
    throw new ConfigError(
      `${target} has ${there.join(", ")} already, and nothing is overwritten. Name an empty folder: saccade init my-agent`,
    );
  }
  mkdirSync(target, { recursive: true });
  for (const file of copied) copyFileSync(join(source, file), join(target, file));
  for (const [file, text] of Object.entries(written)) writeFileSync(join(target, file), text);
  return files;
}

/** What npm takes as a name. */
const projectName = (folder: string) =>
  basename(folder)
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, "-")
    .replace(/^[._-]+|[._-]+$/g, "") || "my-agent";

function packageJson(name: string, kind: KindName): string {
  const own = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
    version: string;
    dependencies: { jiti: string; ai: string };
    devDependencies: { typescript: string; "@types/node": string };
  };
  const { typescript, "@types/node": node } = own.devDependencies;
  const manifest = {
    name,
    private: true,
    type: "module",
    scripts: {
      train: "saccade train ./recipe.ts",
      test: `tsc && saccade check ./${KINDS[kind].file} && jiti test.ts`,
    },
    dependencies: { ...(kind === "agent" && { ai: own.dependencies.ai }), saccade: `^${own.version}` },
    devDependencies: { "@types/node": node, jiti: own.dependencies.jiti, typescript },
  };
  return `${JSON.stringify(manifest, null, 2)}\n`;
}

const TSCONFIG = `${JSON.stringify(
  {
    compilerOptions: {
      target: "ES2023",
      module: "NodeNext",
      types: ["node"],
      strict: true,
      skipLibCheck: true,
      noUncheckedIndexedAccess: true,
      allowImportingTsExtensions: true,
      noEmit: true,
    },
  },
  null,
  2,
)}\n`;

function readme(name: string, kind: KindName): string {
  const { file, words, look, looks } = KINDS[kind];
  const play =
    kind === "agent" ? [] : ([[`npx saccade play ./${file} --agent runs/my-${kind}`, "watch the model"]] as const);
  const commands = lines(
    [
      ["npm install", ""],
      [look, looks],
      ["npm test", "types, the usual mistakes, your tests"],
      ["npm run train", "about two minutes on two cores"],
      ["npx saccade view", "look at the run"],
      ...play,
      [`npx saccade eval runs/my-${kind}`, "measure the model"],
    ],
    "# ",
  );
  return `# ${name}

\`${file}\` is ${words}. \`recipe.ts\` says how a small model learns it. \`test.ts\` has your tests.

\`\`\`sh
${commands.join("\n")}
\`\`\`

Change \`${file}\` first; run \`npm test\` after every change. Then train again: a changed recipe starts a new run.
The documentation is in \`node_modules/saccade/docs\`.
`;
}
