/**
 * The card of a trained model: `README.md` as the Hugging Face hub shows it, with a curve and an episode as images. It says what the recipe was, what was measured next to floors
 * and ceiling, whether the model looks, the hash of its weights, and the command that trains it again. All of it is read from the run, so a card never claims
 * what the run did not measure. A model folder may have these files: loaders of weights pass over them.
 */
import { writeFile } from "node:fs/promises";
import { basename, isAbsolute, join } from "node:path";
import type { JsonObject } from "../core/json.ts";
import { drawChart } from "../images/chart.ts";
import { encodePng } from "../images/png.ts";
import { HUB_PREFIX } from "../model/hub-cache.ts";
import { weightsHash } from "../model/index.ts";
import { inEachEnvironment, loadEvents, type RunEvent, readManifest, series } from "../run/index.ts";
import { episodeGif } from "./film.ts";
import { shippedRecipeWords } from "./reproduce.ts";

export const CARD = "README.md";
const [CURVE, EPISODE] = ["curve.png", "episode.gif"];

/** A file of the card, by its name. */
export type CardFiles = Readonly<Record<string, Uint8Array>>;

/** Writes the card of the model in `folder`, as the run stood at `step`. */
export async function writeCard(folder: string, run: string, step: number): Promise<void> {
  for (const [name, bytes] of Object.entries(await cardFiles(folder, run, step)))
    await writeFile(join(folder, name), bytes);
}

export async function cardFiles(folder: string, run: string, step: number): Promise<CardFiles> {
  const { manifest } = await readManifest(run);
  const events = (await loadEvents(run)).events.filter((event) => event.step <= step);
  const curve = curveOf(events, manifest?.name ?? "run");
  const evaluated = events.findLast(({ kind }) => kind === "eval")?.step;
  const film = evaluated === undefined ? undefined : await episodeGif(run, evaluated);
  const hash = await weightsHash(folder).catch(() => undefined);
  const config = (manifest?.config ?? {}) as Config;
  const text = cardText({
    config,
    events,
    step,
    ...(hash && { hash }),
    curve: curve !== undefined,
    film: film !== undefined,
  });
  return {
    [CARD]: new TextEncoder().encode(text),
    ...(curve && { [CURVE]: curve }),
    ...(film && { [EPISODE]: film }),
  };
}

/** The run and step of a checkpoint's policy; undefined: the folder is no such policy. */
export function checkpointOf(folder: string): { readonly run: string; readonly step: number } | undefined {
  const [, run, step] = /^(.*)[\\/]checkpoints[\\/]step-(\d+)[\\/]policy$/.exec(folder) ?? [];
  return run === undefined || step === undefined ? undefined : { run, step: Number(step) };
}

type Config = JsonObject & { readonly name?: string; readonly teaches?: string };
type Card = {
  readonly config: Config;
  readonly events: readonly RunEvent[];
  readonly step: number;
  readonly hash?: string;
  readonly curve: boolean;
  readonly film: boolean;
};

function cardText({ config, events, step, hash, curve, film }: Card): string {
  const { name = "run", teaches, model } = config;
  const base = typeof model === "string" && model.startsWith(HUB_PREFIX) ? model.slice(HUB_PREFIX.length) : undefined;
  // A command with a path of the machine that trained says nothing elsewhere; the recipe's file does, without it.
  const words = shippedRecipeWords(name, config);
  const again = words?.complete ? words.words : undefined;
  const head = [
    "---",
    "library_name: transformers",
    "pipeline_tag: image-text-to-text",
    ...(base === undefined ? [] : [`base_model: ${base}`]),
    "tags:",
    "- saccade",
    "- reinforcement-learning",
    "- vision-language",
    "---",
  ];
  const sections = [
    `# ${name}`,
    `A vision-language agent, trained with Saccade by the recipe \`${name}\`${teaches ? ` to ${teaches}` : ""}. Checkpoint of step ${step}.`,
    measured(events),
    ...(curve ? [`![success during training](${CURVE})`] : []),
    ...(film ? [`![an evaluation episode](${EPISODE})`] : []),
    sight(events),
    "## Train it again",
    `\`\`\`sh\nnpx saccade train ${again ?? "./recipe.ts"}\n\`\`\``,
    again === undefined ? "with this recipe:" : "All fields of the recipe, as the run had them:",
    `<details><summary>recipe.ts</summary>\n\n\`\`\`ts\n${recipeSource(config)}\n\`\`\`\n\n</details>`,
    ...(hash === undefined ? [] : [`Hash of the weights (\`saccade model info\`): \`${hash}\``]),
  ];
  return `${head.join("\n")}\n\n${sections.filter((section) => section !== "").join("\n\n")}\n`;
}

