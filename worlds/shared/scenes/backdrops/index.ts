/** The places of scenes, painted back to front; each says where things may stand in it. */
import { country, desert, pond, seaside, winter } from "./country.ts";
import { shelf, table } from "./indoors.ts";
import type { Backdrop } from "./land.ts";
import { street } from "./street.ts";

export type { Backdrop, Place, Stage } from "./land.ts";

export const backdrops: readonly Backdrop[] = [country, street, seaside, table, shelf, winter, pond, desert];
