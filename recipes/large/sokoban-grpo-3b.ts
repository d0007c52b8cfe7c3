/**
 * sokoban after VAGEN's GRPO recipe, at its own size: Qwen2.5-VL-3B, 32 rooms of 8 siblings and one update a step.
 */
import { vagen } from "../parts/vagen.ts";

export default vagen(
  "sokoban-grpo-3b",
  { world: "sokoban", algorithm: "grpo", model: "Qwen2.5-VL-3B" },
  {
    teaches: "push a box onto its target, thinking aloud (GRPO)",
    needs: { hardware: "4 GPUs of 80 GB" },
    expect: "not yet run here. VAGEN reports a success of 0.14 before and 0.20 after (GRPO with masks)",
  },
);
