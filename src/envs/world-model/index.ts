/** Rewards for saying truly what is seen and what will be: the view of a world, the reader of claims, what they are worth, and the form they take. */
export * from "./reader.ts";
export * from "./score.ts";
export * from "./scorer.ts";
export * from "./speak.ts";
export * from "./view.ts";
