/**
 * frozen_lake after VAGEN's GRPO recipe with its filter, at its own size: Qwen2.5-VL-3B on two GPUs, 32 lakes of 8 siblings; the groups of largest variance that together hold 0.9 of it are learned from.
 */
import { vagen } from "../parts/vagen.ts";

export default vagen(
  "frozen-lake-grpo-3b",
  { world: "frozen_lake", algorithm: "grpo", model: "Qwen2.5-VL-3B" },
  {
    engine: { name: "torch", processes: 2, packTokens: 8192, checkpointing: true },
    filters: [{ name: "reward-variance-top-p", topP: 0.9 }],
    teaches: "cross a frozen lake, thinking aloud (GRPO with a filter)",
    needs: { hardware: "2 GPUs of 80 GB" },
    expect: "not yet run here. VAGEN reports a success of 0.14 before and 0.57 after (GRPO with masks)",
  },
);
