/**
 * The part of `saccade check` that counts: pixels, tokens, decisions, milliseconds. Tokens are counted in the sequences that a warm start would imitate, with the
 * tokenizer and image processor of the presets, which recipes that start from nothing use. How many demonstrations a warm start needs can't be computed; it
 * is read off the measured warm start whose frames and episodes are nearest in size.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { imagesOf } from "../core/message.ts";
import type { BuiltinAgent, Options } from "../envs/index.ts";
import { isDriven } from "../envs/registry.ts";
import { type ChatModel, chatModel, createFolder, loadChat } from "../model/index.ts";
import type { Trajectory } from "../rollout/index.ts";
import { DemoPlayer } from "./demo-player.ts";
import { bad, type Finding, good, note } from "./finding.ts";

/** Frames of more tokens teach a model from nothing slowly; real models take many more. */
const MANY_TOKENS = 64;
/** Prompts of our recipes have at most 60 tokens without their frame, those of agents with a tool about 200. */
const LONG_PROMPT = 300;
const SLOW_STEP_MS = 50;

/** Warm starts that were measured: success, sampled, right after them. `frame` and `taught` are the tokens that `saccade check` counts there. */
export const MEASURED_WARM_STARTS = [
  { recipe: "quickstart", episodes: 13_600, frame: 4, taught: 20, success: 0.66 },
  { recipe: "color-codeword", episodes: 8_000, frame: 1, taught: 31, success: 0.86 },
  { recipe: "frozen-lake-grpo", episodes: 32_000, frame: 4, taught: 11, success: 0.75 },
  { recipe: "sokoban-grpo", episodes: 32_000, frame: 9, taught: 13, success: 0.89 },
  { recipe: "geometry3k", episodes: 8_000, frame: 4, taught: 31, success: 0.43 },
  { recipe: "maze-2d-sft", episodes: 46_800, frame: 25, taught: 324, success: 0.68 },
  { recipe: "examples/templates/world/recipe.ts", episodes: 6_400, frame: 4, taught: 21, success: 0.62 },
  { recipe: "examples/templates/task/recipe.ts", episodes: 800, frame: 4, taught: 4, success: 0.34 },
  { recipe: "examples/templates/agent/recipe.ts", episodes: 1_600, frame: 1, taught: 20, success: 0.65 },
] as const;

type Subject = { readonly name: string; readonly options: Options; readonly agent: BuiltinAgent };

export function frameSizes(played: readonly Trajectory[]): Finding {
  const frames = played.flatMap(({ turns, final }) => [...turns.flatMap((turn) => turn.observation), ...final]);
  const images = frames.flatMap(imagesOf);
  if (images.length === 0)
    return note("frames", "no image is shown", "A model that sees nothing learns from text alone.");
  const sizes = [...new Set(images.map(({ width, height }) => `${width}×${height}`))];
  const distinct = new Set(images.map(({ hash }) => hash)).size;
  const text = `${sizes.slice(0, 4).join(", ")} pixels; ${distinct} different ones of ${images.length}`;
  return distinct === 1 && images.length > 1
    ? bad("frames", text, "Every frame is the same: observe() must draw the current state.")
    : good("frames", text);
}

/** The time that an environment takes for a turn; of an agent with its own loop, the time between two requests. */
export function speed(played: readonly Trajectory[]): Finding {
  const steps = played.flatMap(({ turns }) => turns.map(({ envMs }) => envMs)).sort((a, b) => a - b);
  const median = steps[Math.floor(steps.length / 2)] ?? 0;
  const text = `a turn takes ${median.toFixed(1)} ms (median), ${(steps.at(-1) ?? 0).toFixed(1)} ms at most`;
  return median > SLOW_STEP_MS
    ? note("speed", text, 'Slow turns hold up sampling: give the recipe rollout: { workers: "threads" }.')
    : good("speed", text);
}

