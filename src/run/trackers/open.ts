/** Trackers by name, as recipes list them. */
import { z } from "zod";
import { ConfigError } from "../../core/errors.ts";
import { MlflowTracker } from "./mlflow.ts";
import { TensorBoardTracker } from "./tensorboard.ts";
import type { Tracker } from "./tracker.ts";

export const trackerSchema = z.union([
  z.enum(["tensorboard"]),
  z.strictObject({
    name: z.literal("tensorboard"),
    folder: z.string().optional().describe("Where the event files go; by default tensorboard/ in the run folder."),
  }),
  z.strictObject({
    name: z.literal("mlflow"),
    url: z.url({ protocol: /^https?$/ }).describe("Address of the tracking server."),
    experiment: z.string().default("saccade").describe("Name of the experiment; it is created if it does not exist."),
  }),
]);
export type TrackerConfig = z.output<typeof trackerSchema>;

export function openTrackers(configs: readonly TrackerConfig[]): { name: string; tracker: Tracker }[] {
  const names = configs.map((config) => (typeof config === "string" ? config : config.name));
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw new ConfigError(`trackers names ${twice} twice. List each tracker once.`);
  return configs.map((config, index) => ({ name: names[index] as string, tracker: openTracker(config) }));
}

function openTracker(config: TrackerConfig): Tracker {
  if (typeof config === "string") return new TensorBoardTracker();
  switch (config.name) {
    case "tensorboard":
      return new TensorBoardTracker(config.folder);
    case "mlflow":
      return new MlflowTracker(config);
  }
}
