/** `saccade recipes` lists the recipes that come with Saccade; `saccade recipe explain` says one in words, with what it takes on this machine. */
import { Command } from "commander";
import { type Costs, recipeCosts } from "../train/explain.ts";
import { checkRecipe, loadRecipe, type Recipe, recipeNames, warmStartUpdates } from "../train/index.ts";
import { collect, parseSettings, textColumns } from "./common.ts";
import { hanging, wrapText } from "./panel.ts";
import { memoryLine, recipeMemory } from "./scale.ts";

/** Longer lines are hard to read. */
const MAX_COLUMNS = 80;
const columns = () => Math.min(MAX_COLUMNS, textColumns(process.stdout));

export function recipesCommand(): Command {
  return new Command("recipes")
    .description("list the recipes with what they teach and need")
    .option("--json", "print a JSON array")
    .action((flags: { json?: boolean }) => {
      const recipes = recipeNames().map((name) => {
        const { teaches, needs, expect } = loadRecipe(name);
        return { name, teaches, ...needs, expect };
      });
      if (flags.json) {
        process.stdout.write(`${JSON.stringify(recipes, null, 2)}\n`);
        return;
      }
      const width = Math.max(...recipes.map(({ name }) => name.length)) + 2;
      for (const { name, teaches, hardware = "", time = "time not measured" } of recipes) {
        const lines = [
          ...hanging(name, teaches, width, columns()),
          ...hanging("", `${hardware}, ${time}`, width, columns()),
        ];
        process.stdout.write(`${lines.join("\n")}\n`);
      }
      process.stdout.write(`\n${recipes.length} recipes. Start one: saccade train quickstart\n`);
      process.stdout.write("A file works too: saccade train ./my-recipe.ts\n");
    });
}

type ExplainFlags = { set: string[]; measure: boolean; json?: boolean };

export function recipeCommand(): Command {
  const explain = new Command("explain")
    .description("say what a recipe does, and the tokens, time and memory that it takes on this machine")
    .argument("<recipe>", "a name that `saccade recipes` lists, or a file such as ./my-recipe.ts")
    .option("--set <key=value>", "change a field of the recipe (repeat)", collect, [])
    .option("--no-measure", "skip the measurement on this machine, which takes some seconds")
    .option("--json", "print tokens, seconds and bytes as JSON")
    .action(async (name: string, flags: ExplainFlags) => {
      const recipe = loadRecipe(name, parseSettings(flags.set));
      checkRecipe(recipe);
      const costs = await recipeCosts(recipe, { measure: flags.measure });
      if (flags.json) {
        process.stdout.write(`${JSON.stringify(costs, null, 2)}\n`);
        return;
      }
      const memory = await recipeMemory(recipe).catch(() => undefined);
      const paragraphs = [
        ...(await inWords(recipe)),
        ...costWords(recipe, costs),
        ...(memory ? [memoryLine(memory)] : []),
      ];
      for (const text of paragraphs) process.stdout.write(`${wrapText(text, columns()).join("\n")}\n\n`);
    });
  const recipe = new Command("recipe").description("explain a recipe");
  recipe.addCommand(explain.exitOverride());
  return recipe;
}

const count = (value: number) => Math.round(value).toLocaleString("en");
const list = (words: readonly string[]) => words.join(words.length === 2 ? " and " : ", ");

