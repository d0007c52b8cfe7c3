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

const KINDS: Readonly<Record<string, string>> = {
  world: "a world: a simulator with actions and images",
  task: "a task: rows of data and a function that grades replies",
};

export function initCommand(): Command {
  return new Command("init")
    .description("start a project: environment, recipe, test, tsconfig, README")
    .argument("[folder]", "where to; it is made if it is not there", ".")
    .addOption(
      new Option("--kind <kind>", "what you bring: a `world` (simulator) or a `task` (data and a reward function)")
        .choices(Object.keys(KINDS))
        .default("world"),
    )
    .action((folder: string, { kind }: { kind: string }) => {
      const files = initProject(folder, kind);
      const inside = relative(process.cwd(), resolve(folder));
      process.stdout.write(
        [
          `${KINDS[kind]}, in ${resolve(folder)}:`,
          ...files.map((file) => `  ${file}`),
          "",
          "Next:",
          ...(inside === "" ? [] : [`  cd ${inside}`]),
          "  npm install",
          "  npx saccade play ./env.ts      play it yourself",
          "  npm test                       look for mistakes",
          "  npm run train                  some minutes on two cores",
          "  npx saccade view               look at what it learned",
          "",
        ].join("\n"),
      );
    });
}

/** Writes the project and returns its files. */
export function initProject(folder: string, kind: string): string[] {
  const target = resolve(folder);
  const source = join(existsSync(TEMPLATES) ? TEMPLATES : FROM_SOURCE, kind);
  const copied = readdirSync(source);
  const written: Readonly<Record<string, string>> = {
    "package.json": packageJson(projectName(target)),
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

function packageJson(name: string): string {
  const own = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
    version: string;
    dependencies: { jiti: string };
    devDependencies: { typescript: string; "@types/node": string };
  };
  const { typescript, "@types/node": node } = own.devDependencies;
  const manifest = {
    name,
    private: true,
    type: "module",
    scripts: {
      train: "saccade train ./recipe.ts",
      test: "tsc && saccade check ./env.ts && node --import jiti/register --test test.ts",
    },
    dependencies: { saccade: `^${own.version}` },
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
      noUncheckedIndexedAccess: true,
      allowImportingTsExtensions: true,
      noEmit: true,
    },
  },
  null,
  2,
)}\n`;

function readme(name: string, kind: string): string {
  return `# ${name}

\`env.ts\` is ${KINDS[kind]}. \`recipe.ts\` says how a small model learns it. \`test.ts\` has your tests.

\`\`\`sh
npm install
npx saccade play ./env.ts                     # play it yourself
npm test                                      # types, the usual mistakes, your tests
npm run train                                 # some minutes on two cores
npx saccade view                              # look at the run
npx saccade play ./env.ts --agent runs/my-${kind}   # watch the model
npx saccade eval runs/my-${kind}                    # measure it
\`\`\`

Change \`env.ts\` first; run \`npm test\` after every change. Then train again: a changed recipe starts a new run.
The documentation is in \`node_modules/saccade/docs\`.
`;
}