/** The recipe as a file. Where files are on the machine that trained is nobody's business: a path becomes `./name`. */
function recipeSource(config: Config): string {
  const json = JSON.stringify(
    config,
    (_, value) => (typeof value === "string" && isAbsolute(value) ? `./${basename(value)}` : value),
    2,
  );
  return `import { defineRecipe } from "saccade";\n\nexport default defineRecipe(${json});`;
}

/** The last evaluation, next to the first of them where there were several. */
function measured(events: readonly RunEvent[]): string {
  const evaluations = events.filter(({ kind }) => kind === "eval");
  const last = evaluations.at(-1);
  if (last === undefined) return "This checkpoint was not evaluated.";
  const first = evaluations.findLast(({ step }) => step === evaluations[0]?.step);
  const shown = first === undefined || first.step === last.step ? [last] : [first, last];
  const value = (event: RunEvent, name: string) => event.metrics[name]?.toFixed(3) ?? "–";
  const row = (label: string, cell: (event: RunEvent) => string) => `| ${[label, ...shown.map(cell)].join(" | ")} |`;
  return [
    row(`${last.metrics["eval/asked"] ?? ""} held-out episodes`, ({ step }) => `step ${step}`),
    row("---", () => "---"),
    row("success, sampled", (one) => value(one, "eval/success")),
    row("95 % interval", (one) => `${value(one, "eval/success_low")} to ${value(one, "eval/success_high")}`),
    row("success, greedy", (one) => value(one, "eval/success_greedy")),
    row("floor: stop at once", (one) => value(one, "eval/floor")),
    row("floor: random play", (one) => value(one, "eval/random")),
    row("ceiling: oracle", (one) => value(one, "eval/ceiling")),
    ...inEachEnvironment(last.metrics, "eval/success").map(([env]) =>
      row(`\`${env}\`, sampled`, (one) => value(one, `eval/success/${env}`)),
    ),
  ].join("\n");
}

function sight(events: readonly RunEvent[]): string {
  const metrics = events.findLast(({ kind }) => kind === "sight")?.metrics;
  const gap = metrics?.["sight/gap"];
  if (metrics === undefined || gap === undefined) return "Sight was not measured.";
  const of = (name: string) => metrics[`sight/${name}`]?.toFixed(3);
  const interval = of("gap_low") === undefined ? "" : ` (95 % interval ${of("gap_low")} to ${of("gap_high")})`;
  const grey = of("success_grey");
  const blind =
    grey === undefined ? "" : ` Success is ${of("success")} with its own images and ${grey} with grey ones.`;
  return `Sight: its own images make a reply ${gap.toFixed(3)} nats likelier than another episode's${interval}.${blind}`;
}

export function curveOf(events: readonly RunEvent[], title: string): Uint8Array | undefined {
  const points = (name: string) => series(events, name).map(({ step, value }) => [step, value] as const);
  const names = ["eval/success", "eval/success_greedy", "train/success"];
  const curves = names.map((name) => ({ name, points: points(name) })).filter((one) => one.points.length > 1);
  if (curves.length === 0) return undefined;
  const levels = ["floor", "random", "ceiling"].flatMap((name) => {
    const y = points(`eval/${name}`).at(-1)?.[1];
    return y === undefined ? [] : [{ name, y }];
  });
  return encodePng(drawChart({ title, curves, levels }));
}
