/**
 * The table of docs/results/generalist.md from what `bench/worlds.ts` wrote: `npx jiti bench/worlds-table.ts <folder>`. The folder has stop.jsonl, random.jsonl and oracle.jsonl, and one
 * file for each column of the model (`sft-sampled.jsonl`, `rl-greedy.jsonl`, …; those that are there). VisGym's rows are its own: other images, other prompts, 70 episodes.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

type Rate = { readonly value: number; readonly low: number; readonly high: number; readonly total: number };
type Row = { readonly world: string; readonly hash: string; readonly success: Rate };

/** Success in percent of Qwen2.5-VL-7B, one model for each world and one for all, and of the best model that was not trained for it, on the easy worlds. */
const VISGYM: Readonly<Record<string, readonly [single: number, mixed: number, gpt5: number]>> = {
  referring_dot_pointing: [90, 81.4, 67.1],
  counting: [54.3, 54.3, 40],
  mental_rotation_2d: [55.7, 58.6, 50],
  colorization: [90, 35.7, 27.1],
  matchstick_equation: [50, 44.3, 77.1],
  matchstick_rotation: [88.6, 80, 58.6],
  jigsaw: [97.1, 90, 18.6],
  maze_2d: [97.1, 52.9, 18.6],
  zoom_in_puzzle: [92.9, 90, 11.4],
  fetch_reach: [100, 98.6, 7.1],
  video_unshuffle: [48.6, 42.9, 17.1],
  fetch_pick_and_place: [70, 67.1, 4.3],
  maze_3d: [64.3, 52.9, 0],
  sliding_block: [94.3, 91.4, 11.4],
  mental_rotation_3d_objaverse: [15.7, 4.3, 5.7],
  patch_reassembly: [61.4, 38.6, 11.4],
  mental_rotation_3d_cube: [50, 24.3, 1.4],
};

const COLUMNS: readonly (readonly [file: string, title: string, interval: boolean])[] = [
  ["stop", "`stop` at once", false],
  ["random", "random play", true],
  ["oracle", "oracle", false],
  ["sft-sampled", "supervised, sampled", true],
  ["sft-greedy", "supervised, greedy", true],
  ["rl-sampled", "with RL, sampled", true],
  ["rl-greedy", "with RL, greedy", true],
  ["rl-grey", "grey frames, greedy", true],
  ["rl-hard", "hard, greedy", true],
];

const [folder = "."] = process.argv.slice(2);
const nameOf = (world: string) => world.split("/")[0] as string;
const read = (file: string): Map<string, Row> | undefined => {
  const path = join(folder, `${file}.jsonl`);
  if (!existsSync(path)) return undefined;
  const lines = readFileSync(path, "utf8").split("\n");
  return new Map(
    lines.flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Row])).map((row) => [nameOf(row.world), row]),
  );
};
const columns = COLUMNS.flatMap(([file, title, interval]) => {
  const rows = read(file);
  return rows === undefined ? [] : [{ title, interval, rows }];
});

const share = (value: number | undefined) => (value === undefined ? "–" : value.toFixed(2));
const cell = ({ rows, interval }: (typeof columns)[number], world: string) => {
  const rate = rows.get(world)?.success;
  if (rate === undefined) return "–";
  return interval ? `${share(rate.value)} (${share(rate.low)}–${share(rate.high)})` : share(rate.value);
};
const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
const meanCell = (rows: ReadonlyMap<string, Row>, worlds: readonly string[]) => {
  const known = worlds.flatMap((world) => rows.get(world)?.success.value ?? []);
  return known.length === worlds.length ? mean(known).toFixed(3) : `– (${known.length} worlds)`;
};

const visgym = Object.keys(VISGYM);
const worlds = [...visgym, "frozen_lake", "sokoban"];
const published = (world: string) => (VISGYM[world] ?? []).map((percent) => (percent / 100).toFixed(2));
const titles = [
  "world",
  ...columns.map(({ title }) => title),
  "VisGym: 7B, one per world",
  "VisGym: 7B, one for all",
  "VisGym: GPT-5",
];
const out = [
  line(titles),
  line(titles.map(() => "---")),
  ...worlds.map((world) => {
    const own = columns.map((column) => cell(column, world));
    const theirs = published(world);
    return line([`\`${world}\``, ...own, ...(theirs.length > 0 ? theirs : ["–", "–", "–"])]);
  }),
  line([
    "**mean of VisGym's 17**",
    ...columns.map(({ rows }) => meanCell(rows, visgym)),
    ...[0, 1, 2].map((i) => (mean(visgym.map((world) => VISGYM[world]?.[i] ?? Number.NaN)) / 100).toFixed(3)),
  ]),
  line(["**mean of 19**", ...columns.map(({ rows }) => meanCell(rows, worlds)), "–", "–", "–"]),
];
const hashes = new Set(columns.flatMap(({ rows }) => [...rows.values()].flatMap(({ hash }) => (hash ? [hash] : []))));
process.stdout.write(`${out.join("\n")}\n\nWeights (sha256, first 16 digits): ${[...hashes].join(", ") || "none"}\n`);
