/**
 * sokoban after VAGEN's PPO recipe, at its own size: Qwen2.5-VL-3B, 128 rooms and four updates a step, token GAE with a critic of its own.
 */
import { vagen } from "../parts/vagen.ts";

export default vagen(
  "sokoban-ppo-3b",
  { world: "sokoban", algorithm: "ppo", model: "Qwen2.5-VL-3B" },
  {
    teaches: "push a box onto its target, thinking aloud (PPO)",
    needs: { hardware: "4 GPUs of 80 GB" },
    expect: "not yet run here. VAGEN reports a success of 0.14 before and 0.57 after, thinking freely",
  },
);
