/**
 * What the viewer's server and its front end say to each other: routes, the JSON of each, and `Source`, the one door through which
 * pages read data. `source.ts` has its two implementations (`httpSource`, `embeddedSource`); `query.ts` has the filtering and sorting
 * both share. All three run in a browser: they import nothing of node.
 * Pages live behind `#` (`/#/run/…`): the server knows only `/`, and an exported file has no paths. Model output comes only as JSON.
 * Numbers that are not finite come as null.
 */
import type { Json, JsonObject } from "../core/json.ts";
import type { Alarm } from "../run/alarms.ts";
import type { EventKind, TimeSpan } from "../run/events.ts";
import type { Failure } from "../run/failures.ts";
import type { RunSummary } from "../run/list.ts";
import type { Manifest } from "../run/manifest.ts";
import type { MetricInfo } from "../run/metrics.ts";
import type { RunNotes } from "../run/notes.ts";
import type { MarkRecord, TokensRecord, TrajectoryRecord, TurnRecord } from "../run/trajectories.ts";

export type {
  Alarm,
  EventKind,
  Json,
  JsonObject,
  Manifest,
  MarkRecord,
  MetricInfo,
  RunNotes,
  TimeSpan,
  TokensRecord,
  TrajectoryRecord,
  TurnRecord,
};

/** Paths of the HTTP interface. GET unless said. Errors are `ErrorReply` with status 400, 401, 403, 404, 413, 429 or 500. */
export const routes = {
  /** `RunsReply` */
  runs: () => "/api/runs",
  /** `CompareReply`; query: run (repeated) */
  compare: (runs: readonly string[]) => `/api/compare?${runs.map((run) => `run=${encodeURIComponent(run)}`).join("&")}`,
  /** `RunOverview` */
  overview: (run: string) => runRoute(run),
  /** POST part of `RunNotes` → `RunNotes` */
  notes: (run: string) => runRoute(run, "/notes"),
  /** POST `{ confirm: <the run's id> }` → `{}` */
  remove: (run: string) => runRoute(run, "/delete"),
  /** POST part of `EpisodeNote` → `EpisodeNote` */
  label: (run: string, key: string) => runRoute(run, `/trajectories/${encodeURIComponent(key)}/note`),
  /** POST `{ keys }` → JSON lines, one demonstration each, frames inside */
  demonstrations: (run: string) => runRoute(run, "/demonstrations"),
  /** POST `{ keys }` → image/gif, one episode after the other */
  film: (run: string) => runRoute(run, "/film"),
  /** `SeriesReply`; query: metric (repeated; none: all), points */
  series: (run: string) => runRoute(run, "/series"),
  /** Server-sent events, see `LiveMessage`; query: from (a byte position, from `RunOverview.position`) */
  live: (run: string) => runRoute(run, "/live"),
  /** `TrajectoryPage`; query: see `TrajectoryQuery` */
  trajectories: (run: string) => runRoute(run, "/trajectories"),
  /** `TrajectoryReply` */
  trajectory: (run: string, key: string) => runRoute(run, `/trajectories/${encodeURIComponent(key)}`),
  /** `GroupReply` */
  group: (run: string, key: string) => runRoute(run, `/trajectories/${encodeURIComponent(key)}/group`),
  /** image/gif; query: delay (ms a frame), frames ("model", what the model saw, or "env") */
  gif: (run: string, key: string) => runRoute(run, `/trajectories/${encodeURIComponent(key)}/episode.gif`),
  /** `EvaluationsReply` */
  evaluations: (run: string) => runRoute(run, "/evaluations"),
  /** `PinnedReply`; query: env, seed, temperature */
  pinned: (run: string) => runRoute(run, "/evaluations/episodes"),
  /** `SightReply` */
  sight: (run: string) => runRoute(run, "/sight"),
  /** `TimelineReply`; query: from, to (steps, inclusive; none: the last 40 steps) */
  timeline: (run: string) => runRoute(run, "/timeline"),
  /** Chrome trace JSON of the whole run, for ui.perfetto.dev */
  perfetto: (run: string) => runRoute(run, "/perfetto.json"),
  /** image/png, never changes */
  frame: (run: string, hash: string) => runRoute(run, `/frames/${hash}.png`),
  /** `EnvsReply` */
  envs: () => "/api/envs",
  /** `ModelsReply` */
  models: () => "/api/models",
  /** POST `PlayRequest` → `PlayState` */
  play: () => "/api/play",
  /** POST `ActRequest` → `PlayState` */
  act: (session: string) => `/api/play/${session}/act`,
  /** POST `ThinkRequest` → `Thought` */
  think: (session: string) => `/api/play/${session}/think`,
  /** The episode so far as a demonstration: a JSON line, frames inside */
  demonstration: (session: string) => `/api/play/${session}/demonstration.jsonl`,
  /** GET → `PlayState`; DELETE → `{}` */
  session: (session: string) => `/api/play/${session}`,
  /** image/png */
  playFrame: (session: string, hash: string) => `/api/play/${session}/frames/${hash}.png`,
} as const;

