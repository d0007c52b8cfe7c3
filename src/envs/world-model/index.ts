/** Rewards for saying truly what is seen and what will be: the reader of claims, their score, and true descriptions to learn from. */
export * from "./reader.ts";
export * from "./score.ts";
export * from "./scorer.ts";
export * from "./speak.ts";
