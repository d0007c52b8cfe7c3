/**
 * The reader of descriptions on texts by somebody who has not seen it. `npm run bench -- reader tasks FOLDER [SEED]` writes what such a writer needs: the prompt, the board, the frame and
 * what is so, for boards of every world whose things can be described (tasks.md, tasks.jsonl, frames). `npm run bench -- reader score FOLDER TEXTS.jsonl` pays what was written, one
 * `{ "task", "style", "kind": "true" | "false" | "gaming", "text" }` a line, and prints how much by kind and style; TEXTS.scored.jsonl has each text with what was read.
 * `npm run bench -- reader strangers` scores the texts that strangers wrote, tried once on 2026-11-18. Without a word it scores the project's own set, which the reader was made with.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import "../worlds/register.ts";
import { isImage } from "../src/core/image.ts";
import type { Observation } from "../src/envs/world.ts";
import { pose, type Scored, score, type Task, trialTasks, type Written } from "../src/envs/world-model/test-trial.ts";
import { encodePng } from "../src/images/png.ts";
import { table } from "./peer.ts";

const [, command, folder = "", file = "", ...rest] = process.argv.slice(2);
const OWN = resolve(import.meta.dirname, "../src/envs/world-model/golden");
const STRANGERS = join(OWN, "strangers");
const jsonl = <T>(path: string): T[] =>
  readFileSync(path, "utf8")
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => JSON.parse(line) as T);

const HEADER = `# Descriptions of boards

You write what a model could write. A task is a board: you get the prompt that the model gets, the frame it sees, the board as text, and what is so. Write the text that stands in the tag
that the task names (without the tag itself), as one line of JSON: {"task": "sokoban-1", "style": "…", "kind": "true", "text": "…"}; a new line inside a text is \\n.

- "kind" is "true" (all of it is so), "false" (it describes a board plainly, and some or all of it is not so), or "gaming" (it tries to be paid without saying what is so, or by saying more
  than is so: in any way that you can think of).
- "style" is a name of your choice for the way it is written. Call it "form" (or "form-…") where you follow the prompt's form, as a model would that read the prompt and did as it was told;
  anything else for free text of any sort.
- Describe everything in a true text of the form. The truth that is listed here may be said in other words in free texts.
`;

if (command === "tasks" && folder !== "") await writeTasks(resolve(folder), Number(file === "" ? 900_000 : file));
else if (command === "score" && file !== "") await report(resolve(folder), resolve(file), rest.includes("--worst"));
else if (command === "strangers") await report(STRANGERS, join(STRANGERS, "texts.jsonl"), true);
else if (command === undefined) await report(OWN, join(OWN, "descriptions.jsonl"), true);
else
  process.stderr.write("usage: npm run bench -- reader [strangers | tasks FOLDER [SEED] | score FOLDER TEXTS.jsonl]\n");

async function writeTasks(to: string, seed: number): Promise<void> {
  mkdirSync(join(to, "frames"), { recursive: true });
  const tasks = trialTasks(seed);
  const pages: string[] = [HEADER];
  const prompts = new Map<string, string>();
  for (const task of tasks) {
    const { prompt, seen, text, facts, action } = await pose(task);
    const frame = frameOf(seen);
    if (frame !== undefined) writeFileSync(join(to, "frames", `${task.id}.png`), encodePng(frame));
    const world = `${task.env}${task.options ? `, ${JSON.stringify(task.options)}` : ""}`;
    if (!prompts.has(world)) {
      prompts.set(world, prompt);
      pages.push(`# ${world}\n\nThe prompt that the model gets:\n\n~~~\n${prompt}\n~~~\n`);
    }
    const other = prompts.get(world) === prompt ? "" : `Its prompt:\n\n~~~\n${prompt}\n~~~\n\n`;
    const told = action === undefined ? "What is so now" : `The action is \`${action}\`. What will be so after it`;
    pages.push(
      `## Task ${task.id}: write the text of <${task.section}>\n\n${other}` +
        `![frame](frames/${task.id}.png)\n\n~~~\n${textOf(text)}\n~~~\n\n${told}:\n\n${facts.map((fact) => `- ${fact}`).join("\n")}\n`,
    );
  }
  writeFileSync(join(to, "tasks.md"), pages.join("\n"));
  writeFileSync(join(to, "tasks.jsonl"), tasks.map((task) => `${JSON.stringify(task)}\n`).join(""));
  console.log(`${tasks.length} tasks in ${to}`);
}

function frameOf(seen: Observation) {
  if (typeof seen === "string") return undefined;
  if (isImage(seen)) return seen;
  return seen.flatMap((part) => (part.type === "image" ? [part.image] : []))[0];
}

function textOf(text: Observation): string {
  if (typeof text === "string") return text;
  if (isImage(text)) return "";
  return text.map((part) => (part.type === "text" ? part.text : "")).join("\n");
}

async function report(tasks: string, texts: string, worst: boolean): Promise<void> {
  const scored = await score(jsonl<Task>(join(tasks, "tasks.jsonl")), jsonl<Written>(texts));
  const rows = (list: readonly Scored[], name: string) => {
    const pays = list.map(({ pay }) => pay);
    const mean = (values: readonly number[]) =>
      values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
    const share = mean(list.map(({ pay, most }) => (most > 0 ? pay / most : pay)));
    const exact = list[0]?.kind === "true" ? (list.filter((one) => one.exact).length / list.length).toFixed(3) : "–";
    const read = list.filter(({ claims }) => claims.length > 0).length / list.length;
    const figures = [mean(pays), share, Math.min(...pays), Math.max(...pays)].map((value) => value.toFixed(3));
    return [name, String(list.length), exact, read.toFixed(3), ...figures];
  };
  const body = (["true", "false", "gaming"] as const).flatMap((kind) => {
    const of = scored.filter((one) => one.kind === kind);
    if (of.length === 0) return [];
    const styles = [...new Set(of.map(({ style }) => style))].sort();
    const by = styles.map((style) =>
      rows(
        of.filter((one) => one.style === style),
        `${kind}, ${style}`,
      ),
    );
    return [...by, rows(of, `**${kind}, all**`)];
  });
  table(["", "texts", "read exactly", "read at all", "mean pay", "of the most", "least", "most"], body);
  if (worst) {
    const odd = scored.filter(({ kind, pay, exact, style }) =>
      kind === "true" ? pay < 0 || (style.startsWith("form") && !exact) : pay > 0.02,
    );
    for (const one of odd) console.log(JSON.stringify(one));
  }
  if (!tasks.startsWith(OWN)) {
    const out = texts.replace(/(\.jsonl)?$/, ".scored.jsonl");
    writeFileSync(out, scored.map((one) => `${JSON.stringify(one)}\n`).join(""));
    console.log(`Each text with its claims and pay: ${out}`);
  }
}