function runRoute(run: string, rest = ""): string {
  return `/api/runs/${encodeURIComponent(run)}${rest}`;
}

/** What went wrong and what to do. */
export type ErrorReply = { readonly error: string };

export type Maybe = number | null;
export type NewestMetrics = Readonly<Record<string, Maybe>>;

/** For a terminal, ready to be copied. */
export type Command = { readonly what: string; readonly command: string; readonly note?: string };

export type RunListItem = Pick<
  RunSummary,
  "name" | "status" | "message" | "step" | "started" | "updated" | "bestStep" | "notes" | "missing"
> & {
  /** The folder's name; every other route takes it. */
  readonly id: string;
  /** The newest value of each metric. */
  readonly metrics: NewestMetrics;
  /** The highest success that an evaluation of a checkpoint had. */
  readonly best?: number;
  readonly envs: readonly string[];
  readonly model?: string;
  readonly recipe?: string;
  /** Milliseconds that it was at work. */
  readonly ms?: number;
  /** On disk; absent until it was measured. */
  readonly bytes?: number;
  /** Steps that have a checkpoint. */
  readonly checkpoints: readonly number[];
};

/** Newest first. `missing`: in words, what can't be read. */
export type RunsReply = {
  readonly folder: string;
  /** Whether notes may be written and runs deleted here. */
  readonly writable: boolean;
  readonly runs: readonly RunListItem[];
  readonly missing: readonly string[];
};

/** Fields of the configuration in which the runs differ, by dotted key; `values` in the order of `runs`, undefined as null. */
export type CompareReply = {
  readonly runs: readonly string[];
  /** Runs with one number differ in nothing but their seed and name; in the order of `runs`. */
  readonly groups: readonly number[];
  readonly rows: readonly { readonly key: string; readonly values: readonly Json[] }[];
  /** The fields in which they do not. */
  readonly same: readonly { readonly key: string; readonly value: Json }[];
};

export type LogLine = {
  readonly step: number;
  readonly time: number;
  readonly kind: EventKind;
  readonly message?: string;
  readonly data?: JsonObject;
};

export type RunOverview = RunListItem & {
  readonly manifest?: Manifest;
  readonly commands: readonly Command[];
  readonly writable: boolean;
  /** How many training steps have been logged. */
  readonly steps: number;
  /** Every metric that was ever logged, in the order metrics are shown in. */
  readonly metricNames: readonly { readonly name: string; readonly info: MetricInfo; readonly points: number }[];
  /** What is wrong now, in words with advice. */
  readonly alarms: readonly Alarm[];
  /** The first episode that failed for our reasons since the run last went on. */
  readonly failure?: Failure & { readonly step: number };
  /** Alarms of the past, notes, resumes, checkpoints, the end; newest last, at most 200. */
  readonly log: readonly LogLine[];
  /** Where `live` goes on from. */
  readonly position: number;
};

