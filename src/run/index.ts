/** A run folder: its manifest, events, metrics, checkpoints, frames and trajectories. */
export { type Alarm, type AlarmKind, DEFAULT_THRESHOLDS, findAlarms, type Thresholds } from "./alarms.ts";
export { type Best, type Checkpoint, CheckpointStore } from "./checkpoints.ts";
export {
  type EventKind,
  loadEvents,
  type Metrics,
  type PlacedEvent,
  type RunEvent,
  readEvents,
  series,
  type TimeSpan,
} from "./events.ts";
export { type Failure, failureLines } from "./failures.ts";
export { openRun, RunFolder, type RunOptions } from "./folder.ts";
export { type FrameCounts, type FrameOptions, FrameStore, readFrame, readFrameBytes } from "./frames.ts";
export { readLines } from "./jsonl.ts";
export { deleteRun, isRun, listRuns, type RunSummary, runSize, summarizeRun } from "./list.ts";
export { isLocked } from "./lock.ts";
export {
  type Difference,
  differences,
  type Governed,
  type Manifest,
  type RunStatus,
  readManifest,
} from "./manifest.ts";
export {
  inEachEnvironment,
  METRICS,
  type MetricGroup,
  type MetricInfo,
  type MetricUnit,
  metricInfo,
} from "./metrics.ts";
export { changeNotes, NO_NOTES, type RunNotes, readNotes } from "./notes.ts";
export { Follower, LiveTrackers } from "./trackers/follow.ts";
export { openTrackers, trackerSchema } from "./trackers/open.ts";
export { metricTable, toCsv, toParquet } from "./trackers/table.ts";
export { TensorBoardTracker } from "./trackers/tensorboard.ts";
export type { Tracked, TrackedRun, TrackedValue, Tracker } from "./trackers/tracker.ts";
export {
  type KeepReason,
  type MarkRecord,
  type NumberRow,
  type RequestMessage,
  type RequestRecord,
  type RewardRecord,
  readTrajectories,
  TOKEN_KINDS,
  type TokensRecord,
  type TrajectoryCounts,
  type TrajectoryOptions,
  type TrajectoryRecord,
  TrajectoryStore,
  type TurnRecord,
  trajectorySteps,
} from "./trajectories.ts";
