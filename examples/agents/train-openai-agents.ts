/** Trains the agent of openai-agents.ts, as train.ts does that of the AI SDK. */
import { defineRecipe } from "saccade";
import signal from "./train.ts";

export default defineRecipe({
  ...signal,
  name: "signal-openai-agents",
  envs: [{ env: "./openai-agents.ts" }],
  teaches: "the same in the loop of @openai/agents (GRPO)",
});
