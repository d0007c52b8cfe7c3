/** Everything that can be drawn, by name. */
import type { Thing } from "../thing.ts";
import { animals } from "./animals.ts";
import { food } from "./food.ts";
import { household } from "./household.ts";
import { outdoors } from "./outdoors.ts";
import { vehicles } from "./vehicles.ts";

export const things: readonly Thing[] = [...animals, ...vehicles, ...food, ...household, ...outdoors];
const byName = new Map(things.map((thing) => [thing.name, thing]));

export function thingNamed(name: string): Thing {
  const thing = byName.get(name);
  if (thing === undefined) throw new Error(`There is no thing called "${name}".`);
  return thing;
}
