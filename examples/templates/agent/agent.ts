/** An agent with a loop of its own: it asks a model through the AI SDK, which may call the tool `look`. Put your own agent here; only `model` must be the episode's. */
import { generateText, stepCountIs, tool } from "ai";
import { Canvas, defineAgent, encodePng, NumpyRandom, z } from "saccade";

const COLOURS = { red: [220, 40, 40], green: [40, 180, 60], blue: [50, 80, 220], yellow: [230, 200, 40] } as const;
const NAMES = Object.keys(COLOURS) as (keyof typeof COLOURS)[];
type Task = { readonly colour: keyof typeof COLOURS; readonly x: number; readonly y: number };

/** What the tool shows: a lamp somewhere on a dark background, as base64. 32×32 pixels are one token. */
function photo({ colour, x, y }: Task): string {
  const canvas = new Canvas(32, 32, [30, 30, 30]);
  canvas.disc(x, y, 10, [...COLOURS[colour]]);
  return Buffer.from(encodePng(canvas.toImage())).toString("base64");
}

const LOOK = { calls: [{ name: "look", arguments: {} }] };

export default defineAgent<Task>({
  id: "my-agent",
  // The task of a seed. A file of rows works, too: tasks: "./tasks.jsonl".
  tasks(seed) {
    const random = new NumpyRandom(seed);
    const colour = NAMES[random.integers(0, NAMES.length)] as Task["colour"];
    return { colour, x: random.integers(12, 21), y: random.integers(12, 21) };
  },
  async run({ task, model, signal }) {
    const look = tool({
      description: "Look at the lamp.",
      inputSchema: z.object({}),
      execute: () => "the lamp",
      toModelOutput: () => ({
        type: "content",
        value: [{ type: "image-data", data: photo(task), mediaType: "image/png" }],
      }),
    });
    const { text } = await generateText({
      model,
      tools: { look },
      prompt: "Which colour has the lamp?",
      stopWhen: stepCountIs(3),
      maxRetries: 0,
      abortSignal: signal,
    });
    // What the episode earned; 1 or more is a success.
    return text.trim() === task.colour ? 1 : 0;
  },
  // Right answers to the agent's requests, for a warm start and a ceiling. Leave it out if you have none, and start from a model that can call tools.
  oracle: ({ task, turn }) => (turn === 0 ? LOOK : task.colour),
  // Answers of one that does not look, for a floor.
  random: ({ turn, random }) => (turn === 0 ? LOOK : (NAMES[random.integers(0, NAMES.length)] as string)),
});