/** One curve. The lists are aligned; steps ascend. */
export type Series = {
  readonly name: string;
  readonly info: MetricInfo;
  readonly steps: readonly number[];
  readonly values: readonly Maybe[];
  /** Milliseconds since 1970, for a wall-clock axis. */
  readonly times: readonly number[];
  /** Points before thinning out. */
  readonly total: number;
  /** Of a curve that was thinned out: the extremes of each stretch, of which `values` has the mean. */
  readonly low?: readonly Maybe[];
  readonly high?: readonly Maybe[];
};

/** How far a run had come by step: what other axes than the step are made of. The lists are aligned; `steps` ascend. */
export type RunClock = {
  /** When the run began, in milliseconds since 1970. */
  readonly began: number;
  /** The last step before reinforcement learning; absent: there was none yet. */
  readonly warm?: number;
  readonly steps: readonly number[];
  /** Episodes played for training up to each step, and tokens learned from, demonstrations included. */
  readonly episodes: readonly number[];
  readonly tokens: readonly number[];
};
export type SeriesReply = { readonly series: readonly Series[]; readonly clock: RunClock };

/** `event`: what was logged. `trajectories`: rows were added or replaced in these steps. `status`: the run stands otherwise now. */
export type LiveMessage =
  /** `resume` as kind means: steps after `event.step` are played again, load everything anew. */
  | { readonly type: "event"; readonly event: LiveEvent; readonly position: number }
  | { readonly type: "trajectories"; readonly total: number; readonly steps: readonly number[] }
  | { readonly type: "status"; readonly status: RunListItem["status"]; readonly step: number };
export type LiveEvent = LogLine & { readonly metrics: NewestMetrics };

/** A trajectory in a list. */
export type TrajectoryRow = Pick<
  TrajectoryRecord,
  "id" | "step" | "split" | "env" | "seed" | "group" | "sibling" | "temperature" | "reward" | "success" | "end"
> & {
  /** Names the trajectory in this run, for routes and links; stable. */
  readonly key: string;
  /** How the world says that it ended: "fell into a hole". */
  readonly ending?: string;
  readonly error?: string;
  readonly kept?: string;
  readonly turns: number;
  /** Turns from whose reply no action could be read. */
  readonly parseFailures: number;
  /** Mean advantage over sampled tokens. */
  readonly advantage?: number;
  /** Largest |learner − sampler| log-probability of a sampled token, where tokens were logged. */
  readonly drift?: number;
  readonly hasTokens: boolean;
  /** Per turn, null where not probed; absent when no turn was. */
  readonly sight?: readonly Maybe[];
  /** Frames whose hashes were compared between render, sampling and training, and how many differ. */
  readonly frames: { readonly checked: number; readonly mismatched: number };
  /** The first and last frame that was seen, as the environment drew them. */
  readonly firstFrame?: string;
  readonly lastFrame?: string;
} & Partial<EpisodeNote>;

/** What a person says of an episode; empty: nothing. */
export type EpisodeNote = { readonly label: string; readonly comment: string };

export const SORTS = [
  "step",
  "env",
  "seed",
  "outcome",
  "reward",
  "turns",
  "unread",
  "advantage",
  "drift",
  "sibling",
  "label",
] as const;
export type TrajectorySort = (typeof SORTS)[number];

