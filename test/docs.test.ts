/**
 * The pages that people read first. Every link leads to a file and a heading that exist. Every `saccade` command on them parses: the command, its options and
 * the number of its arguments. A block of commands is run: here, by the page's own test (`RUN_BY_OTHERS`), or it is marked with the reason why not:
 * ```` ```sh norun needs a GPU ````.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import type { Command } from "commander";
import { afterAll, describe, expect, test } from "vitest";
import { loadCommands } from "../src/cli/commands.ts";
import { Page } from "./pages.ts";

const root = resolve(import.meta.dirname, "..");
const docs = readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" });
const pages = [
  "README.md",
  ...docs.filter((name) => name.endsWith(".md")).map((name) => `docs/${name.replaceAll("\\", "/")}`),
].sort();
const read = (page: string) => readFileSync(join(root, page), "utf8");

/** test/agents-page, gpu-page, serve-page and vllm-page run these; package.test.ts and readme.test.ts the README's. */
const RUN_BY_OTHERS = [
  "docs/guide/agents.md",
  "docs/guide/gpu.md",
  "docs/guide/serve.md",
  "docs/guide/remote-environments.md",
  "docs/guide/gymnasium.md",
  "docs/guide/vllm.md",
];
const FIRST = pages.filter((page) => /^(README|docs\/(start|guide)\/)/.test(page));

type Fence = { readonly mark: string; readonly lines: readonly string[] };

function fences(text: string): Fence[] {
  return [...text.matchAll(/^```sh([^\n]*)\n(.*?)^```/gms)].map(([, mark = "", block = ""]) => ({
    mark: mark.trim(),
    lines: block
      .replace(/\\\n\s*/g, " ")
      .split("\n")
      .map((line) => line.replace(/(^|\s{2,})# .*$/, "").trim())
      .filter((line) => line !== ""),
  }));
}

/** GitHub's: lower case, without punctuation, dashes for spaces. */
function anchors(text: string): string[] {
  const seen = new Map<string, number>();
  return [...text.replace(/^```.*?^```/gms, "").matchAll(/^#{1,6} (.*)$/gm)].map(([, heading = ""]) => {
    const plain = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").toLowerCase();
    const slug = plain.replace(/[^\p{L}\p{N}\s_-]/gu, "").replace(/\s/g, "-");
    const times = seen.get(slug) ?? 0;
    seen.set(slug, times + 1);
    return times === 0 ? slug : `${slug}-${times}`;
  });
}

test.each(pages)("every link of %s leads somewhere", (page) => {
  const text = read(page)
    .replace(/^```.*?^```/gms, "")
    .replace(/`[^`\n]*`/g, "");
  const broken = [...text.matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, link = ""]) => {
    if (/^(https?|mailto):/.test(link)) return [];
    const [path = "", anchor] = link.split("#");
    const target = path === "" ? join(root, page) : resolve(dirname(join(root, page)), path);
    if (!existsSync(target)) return [link];
    return anchor === undefined || !target.endsWith(".md") || anchors(read(relative(root, target))).includes(anchor)
      ? []
      : [link];
  });
  expect(broken).toEqual([]);
});

/** Words of each command in a line, as a shell splits them. */
function invocations(line: string): string[][] {
  const commands: string[][] = [[]];
  for (const [word] of line.matchAll(/&&|\|\|?|;|(?:'[^']*'|"[^"]*"|\\.|[^\s;|&'"]|&(?!&))+/g)) {
    if (/^(&&|\|\|?|;)$/.test(word)) commands.push([]);
    else commands.at(-1)?.push(word.replace(/'([^']*)'|"([^"]*)"/g, (_, single, double) => single ?? double));
  }
  return commands.flatMap((words) => {
    const at = words.indexOf("saccade");
    return at < 0 || words.slice(0, at).some((word) => !/^(npx|-y|[A-Z_]+=.*)$/.test(word))
      ? []
      : [words.slice(at + 1)];
  });
}

const commands = await loadCommands();

/** What is wrong with a command; undefined: nothing. */
function problem(words: readonly string[]): string | undefined {
  const given = words.filter((word) => word !== "--debug" && !/^[<>&]$|^\d?>/.test(word));
  if (given.length === 0 || given.includes("--help")) return undefined;
  let command: Command | undefined = commands.find((one) => one.name() === given[0]);
  let rest = given.slice(1);
  while (command !== undefined && command.commands.length > 0) {
    command = command.commands.find((one) => one.name() === rest[0]);
    rest = rest.slice(1);
  }
  if (command === undefined) return "no such command";
  try {
    const { operands, unknown } = command
      .exitOverride()
      .configureOutput({ writeErr: () => {} })
      .parseOptions(rest);
    const flags = unknown.filter((word) => word.startsWith("-"));
    if (flags.length > 0 && !rest.includes("--")) return `unknown ${flags.join(" ")}`;
    const least = command.registeredArguments.filter(({ required }) => required).length;
    const most = command.registeredArguments.some(({ variadic }) => variadic)
      ? Number.POSITIVE_INFINITY
      : command.registeredArguments.length;
    return operands.length < least || operands.length > most ? `${operands.length} arguments` : undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

test.each(pages.filter((page) => !page.endsWith("command-line.md")))(
  "every command of %s exists with its options",
  (page) => {
    const wrong = fences(read(page))
      .flatMap(({ lines }) => lines.flatMap(invocations))
      .flatMap((words) => {
        const found = problem(words);
        return found === undefined ? [] : [`saccade ${words.join(" ")}: ${found}`];
      });
    expect(wrong).toEqual([]);
  },
);

/** What takes seconds and needs nothing but the package. */
const QUICK = [
  /^npx saccade (envs|recipes|runs|doctor|lab --out|scale memory|model (create|info)|data (demos|tickets|export|import))\b/,
  /^npx saccade train .* --dry-run\b/,
  /^npx saccade play \w[\w/]* .*--(oracle|random|agent maze-2d)\b/,
  /^npx saccade eval agent:\w+ /,
];

describe("a block of commands is run or says why not", () => {
  const mine = FIRST.filter((page) => page !== "README.md" && !RUN_BY_OTHERS.includes(page));
  const opened: Page[] = [];
  afterAll(() => Promise.all(opened.map((page) => page.close())));

  test.each(mine)("%s", async (name) => {
    const unmarked = fences(read(name)).filter(({ mark }) => !/^norun \S/.test(mark));
    const lines = unmarked.flatMap((fence) => fence.lines);
    expect(lines.filter((line) => !QUICK.some((quick) => quick.test(line)))).toEqual([]);
    if (lines.length === 0) return;
    const page = new Page(relative("docs", name));
    opened.push(page);
    for (const line of lines) await page.run(line);
  });
});
