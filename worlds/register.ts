/** Hands the built-in environments to the registry. Entries import it: the front door, the workers, the command line; rooms never do. */
import { register } from "../src/envs/index.ts";
import { worlds } from "./index.ts";

for (const world of worlds) register(world);