/** Absent: any. Ranges are inclusive. */
export type TrajectoryQuery = {
  readonly env?: string;
  readonly seed?: number;
  readonly group?: string;
  readonly stepMin?: number;
  readonly stepMax?: number;
  readonly rewardMin?: number;
  readonly rewardMax?: number;
  readonly turnsMin?: number;
  readonly turnsMax?: number;
  readonly advantageMin?: number;
  readonly advantageMax?: number;
  readonly driftMin?: number;
  readonly driftMax?: number;
  readonly sibling?: number;
  readonly success?: boolean;
  /** As `outcomeOf` says it: "fell into a hole", "max_turns". */
  readonly end?: string;
  readonly label?: string;
  /** True: played at temperature 0. */
  readonly greedy?: boolean;
  /** True: at least one turn could not be read. */
  readonly parseFailure?: boolean;
  readonly split?: TrajectoryRecord["split"];
  /** Occurs, in any case, in a reply, action, feedback, error, later observation or the id. */
  readonly text?: string;
  readonly sort?: TrajectorySort;
  /** Default: `desc`. Rows without a value come last either way. */
  readonly order?: "asc" | "desc";
  /** Default 0 and 50; limit is at most 1000. */
  readonly offset?: number;
  readonly limit?: number;
};

/** What the filters can be set to, over all trajectories of the run. */
export type Facets = {
  readonly envs: readonly string[];
  readonly ends: readonly string[];
  readonly splits: readonly string[];
  readonly labels: readonly string[];
  /** Lowest and highest; absent when there are no trajectories. */
  readonly steps?: readonly [number, number];
  readonly rewards?: readonly [number, number];
};

export type TrajectoryPage = {
  /** How many match, and how many there are. */
  readonly total: number;
  readonly all: number;
  readonly offset: number;
  readonly rows: readonly TrajectoryRow[];
  readonly facets: Facets;
  readonly missing: readonly string[];
  /** While a large run is read for the first time: bytes read of bytes there. The rows are those found so far; ask again. */
  readonly indexing?: { readonly done: number; readonly total: number };
};

export type TrajectoryReply = {
  readonly row: TrajectoryRow;
  readonly record: TrajectoryRecord;
  /** Of the same group, step, split and temperature, this one included, by sibling. */
  readonly siblings: readonly TrajectoryRow[];
  readonly command: Command;
  /** Hashes of frames that are not stored (dropped, damaged, not yet written). */
  readonly missingFrames: readonly string[];
  /** Neighbours in the order of the run. */
  readonly previous?: string;
  readonly next?: string;
};

/** A record without its tokens. */
export type Episode = { readonly row: TrajectoryRow; readonly record: Omit<TrajectoryRecord, "tokens"> };

export type GroupReply = {
  readonly step: number;
  readonly group: string;
  /** By sibling. */
  readonly members: readonly Episode[];
  /** The first turn in which not all members did the same; absent when they never differ. */
  readonly divergence?: number;
};

/** A seed that was evaluated. */
export type EvaluatedSeed = {
  readonly env: string;
  readonly seed: number;
  readonly temperature: number;
  /** Steps with an episode of it, ascending, and whether one of them succeeded. */
  readonly steps: readonly number[];
  readonly successes: readonly boolean[];
};
export type EvaluationsReply = { readonly seeds: readonly EvaluatedSeed[] };

/** Episodes of one seed over all evaluations, by step, then sibling. */
export type PinnedReply = {
  readonly env: string;
  readonly seed: number;
  readonly temperature: number;
  readonly episodes: readonly Episode[];
};

/** One probe of sight. `turns[t]`: the gap of turn t. */
export type SightProbe = {
  readonly step: number;
  readonly gap?: Maybe;
  readonly low?: Maybe;
  readonly high?: Maybe;
  readonly replies?: Maybe;
  readonly turns: readonly Maybe[];
  readonly success?: Maybe;
  readonly successGrey?: Maybe;
  readonly mismatches?: Maybe;
};

export type SightReply = {
  readonly probes: readonly SightProbe[];
  /** Over all trajectories with logged tokens. */
  readonly frames: { readonly checked: number; readonly mismatched: number };
  /** Trajectories with frames that differ; at most 200. */
  readonly mismatched: readonly TrajectoryRow[];
  /** Probed trajectories, the least looking first; `looked` is the mean gap. At most 200. */
  readonly probed: readonly { readonly row: TrajectoryRow; readonly looked: number }[];
  /** How many of the probed looked past the image (mean gap of at most 0). */
  readonly blind: number;
};

