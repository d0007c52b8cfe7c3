/** The contract: worlds, protocols and the environments made of them. The worlds themselves are in `worlds/`, beside `src/`. */
import { register } from "./registry.ts";
import { remote } from "./remote.ts";

export { z } from "zod";
export { type Action, type ActionSpec, type ArgSpec, act, bare, stopAction } from "./action.ts";
export {
  type AgentEpisode,
  type AgentInput,
  type AgentOutcome,
  defineAgent,
  type OracleAnswer,
  type OracleRequest,
} from "./agent.ts";
export { type Accepted, acceptAction, actionText, type Draws, sampleAction, shorthandLabels } from "./args.ts";
export { AtifWriter, readAtif } from "./atif.ts";
export {
  defineEnv,
  defineWorld,
  type EnvDefinition,
  type OptionsSchema,
  type Preset,
  type WorldDefinition,
  type WorldInput,
} from "./define.ts";
export {
  countDemos,
  type Demo,
  type DemoPlan,
  DemoWriter,
  LABELS,
  type Labels,
  type Noise,
  playDemo,
  readDemos,
} from "./demos.ts";
export {
  type AgentTurn,
  type BuiltinAgent,
  type Claim,
  type Driver,
  type Earned,
  type EarnedPart,
  type Env,
  type Line,
  playedWords,
  type RewardPart,
  type Step,
  type StepInfo,
  sumRewards,
} from "./env.ts";
export { type JsonLine, readJsonLines, writeJsonLines } from "./jsonl.ts";
export { isPath } from "./load.ts";
export type { McpServer } from "./mcp.ts";
export type { Box, Direction, KeyName, Move, PageActionName, Viewport } from "./pages/actions.ts";
export { KEYS } from "./pages/actions.ts";
export { definePage, type PageInput, type PageSpec, type PageView } from "./pages/spec.ts";
export type { Program } from "./program.ts";
export { type PromptRecord, readRecords, writeRecords } from "./prompt-records.ts";
export type { FormatReward, ParsedReply, Protocol, Section, Span } from "./protocol.ts";
export { makeProtocol, type ProtocolName, protocolNames, protocolOptions } from "./protocols/index.ts";
export { TOOL_FORMS, type ToolForm, writeCall } from "./protocols/tool-text.ts";
export { PyFloat, PyTuple, type PyValue, parseLiteral } from "./python.ts";
export {
  type Definition,
  definitionOf,
  type EnvListing,
  type EnvOptions,
  envOptionsSchema,
  envRows,
  isElsewhere,
  isWorld,
  type LazyDefinition,
  listEnvs,
  makeEnv,
  makeWorld,
  makeWorldEnv,
  type Options,
  register,
} from "./registry.ts";
export { HttpEnv } from "./remote.ts";
export type { Reward } from "./reward.ts";
export { type Row, readRows } from "./rows.ts";
export type { Source } from "./sources.ts";
export { defineTask, rowAt, TaskEnv, type TaskInput, type TaskSettings, type Verdict } from "./task.ts";
export { makeTickets, readTickets, type Ticket, type TicketPlan, writeTickets } from "./tickets.ts";
export { defineTool, type Tool, type ToolAnswer, type ToolContext, type ToolInput, type ToolOutcome } from "./tools.ts";
export type { Fact, Mark, Observation, ObservationMode, Outcome, PromptStyle, World } from "./world.ts";
export { grey, type Scorer, WorldEnv, type WorldEnvOptions } from "./world-env.ts";
export { type WorldModelPay, worldModelScorer } from "./world-model/scorer.ts";
export { FORMS, type Form } from "./world-model/speak.ts";
export { type AxisWords, pairsOf, type Things } from "./world-model/view.ts";

register(remote);
// It brings a client of WebSockets along.
register({ id: "openenv", load: async () => (await import("./openenv.ts")).openenv });
