/** Everything a user imports: `import { makeEnv, defineWorld, Canvas, z } from "saccade"`. */
import * as core from "./core/index.ts";
import * as engine from "./engine/index.ts";
import * as envs from "./envs/index.ts";
import * as evaluate from "./evaluate/index.ts";
import * as images from "./images/index.ts";
import * as model from "./model/index.ts";
import * as rollout from "./rollout/index.ts";
import * as run from "./run/index.ts";
import * as train from "./train/index.ts";
import * as viewer from "./viewer/index.ts";

export * from "./core/index.ts";
export * from "./engine/index.ts";
export * from "./envs/index.ts";
export * from "./evaluate/index.ts";
export * from "./images/index.ts";
export * from "./model/index.ts";
export * from "./rollout/index.ts";
export * from "./run/index.ts";
export * from "./train/index.ts";
export { exportRuns, startViewer, type Viewer, type ViewerOptions } from "./viewer/index.ts";

// Files of the user (worlds, recipes) that import "saccade" get this copy.
const rooms = { core, images, run, envs, model, engine, rollout, train, viewer, evaluate };
envs.shareModule("saccade", Object.assign({}, ...Object.values(rooms)));
for (const [room, module] of Object.entries(rooms)) {
  envs.shareModule(`saccade/${room}`, module);
}
