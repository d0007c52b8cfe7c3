/**
 * `geometry3k`: one diagram and a question; the model reasons, hands an answer to the tool `calc_score`, reads the verdict and tries again while turns are left. Problems are generated, one a
 * seed, or rows of the real data set (`data`): Hugging Face's layout, `images`, `problem` and `answer`, or SkyRL's, `prompt` with the answer in `reward_spec` or `extra_info`.
 * A right answer pays 1 and ends the episode. A reply without a call is the last: it is graded by its `\boxed{…}` or its last line.
 */
import { resolve } from "node:path";
import { z } from "zod";
import {
  DataError,
  type Image,
  image,
  isJsonObject,
  type Json,
  type Message,
  type NumpyRandom,
  type Part,
  text,
  user,
} from "../../src/core/index.ts";
import {
  defineTool,
  type EnvDefinition,
  grey,
  type Row,
  readRows,
  rowAt,
  TaskEnv,
  type TaskInput,
  TOOL_FORMS,
  type ToolForm,
  writeCall,
} from "../../src/envs/index.ts";
import { decodeImage, fitLongSide, fromOpenAI } from "../../src/images/index.ts";
import { answerOf, cleanAnswer, sameAnswer } from "./answers.ts";
import { KINDS, makeProblem } from "./problems.ts";

const options = z.strictObject({
  data: z.string().optional().describe("File of the real Geometry3K data set. Without it, problems are generated."),
  maxTurns: z.int().min(1).default(3).describe("Turn limit."),
  form: z
    .enum(TOOL_FORMS)
    .default("qwen")
    .describe("How tool calls are written: `tags` or the form of Qwen's templates."),
  prompt: z.enum(["full", "brief"]).default("full").describe("Length of the instructions."),
  verdict: z
    .enum(["score", "direction"])
    .default("score")
    .describe(
      "What the tool says about a wrong answer: only its score, or also whether the right number is larger or smaller.",
    ),
  slips: z
    .enum(["any", "near"])
    .default("any")
    .describe(
      "How a noisy demonstrator errs in a whole number: by any amount, or by one to three steps and never against what the tool said.",
    ),
  blindfold: z
    .boolean()
    .default(false)
    .describe("Show grey instead of the diagram, to measure what a blind agent can do."),
  maxLongSide: z
    .int()
    .min(8)
    .optional()
    .describe("Shrink images so that their long side has at most this many pixels."),
  kinds: z
    .array(z.enum(KINDS))
    .min(1)
    .default([...KINDS])
    .describe("Kinds of problems to generate."),
  size: z.int().min(48).max(1024).default(224).describe("Side of the diagram, in pixels."),
  step: z.int().min(1).max(15).default(1).describe("Angles are multiples of this many degrees."),
  turn: z.int().min(0).max(45).default(20).describe("The figure is rotated by up to this many degrees either way."),
  choices: z.number().min(0).max(1).default(0.3).describe("Share of problems that offer four choices."),
});
type Options = z.output<typeof options>;

/** A problem as the task plays it, from the generator or from a file. */
type Asked = {
  readonly prompt: readonly Message[];
  readonly truth: string;
  /** What else is a right answer: of a choice, its value. */
  readonly also?: string;
  readonly steps: string;
  /** What the tool has turned down in this episode. */
  readonly refused: string[];
};

const input = z.object({ answer: z.union([z.string(), z.number()]).describe("your answer to the problem") });

export const geometry3k: EnvDefinition<typeof options> = {
  kind: "env",
  id: "geometry3k",
  summary: "answer a question about a geometry diagram, with a tool that scores answers",
  options,
  rows: async ({ data }) => (data === undefined ? undefined : (await rowsOf(data)).length),
  create: async (given) => {
    const { data, maxTurns, form, prompt } = given;
    const task = taskOf(given);
    const settings = { maxTurns, form, prompt };
    if (data === undefined) return new TaskEnv(task, (seed) => generated(seed, given), settings);
    const rows = await rowsOf(data);
    return new TaskEnv(task, async (seed) => filed(rowAt(rows, seed, "geometry3k"), given), settings);
  },
};

