/**
 * sokoban after VAGEN's GRPO recipe for Qwen3-VL-4B, at its own size: 32 rooms of 8 siblings and one update a step.
 */
import { vagen } from "../parts/vagen.ts";

export default vagen(
  "sokoban-grpo-4b",
  { world: "sokoban", algorithm: "grpo", model: "Qwen3-VL-4B" },
  {
    teaches: "push a box onto its target, thinking aloud (GRPO)",
    needs: { hardware: "4 GPUs of 80 GB" },
    expect: "not yet run here; VAGEN publishes no figure",
  },
);
