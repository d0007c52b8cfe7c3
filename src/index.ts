/** Everything a user imports: `import { makeEnv, defineWorld, Canvas, z } from "saccade"`. */
import * as core from "./core/index.ts";
import * as envs from "./envs/index.ts";
import * as images from "./images/index.ts";

export * from "./core/index.ts";
export * from "./envs/index.ts";
export * from "./images/index.ts";

// Files of the user (worlds, recipes) that import "saccade" get this copy.
envs.shareModule("saccade", { ...core, ...images, ...envs });
envs.shareModule("saccade/core", core);
envs.shareModule("saccade/images", images);
envs.shareModule("saccade/envs", envs);
