/** Any model on any environment: presets, results and reports. */

export { type ChatJudge, type ChatJudgeOptions, chatJudge } from "./chat-judge.ts";
export { type Evaluation, type EvaluationOptions, type EvaluationPhase, evaluateModel } from "./evaluate.ts";
export { reportMarkdown } from "./markdown.ts";
export { type EvalModel, type ModelOptions, openModel, parseModel, type Sampling } from "./models.ts";
export { type EvaluationPresetName, evaluationPreset, evaluationPresets } from "./presets.ts";
export type { EnvReport, MeanReport, Report } from "./report.ts";
export { type EpisodeResult, RESULTS_FILE } from "./results.ts";
export type { Price, Usage } from "./usage.ts";
