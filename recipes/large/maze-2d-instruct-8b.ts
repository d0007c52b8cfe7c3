/**
 * maze_2d after SkyRL's second VisGym recipe, at its own size: Qwen3-VL-8B-Instruct as it comes, keyword actions, task reward alone, 18 turns, temperature 1,
 * KL 0.005 to the start as a part of the loss. Groups in which no one arrives say nothing; watch groups/zero_variance fall.
 */
import { maze8b } from "../parts/maze-8b.ts";

export default maze8b("maze-2d-instruct-8b", {
  envs: [{ env: "maze_2d/easy", options: { protocol: "keyword", maxTurns: 18 } }],
  kl: { as: "loss", coefficient: 0.005, estimator: "k3" },
  teaches: "find the way through a maze from a weak start (GRPO, KL loss)",
  needs: { hardware: "8 GPUs of 80 GB" },
  expect: "not yet run here. SkyRL reports a reward of 0.01 before, 0.20 after 55 and 0.25 to 0.30 after 70 steps",
});