export type TimelineStep = {
  readonly step: number;
  readonly kind: EventKind;
  /** Milliseconds since 1970. */
  readonly start: number;
  readonly ms: number;
  readonly spans: readonly TimeSpan[];
};
/** `lanes` in the order to show them. `steps`: first and last step that have spans. */
export type TimelineReply = {
  readonly lanes: readonly string[];
  readonly steps: readonly TimelineStep[];
  readonly range?: readonly [number, number];
};

export type EnvChoice = {
  readonly id: string;
  readonly summary: string;
  readonly maxTurns?: number;
  readonly variants?: readonly string[];
  /** Options with their values under this id. */
  readonly options: JsonObject;
};
export type EnvsReply = { readonly envs: readonly EnvChoice[] };

/** A fresh episode, or a saved one taken over: turns before `turn` are replayed from its replies. */
export type PlayRequest =
  /** `model`: with the options that it was trained with, where `options` says nothing else. */
  | { readonly env: string; readonly seed: number; readonly options?: JsonObject; readonly model?: string }
  | { readonly run: string; readonly key: string; readonly turn: number };

/** `reply`: as a model would write it. `command`: bare (`left`, `move 3`), put into the reply format. `auto`: let another play. */
export type ActRequest =
  | { readonly reply: string }
  | { readonly command: string }
  | { readonly auto: "oracle" | "random" }
  | { readonly model: string; readonly greedy: boolean };

/** A model that may play. */
export type ModelChoice = {
  readonly id: string;
  readonly name: string;
  /** Of ours more is known than its words. */
  readonly ours: boolean;
  readonly about?: string;
};
export type ModelsReply = { readonly models: readonly ModelChoice[] };

export type ThinkRequest = { readonly model: string; readonly greedy: boolean; readonly look?: boolean };

/** What a model would do now. Its next move, if it is let, is this one. */
export type Thought = {
  /** Of hosted models it is only known when they move. */
  readonly reply?: string;
  readonly actions: readonly string[];
  /** Where the actions are few: how likely each is, after the words with which its reply begins. What is missing to 1 is anything else. */
  readonly likely: readonly { readonly command: string; readonly probability: number }[];
  /** By patches of the newest frame, row by row: how far the log-probability of its action falls when the patch is grey. */
  readonly look?: {
    readonly hash: string;
    readonly columns: number;
    readonly rows: number;
    readonly values: readonly number[];
    readonly logprob: number;
  };
  readonly ms: number;
};

export type PlayPart =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image"; readonly hash: string; readonly width: number; readonly height: number };

/** One turn that was played: what was shown, what was said, what came of it. */
export type PlayTurn = {
  readonly observation: readonly PlayPart[];
  readonly reply: string;
  readonly actions: readonly string[];
  readonly parsed: boolean;
  readonly valid: boolean;
  readonly feedback?: string;
  readonly reward: number;
  /** Who moved: `you`, `oracle`, `random`, `saved`, or the model's name. */
  readonly by: string;
};

export type PlayState = {
  readonly session: string;
  readonly env: string;
  readonly seed: number;
  readonly options: JsonObject;
  readonly maxTurns?: number;
  readonly turns: readonly PlayTurn[];
  /** What is shown now. */
  readonly observation: readonly PlayPart[];
  readonly reward: number;
  readonly over: boolean;
  /** `terminated`: the world ended it; `truncated`: the turn limit did. */
  readonly end?: "terminated" | "truncated";
  readonly ending?: string;
  readonly success: boolean;
  /** Bare commands that take no typing (`left`, `stop`), for buttons and keys; empty for environments without a world. */
  readonly commands: readonly string[];
  /** How other commands are written: name, argument and an example. */
  readonly actions: readonly { readonly name: string; readonly description: string; readonly example: string }[];
  /** Whether `auto: "oracle"` works here. */
  readonly hasOracle: boolean;
  /** Of an episode that was taken over: what differs from the saved one, in words. */
  readonly warning?: string;
};