/** Prompt, frame, reply and episode in tokens, and what a warm start of such episodes takes. */
export async function sizes(subject: Subject, played: readonly Trajectory[]): Promise<Finding[]> {
  const folder = await mkdtemp(join(tmpdir(), "saccade-check-"));
  try {
    await createFolder(folder, { preset: "quickstart" });
    const model = chatModel(await loadChat(folder));
    if (subject.agent !== "oracle") return [await firstPrompt(model, played)];
    const counts = await countTokens(subject, model, played);
    return [...tokenFindings(counts, await isDriven(subject.name)), warmStart(counts)];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function firstPrompt({ renderer }: ChatModel, played: readonly Trajectory[]): Promise<Finding> {
  let [prompt, frame] = [0, 0];
  for (const { turns } of played) {
    const { ids, images } = await renderer.prompt(turns[0]?.observation ?? []);
    prompt = Math.max(prompt, ids.length);
    frame = Math.max(frame, ...images.map(({ length }) => length));
  }
  return note("tokens", `prompt ${prompt}, frame ${frame}; without an oracle, whole episodes are not counted`);
}

export type Counts = Record<"prompt" | "frame" | "reply" | "episode" | "decisions" | "taught", number>;

/** The largest of each over the episodes; decisions, and the tokens that are taught, are means. */
async function countTokens(
  { name, options }: Subject,
  model: ChatModel,
  played: readonly Trajectory[],
): Promise<Counts> {
  const player = new DemoPlayer(model, { noise: { probability: 0, labels: "played" }, layout: {} });
  const counts: Counts = { prompt: 0, frame: 0, reply: 0, episode: 0, decisions: 0, taught: 0 };
  try {
    for (const { seed } of played) {
      const sequences = (await player.play([{ env: { id: name, options }, seed }])).map(({ sequence }) => sequence);
      const replies = sequences.flatMap((sequence) => sequence.replies);
      const most = (of: keyof Counts, values: readonly number[]) => {
        counts[of] = Math.max(counts[of], ...values);
      };
      most("prompt", [sequences[0]?.replies[0]?.start ?? 0]);
      most(
        "frame",
        sequences.flatMap(({ images }) => images.map(({ length }) => length)),
      );
      most(
        "reply",
        replies.map(({ start, end }) => end - start),
      );
      most("episode", [sequences.reduce((sum, { ids }) => sum + ids.length, 0)]);
      counts.decisions += replies.length / played.length;
      counts.taught += replies.reduce((sum, { start, end }) => sum + end - start, 0) / played.length;
    }
  } finally {
    await player.close();
  }
  return counts;
}

function tokenFindings({ prompt, frame, reply, episode }: Counts, driven: boolean): Finding[] {
  const sizes = `prompt ${prompt}, frame ${frame}, reply ${reply}, whole episode ${episode}`;
  const context = 2 ** Math.ceil(Math.log2(episode * 1.5));
  const room = `sampling.contextTokens ${context} and sampling.maxTokens ${Math.max(8, 2 * reply)} leave room`;
  return [
    frame > MANY_TOKENS
      ? note(
          "tokens",
          sizes,
          `A frame of ${frame} tokens is much for a model from nothing: maxLongSide shrinks it (32×32 pixels are a token).`,
        )
      : good("tokens", `${sizes}: ${room}`),
    ...(prompt - frame > LONG_PROMPT
      ? [
          note(
            "prompt",
            `the first prompt has ${prompt - frame} tokens without its frame`,
            driven
              ? "A small model reads all of it in every episode: shorten your prompt and the descriptions of your tools."
              : 'A small model reads all of it in every episode: protocol: "keyword", prompt: "brief" and feedback: false are shorter.',
          ),
        ]
      : []),
  ];
}

/** Nearest in what a model has to look at and in what it has to learn to say. */
function warmStart({ frame, taught, episode, decisions }: Counts): Finding {
  const apart = (a: number, b: number) => Math.abs(Math.log2(Math.max(a, 1) / Math.max(b, 1)));
  const far = (known: { frame: number; taught: number }) => apart(known.frame, frame) + apart(known.taught, taught);
  const nearest = MEASURED_WARM_STARTS.reduce((best, known) => (far(known) < far(best) ? known : best));
  const much = nearest.episodes.toLocaleString("en");
  const tokens = ((nearest.episodes * episode) / 1e6).toPrecision(2);
  const unlike = far(nearest) > 2 ? " It is unlike yours, so take the number as a guess." : "";
  return note(
    "warm start",
    `about ${much} demonstrations of ${decisions.toFixed(1)} replies, ${tokens} million tokens`,
    `Nearest measured: ${nearest.recipe} (${nearest.frame} tokens a frame, ${nearest.taught} taught an episode), success ${nearest.success} after ${much}.${unlike}`,
  );
}
