/**
 * Seed plans from files, in the form of VAGEN's train.yaml and val.yaml (YAML or JSON):
 *
 *   envs:
 *     - name: FrozenLake          # or an id or path of ours
 *       n_envs: 10000             # rows
 *       seed: [1, 10000, 1]       # see seeds.ts; or seed_list
 *       max_turns: 5
 *       data_source: lakes        # its name in metrics
 *       config: { size: 4 }       # options
 *
 * Under a name of VAGEN's, `config` has VAGEN's options, which are given ours; under any other name it has the environment's own. How long a reply may be is
 * the recipe's to say, so `response_length_per_turn` is read and not used.
 */
import { readFile } from "node:fs/promises";
import { z } from "zod";
import { ConfigError, DataError, errorMessage } from "../core/errors.ts";
import type { Options } from "./registry.ts";
import { expandSeeds } from "./seeds.ts";

export type PlannedRow = {
  readonly env: string;
  readonly options: Options;
  readonly seed: number;
  readonly label?: string;
  /** For errors: `val.yaml envs[0]`. */
  readonly where: string;
};

const seeds = z.array(z.int().min(0)).nullish();
const entry = z.strictObject({
  name: z.string().min(1),
  n_envs: z.int().min(1),
  seed: seeds,
  seed_list: seeds,
  max_turns: z.int().min(1).nullish(),
  data_source: z.string().nullish(),
  response_length_per_turn: z.int().nullish(),
  config: z.record(z.string(), z.unknown()).nullish(),
});
const planFile = z.strictObject({ envs: z.array(entry).min(1) });

/** The rows of a plan, in its order. */
export async function readPlan(file: string): Promise<PlannedRow[]> {
  const { envs } = check(await load(file), file);
  return envs.flatMap(({ name, n_envs, seed, seed_list, max_turns, data_source, config }, index) => {
    const where = `${file} envs[${index}]`;
    const { env, options } = translate(name, config ?? {}, where);
    const limited = max_turns == null ? options : { ...options, maxTurns: max_turns };
    const label = data_source == null ? {} : { label: data_source };
    return planned(where, () => expandSeeds({ seed: seed ?? null, seed_list: seed_list ?? null }, n_envs, index)).map(
      (drawn) => ({ env, options: limited, seed: drawn, ...label, where }),
    );
  });
}

async function load(file: string): Promise<unknown> {
  const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") throw new ConfigError(`There is no file ${file}. Check the path.`);
    if (error.code === "EISDIR") throw new ConfigError(`${file} is a folder. Name a file in it.`);
    throw error;
  });
  const { parse } = await import("yaml");
  try {
    return parse(text);
  } catch (error) {
    // The parser's second line and on is a drawing of the place.
    throw new DataError(`${file} can't be read as YAML (${errorMessage(error).split("\n")[0]}).`);
  }
}

function check(value: unknown, file: string): z.output<typeof planFile> {
  const result = planFile.safeParse(value);
  if (result.success) return result.data;
  const problems = result.error.issues.map(({ path, message }) => `${path.join(".") || "the file"}: ${message}`);
  throw new DataError(
    `${file} is not a seed plan (${problems.join("; ")}): it has a list \`envs\` of { ${Object.keys(entry.shape).join(", ")} }.`,
  );
}

function planned<T>(where: string, make: () => T): T {
  try {
    return make();
  } catch (error) {
    throw error instanceof ConfigError ? new ConfigError(`${where}: ${error.message}`) : error;
  }
}

/** Ours for one of VAGEN's options; an empty object where prompts and parsers of ours have no such choice. */
type Translation = (value: unknown) => Options;
const as =
  (name: string): Translation =>
  (value) => ({ [name]: value });
const own: Translation = () => ({});

const FORMATS: Readonly<Record<string, string | Options>> = {
  free_think: "think",
  wm: "world-model",
  free_wm: { name: "world-model", thinking: "free" },
};

const SHARED: Readonly<Record<string, Translation>> = {
  render_mode: (value) => ({ observation: value === "vision" ? "image" : value }),
  max_actions_per_step: as("maxActions"),
  prompt_format: (value) => ({ protocol: oneOf("prompt_format", FORMATS, value) }),
  format_reward: (bonus) => ({ formatReward: { kind: "bonus", bonus } }),
  success_reward: as("successReward"),
  action_sep: (value) => oneOf("action_sep", { ",": {} }, value),
  image_placeholder: own,
  use_example_in_sys_prompt: own,
};

const VAGEN: Readonly<Record<string, { env: string; options: Readonly<Record<string, Translation>> }>> = {
  FrozenLake: {
    env: "frozen_lake",
    options: { ...SHARED, size: as("size"), p: as("p"), is_slippery: as("slippery"), slip_prob: as("slipProbability") },
  },
  Sokoban: {
    env: "sokoban",
    options: {
      ...SHARED,
      dim_room: pair("height", "width"),
      num_boxes: as("boxes"),
      min_solution_steps: pair("minSolution", "maxSolution"),
      // VAGEN discards what its limit says, and searches as long as it must.
      max_steps: own,
      reset_seed_max_tries: own,
      min_solution_bfs_max_depth: own,
    },
  },
};

function pair(first: string, second: string): Translation {
  return (value) => {
    if (Array.isArray(value) && value.length === 2) return { [first]: value[0], [second]: value[1] };
    throw new ConfigError(`${JSON.stringify(value)} must be a list of two numbers.`);
  };
}

function oneOf<T>(name: string, known: Readonly<Record<string, T>>, value: unknown): T {
  const found = typeof value === "string" && Object.hasOwn(known, value) ? known[value] : undefined;
  if (found !== undefined) return found;
  const choice = Object.keys(known).map((one) => JSON.stringify(one));
  throw new ConfigError(`${name} is ${choice.join(" or ")} here, not ${JSON.stringify(value)}.`);
}

function translate(name: string, config: Options, where: string): { env: string; options: Options } {
  const known = VAGEN[name];
  if (known === undefined) return { env: name, options: config };
  const translated = Object.entries(config).map(([key, value]): Options => {
    const translation = known.options[key];
    if (translation !== undefined) return value === null ? {} : planned(`${where}: ${key}`, () => translation(value));
    throw new DataError(
      `${where}: VAGEN's ${name} has no option "${key}" here; it has ${Object.keys(known.options).join(", ")}. With our own, name it "${known.env}".`,
    );
  });
  // VAGEN's worlds speak this protocol, and show text, unless told otherwise.
  return {
    env: known.env,
    options: Object.assign({ protocol: "think", observation: "text" }, ...translated) as Options,
  };
}