function taskOf(given: Options): Omit<TaskInput<Asked>, "data"> {
  const { verdict, prompt, form, slips } = given;
  const calcScore = defineTool<typeof input, Asked>({
    name: "calc_score",
    description: "Scores an answer to the problem: 1 when it is right, 0 when it is not.",
    input,
    run({ answer }, { row, turn, maxTurns }) {
      const said = String(answer);
      if (isRight(said, row))
        return { say: prompt === "brief" ? "right" : "Score 1: the answer is right.", reward: 1, done: true };
      row.refused.push(said);
      const hint = verdict === "direction" ? directionOf(said, row) : undefined;
      if (prompt === "brief") return hint ?? "wrong";
      const left = maxTurns - turn;
      const again = left > 1 ? `You have ${left} more tries.` : "You have one more try: be sure of it.";
      return `Score 0: the answer is not right.${hint === undefined ? "" : ` The right one is ${hint}.`}${left > 0 ? ` ${again}` : ""}`;
    },
  });
  const call = (answer: string, think: string, shape: ToolForm) =>
    `<think>${think}</think>${shape === "qwen" ? "\n" : ""}${writeCall("calc_score", { answer }, shape)}`;
  return {
    id: "geometry3k",
    tools: [calcScore],
    prompt: (row) => row.prompt,
    reward: (reply, row) => (isRight(answerOf(reply), row) ? 1 : 0),
    answer: (row) => call(row.truth, row.steps, form),
    slip: (row, random) => {
      const wrong = slips === "near" ? nearMiss(row, given, random) : wrongAnswer(row.truth, random);
      return call(wrong, prompt === "brief" ? `x=${wrong}` : "I am guessing.", form);
    },
  };
}

function isRight(answer: string, { truth, also }: Asked): boolean {
  if (also === undefined) return sameAnswer(answer, truth);
  const letter = /^\(?([a-d])\)?[.):]?(?:\s|$)/i.exec(cleanAnswer(answer))?.[1];
  return letter === undefined ? sameAnswer(answer, also) : letter.toUpperCase() === truth;
}

/** Where the right number lies, of an answer that is one. */
function directionOf(answer: string, { truth, also = truth }: Asked): string | undefined {
  const [mine, right] = [Number(cleanAnswer(answer)), Number(cleanAnswer(also))];
  if (!Number.isFinite(mine) || !Number.isFinite(right) || cleanAnswer(answer) === "") return undefined;
  return right > mine ? "larger" : "smaller";
}

/** Another number of the same size, another letter, or a number where the truth is a formula. */
function wrongAnswer(truth: string, random: NumpyRandom): string {
  if (/^[A-D]$/.test(truth)) return "ABCD"[("ABCD".indexOf(truth) + random.integers(1, 4)) % 4] as string;
  const value = Number(truth);
  if (!Number.isInteger(value)) return String(random.integers(1, 100));
  const [step, most] = value % 10 === 0 ? [10, 18] : value % 5 === 0 ? [5, 36] : [1, 180];
  const drawn = step * random.integers(1, most);
  return String(drawn === value ? drawn + step : drawn);
}

/** One to three steps from the truth, above 0, and nothing that the tool's answers rule out; of what is no whole number any wrong answer. */
function nearMiss({ truth, refused }: Asked, { step, verdict }: Options, random: NumpyRandom): string {
  const value = Number(truth);
  if (!Number.isInteger(value)) return wrongAnswer(truth, random);
  const open = (miss: number) =>
    refused
      .map(Number)
      .every((said) => (verdict === "score" ? miss !== said : Math.sign(miss - said) === Math.sign(value - said)));
  const misses = [-3, -2, -1, 1, 2, 3].map((steps) => value + steps * step).filter((miss) => miss > 0 && open(miss));
  return misses.length === 0 ? wrongAnswer(truth, random) : String(misses[random.integers(0, misses.length)]);
}

