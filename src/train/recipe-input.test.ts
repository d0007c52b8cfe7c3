/** The documented type of recipes is the type that the schema reads. The compiler runs these tests: `npm run check`. */
import { expectTypeOf, test } from "vitest";
import type { z } from "zod";
import { defineRecipe, type recipeSchema } from "./recipe.ts";
import type { RecipeInput } from "./recipe-input.ts";

type Read = z.input<typeof recipeSchema>;

/** Every field is required, so that a field that one side lacks is seen. */
type Whole<T> = T extends string | ((...given: never[]) => unknown)
  ? T
  : T extends object
    ? { [K in keyof T]-?: Whole<T[K]> }
    : T;

test("what the type allows the schema reads, and the other way round", () => {
  expectTypeOf<RecipeInput>().toExtend<Read>();
  expectTypeOf<Read>().toExtend<RecipeInput>();
  expectTypeOf<Whole<RecipeInput>>().toExtend<Whole<Read>>();
  expectTypeOf<Whole<Read>>().toExtend<Whole<RecipeInput>>();
});

test("a recipe may name a loss, an estimator and a filter that its file registers", () => {
  const given = {
    name: "mine",
    model: "./model",
    envs: [{ env: "maze_2d/easy" }],
    steps: 1,
    optimizer: { learningRate: 1e-4 },
  };
  defineRecipe({ ...given, loss: { name: "my-loss", scale: 2 } });
  defineRecipe({ ...given, advantage: { name: "my-estimator" }, filters: [{ name: "my-filter", most: 3 }] });
  // @ts-expect-error: a field that no recipe has.
  defineRecipe({ ...given, stepz: 1 });
  // @ts-expect-error: a name from a closed list.
  defineRecipe({ ...given, turns: "both" });
});
