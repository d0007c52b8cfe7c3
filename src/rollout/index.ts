/** Agents, the token ledger, episodes, groups of them, and scoring seeds. */
export {
  type Agent,
  type AgentContext,
  type AgentFactory,
  OutOfTokens,
  PromptTooLong,
  type TokenAgentOptions,
  tokenAgent,
} from "./agents.ts";
export { builtinAgent, builtinReply, scriptedAgent } from "./builtin-agents.ts";
export { type EpisodeLimits, type EpisodeRequest, playEpisode } from "./episode.ts";
export { type GroupOptions, type GroupRequest, type PlayedGroup, playGroups } from "./groups.ts";
export { EnvHost, type EnvSpec, type HostedEnv, type Workers } from "./hosts.ts";
export type { Judge } from "./judge.ts";
export { type Given, type LedgerLimits, TokenLedger } from "./ledger.ts";
export { type Figures, type PlayOptions, playSeeds, type SeedScores, type Yardsticks } from "./play.ts";
export { type ReadFrame, recordedDemos } from "./recorded.ts";
export {
  type PassAtK,
  passAtK,
  passTable,
  type Rate,
  type SuccessRate,
  successRate,
  type Try,
  wilson,
} from "./scores.ts";
export { type EndReason, isOurFault, type Sequence, type Trajectory, type Turn } from "./trajectory.ts";
