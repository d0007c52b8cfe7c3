/** Training: recipes, the trainer, and the algorithms they name. */
export * from "./advantages.ts";
export * from "./batch.ts";
export * from "./check-recipe.ts";
export * from "./correction.ts";
export * from "./filters.ts";
export * from "./kl.ts";
export * from "./losses-extra.ts";
export * from "./recipe.ts";
export * from "./recipes.ts";
export * from "./reductions.ts";
export * from "./registry.ts";
export * from "./schedule.ts";
export * from "./sft.ts";
export * from "./sight.ts";
export * from "./tokens.ts";
export * from "./trainer.ts";
export { warmStartUpdates } from "./warm-start.ts";
export * from "./whiten.ts";