const FULL =
  "Look at the diagram, reason about it inside <think></think>, and hand your answer to calc_score, which tells whether it is right.";

function messages(question: string, pictures: readonly Image[], given: Options): readonly Message[] {
  const shown = pictures.map((picture) => {
    const fitting = given.maxLongSide === undefined ? picture : fitLongSide(picture, given.maxLongSide);
    return image(given.blindfold ? grey(fitting) : fitting);
  });
  return [user(...shown, text(given.prompt === "brief" ? question : `${question}\n\n${FULL}`))];
}

function generated(seed: number, given: Options): Asked {
  const problem = makeProblem(seed, given);
  const { picture, question, brief, truth, choices, steps } = problem;
  const also = choices["ABCD".indexOf(truth)];
  return {
    prompt: messages(given.prompt === "brief" ? brief : question, [picture], given),
    truth,
    ...(choices.length > 0 && also !== undefined && { also }),
    steps,
    refused: [],
  };
}

const files = new Map<string, Promise<readonly Row[]>>();

function rowsOf(data: string): Promise<readonly Row[]> {
  const file = resolve(data);
  const known = files.get(file) ?? readAll(file);
  files.set(file, known);
  known.catch(() => files.delete(file));
  return known;
}

async function readAll(file: string): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for await (const row of readRows(file)) rows.push(row);
  if (rows.length === 0) throw new DataError(`There are no rows in ${file}.`);
  return rows;
}

async function filed({ value, where }: Row, given: Options): Promise<Asked> {
  const { problem, answer, images, prompt, extra_info: extra, reward_spec: reward } = value;
  const truth =
    textIn(answer) ??
    textIn(isJsonObject(reward) ? reward.ground_truth : null) ??
    textIn(isJsonObject(extra) ? extra.answer : null);
  if (truth === undefined)
    throw new DataError(`${where} has no answer: give it in \`answer\`, or in \`reward_spec.ground_truth\`.`);
  if (Array.isArray(prompt)) {
    const spoken = await fromOpenAI(prompt);
    // SkyRL's text explains its own tool; the question alone is in extra_info, where there is one.
    const asked = textIn(isJsonObject(extra) ? extra.problem : null);
    const pictures = spoken.flatMap(({ content }) =>
      content.flatMap((part: Part) => (part.type === "image" ? [part.image] : [])),
    );
    const words = spoken.flatMap(({ content }) =>
      content.flatMap((part: Part) => (part.type === "text" ? [part.text] : [])),
    );
    return { prompt: messages(questionOf(asked ?? words.join("\n")), pictures, given), truth, steps: "", refused: [] };
  }
  if (typeof problem !== "string" || !Array.isArray(images)) {
    throw new DataError(
      `${where} is not a row of Geometry-3K: it needs \`images\`, \`problem\` and \`answer\`, or \`prompt\`.`,
    );
  }
  const pictures = await Promise.all(images.map((entry) => pictureOf(entry, where)));
  return { prompt: messages(questionOf(problem), pictures, given), truth, steps: "", refused: [] };
}

/** The image has a place of its own in the message. */
const questionOf = (problem: string) => problem.replaceAll("<image>", "").trim();

function textIn(value: Json | undefined): string | undefined {
  return typeof value === "string" && value.trim() !== ""
    ? value
    : typeof value === "number"
      ? String(value)
      : undefined;
}

/** `{ bytes, path }` of Hugging Face's image columns; bytes come as base64. */
async function pictureOf(entry: Json, where: string): Promise<Image> {
  const bytes = isJsonObject(entry) ? entry.bytes : entry;
  if (typeof bytes !== "string")
    throw new DataError(`${where}: an image has no bytes; store the data set with its images in it.`);
  return decodeImage(Buffer.from(bytes, "base64"));
}
