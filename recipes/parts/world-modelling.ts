/**
 * What the world-modelling recipes share: VAGEN's comparison of five ways to reason, PPO over sampled tokens with a critic. Only what is asked for in a reply, what is
 * paid for it and the estimator differ between them. VAGEN trains Qwen2.5-VL-3B; ours is the quickstart's model, warmed up on noisy play whose words are
 * true, with a few words a thing and without a think tag but in `free`: so small a model has nothing else to say. What the recipes expect was measured with reader 1
 * (docs/guide/world-modelling.md#does-it-help).
 */
import { defineRecipe, type RecipeInput } from "saccade";

type Strategy = "none" | "free" | "state" | "transition" | "both";
type World = "frozen_lake" | "sokoban";

const ROOMS = {
  frozen_lake: { options: { minSteps: 2, cellSize: 16, maxActions: 1, maxTurns: 6 }, maxTokens: 112 },
  sokoban: { options: { minSolution: 2, cellSize: 16, maxActions: 1, maxTurns: 6 }, maxTokens: 44 },
} as const;

const TASKS = { frozen_lake: "cross a frozen lake", sokoban: "push a box onto its target" };
const WORDS = {
  none: "saying nothing else",
  free: "thinking first",
  state: "describing what it sees",
  transition: "predicting what follows",
  both: "describing and predicting",
};

/** What a description that is wholly right is paid; solving pays 1. */
const PAY = 0.05;

export function worldModelling(world: World, strategy: Strategy, changes: Partial<RecipeInput> = {}) {
  const { options, maxTokens } = ROOMS[world];
  const pays = (part: "state" | "transition") => (strategy === part || strategy === "both" ? PAY : 0);
  const thinking = strategy === "free" ? "required" : "free";
  return defineRecipe({
    name: `${world.replace("_", "-")}-wm-${strategy}`,
    model: { preset: "quickstart" },
    envs: [
      {
        env: world,
        options: {
          ...options,
          protocol: { name: "world-model", strategy, thinking, bonus: 0.02 },
          worldModel: { state: pays("state"), transition: pays("transition") },
          prompt: "brief",
          feedback: false,
        },
      },
    ],
    warmStart: {
      episodes: 32_000,
      noise: 0.4,
      batch: 16,
      optimizer: { name: "muon", learningRate: 0.015, adamLearningRate: 0.003 },
    },
    steps: 120,
    groups: 128,
    siblings: 1,
    minibatch: 32,
    filters: [],
    advantage: { name: "gae", whiten: true },
    critic: { optimizer: { name: "muon", learningRate: 0.005, adamLearningRate: 0.001 }, warmupSteps: 5 },
    sampling: { temperature: 1, maxTokens, contextTokens: 1024 },
    loss: { name: "ppo", clipLow: 0.8, clipHigh: 1.2, dualClip: 3, entropy: 0.003 },
    optimizer: { name: "muon", learningRate: 0.001, adamLearningRate: 0.0002 },
    evaluate: { every: 40 },
    teaches: `${TASKS[world]}, ${WORDS[strategy]} (PPO)`,
    needs: { hardware: "2 CPU cores" },
    expect: "not yet run to its end here",
    ...changes,
  });
}