/** What happens, in the order in which it happens. */
async function inWords(recipe: Recipe): Promise<string[]> {
  const { name, teaches, envs, model, warmStart, steps, groups, siblings, evaluate, sight, lora } = recipe;
  const worlds = [
    ...new Set(envs.map((source) => ("env" in source ? source.env : "a program, or episodes of a file"))),
  ];
  const learner =
    typeof model === "string" ? `the model ${model}` : `a model of the preset ${model.preset}, from random weights`;
  const adapter = lora === undefined ? "" : ` Only an adapter of rank ${lora.rank} learns.`;
  const updates = await warmStartUpdates(warmStart);
  const from = warmStart?.files.length
    ? list(warmStart.files)
    : `${count(warmStart?.episodes ?? 0)} episodes of the oracle`;
  const noise = warmStart?.noise
    ? `, in which ${Math.round(100 * warmStart.noise)} % of the actions are random${warmStart.noiseAfter > 0 ? ` after the first ${Math.round(100 * warmStart.noiseAfter)} % of the episodes` : ""},`
    : "";
  const filters = recipe.filters.map((filter) => filter.name);
  return [
    `${name}: ${teaches || "no description"}.`,
    `It trains ${learner}, on ${list(worlds)}.${adapter}`,
    warmStart === undefined
      ? "There is no warm start: the model must already succeed sometimes."
      : `Warm start: the model imitates ${from}${noise} in ${count(updates)} updates of ${warmStart.batch}, with ${warmStart.optimizer.name}.`,
    steps === 0
      ? "There is no reinforcement learning."
      : `Reinforcement learning: ${count(steps)} steps. In each, the model plays ${groups} tasks ${siblings} times, ${count(groups * siblings)} episodes. ${recipe.advantage.name} compares their rewards, the loss is ${recipe.loss.name}, the optimizer ${recipe.optimizer.name}.${filters.length > 0 ? ` Filters: ${list(filters)}.` : ""}`,
    evaluate.every === 0
      ? "It is not evaluated on the way."
      : `Every ${evaluate.every} steps it is evaluated on ${count(evaluate.seeds[1] - evaluate.seeds[0] + 1)} tasks that are never trained on${sight.every > 0 ? `; every ${sight.every} steps its sight is measured` : ""}.`,
    ...(recipe.expect ? [`Expected: ${recipe.expect}`] : []),
  ];
}

function costWords(
  recipe: Recipe,
  { parameters, episode, uncounted, warmTokens, playedTokens, seconds, processorShare, peakBytes }: Costs,
): string[] {
  const { hardware, time } = recipe.needs ?? {};
  const recorded = hardware === undefined ? [] : [`Recorded: ${hardware}${time === undefined ? "" : `, ${time}`}.`];
  if (parameters === undefined) return recorded;
  const millions = (value: number) => `${(value / 1e6).toPrecision(2)} million`;
  if (episode === undefined)
    return [
      `The model has ${millions(parameters)} parameters. Tokens are not counted${uncounted === undefined ? "." : `: ${uncounted}`}`,
      ...recorded,
    ];
  const tokens = `Tokens: an episode has about ${count(episode.tokens)}; the model writes ${count(episode.sampled)} of them, in ${episode.replies.toFixed(1)} replies. That makes ${millions(warmTokens ?? 0)} in the warm start and ${millions(playedTokens ?? 0)} in reinforcement learning, if episodes stay as long as the oracle's. The model has ${millions(parameters)} parameters.`;
  if (seconds === undefined || peakBytes === undefined) return [tokens, ...recorded];
  const here = `On this machine, by a short try: about ${duration(seconds.all)} in all (${duration(seconds.warm)} of warm start, ${seconds.step.toFixed(1)} s a step, ${duration(seconds.evaluation)} an evaluation), and ${(peakBytes / 2 ** 30).toFixed(1)} GiB of memory.`;
  return [tokens, here, ...(processorShare === undefined ? [] : busyWords(processorShare, seconds.all)), ...recorded];
}

/** Below this share of its speed, a user waits noticeably longer than the estimate says. */
const BUSY = 0.85;

function busyWords(share: number, seconds: number): string[] {
  if (share > BUSY) return [];
  return [
    `That is with the machine to itself. During the try other programs kept the processors busy, and it ran at ${Math.round(100 * share)} % of its speed; if they go on, expect about ${duration(seconds / share)}.`,
  ];
}

function duration(seconds: number): string {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} minutes` : `${(seconds / 3600).toFixed(1)} hours`;
}
