/**
 * What VAGEN's recipes for real models share: 401 steps of 256 or 128 episodes with one or four updates, AdamW at 1e-6, temperature 1, free thinking and up to 512 tokens a turn,
 * five turns, prompts of up to 1,000 tokens and 4,000 for the rest of an episode. Boards and rooms have VAGEN's sizes.
 */
import { defineRecipe, type RecipeInput } from "saccade";

const WORLDS = {
  frozen_lake: { maxTurns: 5, protocol: { name: "think", bonus: 0.02 } },
  sokoban: { maxTurns: 5, maxActions: 3, protocol: { name: "think", bonus: 0.1 } },
} as const;

/** PPO compares nothing, so it plays one episode of each seed, and has a critic that learns faster than the policy, its values clipped at 0.5. */
const ALGORITHMS = {
  grpo: { groups: 32, siblings: 8, minibatch: 256 },
  ppo: {
    groups: 128,
    siblings: 1,
    minibatch: 32,
    advantage: { name: "gae", whiten: true },
    critic: { optimizer: { learningRate: 1e-5, beta2: 0.999, weightDecay: 0.01 }, clip: 0.5 },
  },
} as const satisfies Record<string, Partial<RecipeInput>>;

export function vagen(
  name: string,
  { world, algorithm, model }: { world: keyof typeof WORLDS; algorithm: keyof typeof ALGORITHMS; model: string },
  own: Partial<RecipeInput>,
) {
  return defineRecipe({
    name,
    model: `hf:Qwen/${model}-Instruct`,
    envs: [{ env: world, options: WORLDS[world] }],
    steps: 401,
    filters: [],
    sampling: { temperature: 1, maxTokens: 512, contextTokens: 5000 },
    loss: { name: "ppo", clipLow: 0.8, clipHigh: 1.2, dualClip: 3 },
    optimizer: { learningRate: 1e-6, beta2: 0.999, weightDecay: 0.01 },
    rollout: { live: 256 },
    evaluate: { every: 20, seeds: [1_000_000_000, 1_000_000_255] },
    checkpoint: { every: 100 },
    engine: { name: "torch", processes: 4, packTokens: 8192, checkpointing: true },
    ...ALGORITHMS[algorithm],
    ...own,
  });
}
