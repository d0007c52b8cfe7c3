/**
 * maze_2d after SkyRL's first VisGym recipe, at its own size: Qwen3-VL-8B that was taught to act, tuple actions inside <observation>, <justification> and <action>,
 * 0.8 task + 0.2 format, 15 turns, temperature 0.7, no KL. SkyRL starts from a checkpoint that VisGym taught; here a short warm start on the oracle's play teaches
 * the format and the moves. docs/guide/gpu.md has the commands, docs/guide/scaling.md the memory.
 */
import { maze8b } from "../parts/maze-8b.ts";

export default maze8b("maze-2d-sft-8b", {
  envs: [
    {
      env: "maze_2d/easy",
      options: {
        protocol: { name: "tuple", tags: true, pick: "first", words: "true" },
        formatReward: { kind: "mixture", task: 0.8, format: 0.2 },
        maxTurns: 15,
      },
    },
  ],
  warmStart: {
    episodes: 2048,
    noise: 0.1,
    labels: "agreed",
    batch: 64,
    optimizer: { learningRate: 1e-5 },
  },
  sampling: { temperature: 0.7 },
  evaluate: { temperature: 0.7 },
  teaches: "find the way through a maze, well taught beforehand (GRPO)",
  needs: { hardware: "8 GPUs of 80 GB" },
  expect: "not yet run here. SkyRL reports a reward of 0.14 before, 0.76 to 0.80 after 45 steps (8 H100)",
});
