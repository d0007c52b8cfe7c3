/** Everything a user imports: `import { makeEnv, defineWorld, Canvas, z } from "saccade"`. */
import * as core from "./core/index.ts";
import * as engine from "./engine/index.ts";
import * as envs from "./envs/index.ts";
import * as images from "./images/index.ts";
import * as model from "./model/index.ts";

export * from "./core/index.ts";
export * from "./engine/index.ts";
export * from "./envs/index.ts";
export * from "./images/index.ts";
export * from "./model/index.ts";

// Files of the user (worlds, recipes) that import "saccade" get this copy.
envs.shareModule("saccade", { ...core, ...images, ...envs, ...model, ...engine });
for (const [room, module] of Object.entries({ core, images, envs, model, engine })) {
  envs.shareModule(`saccade/${room}`, module);
}
