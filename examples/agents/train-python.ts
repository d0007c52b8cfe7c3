/** Trains the program agent.py, which takes one line for each episode. `python` must have the package `openai`. */
import { defineRecipe } from "saccade";
import signal from "./train.ts";

const python = process.env.SACCADE_AGENT_PYTHON ?? "python3";

export default defineRecipe({
  ...signal,
  name: "signal-python",
  steps: 32,
  envs: [
    {
      program: {
        command: [python, "agent.py"],
        tasks: "tasks.jsonl",
        oracle: "oracle.ts",
        concurrency: 4,
        persistent: true,
      },
    },
  ],
  evaluate: { every: 8, seeds: [0, 127] },
  teaches: "the same from a program in Python (GRPO)",
});
