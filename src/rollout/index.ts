/** Agents, the token ledger, episodes, groups of them, and scoring seeds. */
export * from "./agents.ts";
export * from "./builtin-agents.ts";
export * from "./counters.ts";
export * from "./episode.ts";
export * from "./groups.ts";
export * from "./hosts.ts";
export * from "./judge.ts";
export * from "./ledger.ts";
export * from "./play.ts";
export * from "./scores.ts";
export * from "./trajectory.ts";