/** What `saccade run pack` puts into the page as `window.__SACCADE__`. */
export type Embedded = {
  readonly format: 1;
  /** ISO 8601. */
  readonly created: string;
  /** In words. */
  readonly leftOut: readonly string[];
  /** JSON by route, without query: `routes.runs()`, `overview`, `series` (all metrics), `trajectories` (all rows that are in the file),
   *  `trajectory` of each of them, `sight`, `timeline`. What else a `Source` answers is derived from these. */
  readonly data: Readonly<Record<string, unknown>>;
  /** Data URIs by hash. */
  readonly frames: Readonly<Record<string, string>>;
};

export type LiveHandlers = {
  readonly onMessage: (message: LiveMessage) => void;
  /** False: the connection is lost and tried again. */
  readonly onConnected?: (connected: boolean) => void;
};

/** How pages read. Every method throws an `Error` whose message can be shown. Get one with `openSource()` of source.ts. */
export interface Source {
  /** `embedded`: an exported file; nothing is live and nothing can be played. */
  readonly kind: "http" | "embedded";
  /** Of an exported file: what it does not hold, in words. */
  readonly leftOut: readonly string[];
  runs(): Promise<RunsReply>;
  compare(runs: readonly string[]): Promise<CompareReply>;
  overview(run: string): Promise<RunOverview>;
  /** No names: all metrics. `points`: at most so many a curve (default 600). */
  series(run: string, names?: readonly string[], points?: number): Promise<SeriesReply>;
  trajectories(run: string, query?: TrajectoryQuery): Promise<TrajectoryPage>;
  trajectory(run: string, key: string): Promise<TrajectoryReply>;
  group(run: string, key: string): Promise<GroupReply>;
  evaluations(run: string): Promise<EvaluationsReply>;
  pinned(run: string, env: string, seed: number, temperature: number): Promise<PinnedReply>;
  sight(run: string): Promise<SightReply>;
  timeline(run: string, from?: number, to?: number): Promise<TimelineReply>;
  /** For `<img src>`; undefined when an exported file does not hold it. */
  frameUrl(run: string, hash: string): string | undefined;
  /** For `<a href download>`; undefined in an exported file. */
  gifUrl(run: string, key: string, frames?: "model" | "env"): string | undefined;
  perfettoUrl(run: string): string | undefined;
  /** Follows a run; returns how to stop. */
  live(run: string, from: number, handlers: LiveHandlers): () => void;
  /** Absent in an exported file. */
  readonly play?: PlaySource;
  readonly write?: WriteSource;
}

/** What changes a run folder, and what is made of several episodes. Refused where the viewer was started to be read only. */
export interface WriteSource {
  notes(run: string, change: Partial<RunNotes>): Promise<RunNotes>;
  remove(run: string): Promise<void>;
  label(run: string, key: string, change: Partial<EpisodeNote>): Promise<EpisodeNote>;
  demonstrations(run: string, keys: readonly string[]): Promise<Blob>;
  film(run: string, keys: readonly string[]): Promise<Blob>;
}

export interface PlaySource {
  envs(): Promise<EnvsReply>;
  models(): Promise<ModelsReply>;
  think(session: string, request: ThinkRequest): Promise<Thought>;
  /** For `<a href download>`. */
  demonstrationUrl(session: string): string;
  start(request: PlayRequest): Promise<PlayState>;
  state(session: string): Promise<PlayState>;
  act(session: string, request: ActRequest): Promise<PlayState>;
  stop(session: string): Promise<void>;
  frameUrl(session: string, hash: string): string;
}
