/** The loop of `@openai/agents`, with one tool whose result is an image. */
import { Agent, OpenAIProvider, Runner, tool } from "@openai/agents";
import OpenAI from "openai";
import { defineAgent, z } from "saccade";
import { answers, png, QUESTION, type Task, taskOf } from "./signal.ts";

export default defineAgent<Task>({
  id: "signal-openai-agents",
  tasks: taskOf,
  async run({ task, baseURL, apiKey, signal }) {
    const look = tool({
      name: "look",
      description: "Look at the signal.",
      parameters: z.object({}),
      execute: () => ({ type: "image" as const, image: { data: png(task), mediaType: "image/png" } }),
    });
    const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
    const runner = new Runner({ modelProvider: new OpenAIProvider({ openAIClient: client }), tracingDisabled: true });
    const agent = new Agent({ name: "Watcher", model: "policy", tools: [look] });
    const { finalOutput } = await runner.run(agent, QUESTION, { maxTurns: 3, signal });
    return finalOutput?.trim() === task.colour ? 1 : 0;
  },
  ...answers,
});
