/** What a run writes down while it goes: events, with the alarms they raise, and some of its episodes. */
import type { ChatModel } from "../model/chat.ts";
import type { Trajectory } from "../rollout/trajectory.ts";
import { framesOf, type RecordContext, recordOf } from "../rollout/trajectory-records.ts";
import { AlarmWatch } from "../run/alarms.ts";
import type { EventKind, Metrics, RunEvent } from "../run/events.ts";
import { type Failure, failureData, failureLines } from "../run/failures.ts";
import type { RunFolder } from "../run/folder.ts";
import type { TrajectoryRecord } from "../run/trajectories.ts";
import type { Recipe } from "./recipe.ts";

export class Journal {
  readonly #run: RunFolder;
  readonly #onEvent: ((event: RunEvent) => void) | undefined;
  readonly #alarms = new AlarmWatch();
  #failed = false;

  constructor(run: RunFolder, onEvent?: (event: RunEvent) => void) {
    this.#run = run;
    this.#onEvent = onEvent;
  }

  log(kind: EventKind, step: number, metrics: Metrics, more: Pick<RunEvent, "spans" | "data"> = {}): void {
    const stored = kind === "train" ? this.#run.counts : {};
    const event = this.#tell(this.#run.log(kind, step, { ...metrics, ...stored }, more));
    const lost = this.#run.lossNote();
    if (lost !== undefined) this.note(lost, step);
    for (const alarm of this.#alarms.see(event)) {
      const message = `${alarm.message} ${alarm.advice}`;
      const data = { kind: alarm.kind, level: alarm.level };
      this.#tell(this.#run.log("alarm", alarm.step, {}, { message, data }));
    }
  }

  /** The first episode of the run that failed for our reasons; how many there are is a metric. */
  failure(failure: Failure, step: number): void {
    if (this.#failed) return;
    this.#failed = true;
    this.#tell(
      this.#run.log("failure", step, {}, { message: failureLines(failure).join("\n"), data: failureData(failure) }),
    );
  }

  note(message: string, step: number): void {
    this.#tell(this.#run.log("note", step, {}, { message }));
  }

  /** Some of the episodes go into the run folder, with what is known of each. */
  keep(
    { split, step, maxGroups }: { split: TrajectoryRecord["split"]; step: number; maxGroups: number },
    episodes: readonly Trajectory[],
    { model, recipe }: { model: ChatModel; recipe: Recipe },
    known: (trajectory: Trajectory) => Pick<RecordContext, "credit" | "sight"> | undefined = () => undefined,
  ): void {
    const view = model.view;
    const common = { split, step, view, ...(recipe.log.tokens && { textOf: model.textOf }) };
    this.#run.keep(
      step,
      episodes,
      (trajectory) => recordOf(trajectory, { ...common, ...known(trajectory) }),
      (trajectory) => framesOf(trajectory, view),
      { maxGroups },
    );
  }

  #tell(event: RunEvent): RunEvent {
    this.#onEvent?.(event);
    return event;
  }
}
