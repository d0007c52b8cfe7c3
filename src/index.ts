/** The package: its front door, and the rooms that files of the user may import. */
import * as core from "./core/index.ts";
import * as engine from "./engine/index.ts";
import * as envs from "./envs/index.ts";
import { shareModule } from "./envs/load.ts";
import * as evaluate from "./evaluate/index.ts";
import * as front from "./front-door.ts";
import * as images from "./images/index.ts";
import * as model from "./model/index.ts";
import * as rollout from "./rollout/index.ts";
import * as run from "./run/index.ts";
import * as train from "./train/index.ts";
import * as viewer from "./viewer/index.ts";
import "../worlds/register.ts";

export * from "./front-door.ts";

// Worlds and recipes that a user names by path get this copy of everything, whatever copy their own folder has.
const rooms = { core, images, run, envs, model, engine, rollout, train, viewer, evaluate };
shareModule("saccade", front);
for (const [room, module] of Object.entries(rooms)) shareModule(`saccade/${room}`, module);
