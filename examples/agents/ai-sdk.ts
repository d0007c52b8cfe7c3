/** The Vercel AI SDK's own loop, with one tool whose result is an image. */
import { generateText, stepCountIs, tool } from "ai";
import { defineAgent, z } from "saccade";
import { answers, png, QUESTION, type Task, taskOf } from "./signal.ts";

export default defineAgent<Task>({
  id: "signal-ai-sdk",
  tasks: taskOf,
  async run({ task, model, signal }) {
    const look = tool({
      description: "Look at the signal.",
      inputSchema: z.object({}),
      execute: () => "the signal",
      toModelOutput: () => ({
        type: "content",
        value: [{ type: "image-data", data: png(task), mediaType: "image/png" }],
      }),
    });
    const { text } = await generateText({
      model,
      tools: { look },
      prompt: QUESTION,
      stopWhen: stepCountIs(3),
      maxRetries: 0,
      abortSignal: signal,
    });
    return text.trim() === task.colour ? 1 : 0;
  },
  ...answers,
});
