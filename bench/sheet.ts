/**
 * A contact sheet of every world, to be looked at by a person: eight seeds, first frame above and last frame of the oracle's episode below.
 * `npx jiti bench/sheet.ts <folder> [part of an id]` writes one PNG for each.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import "../worlds/register.ts";
import { Canvas, encodePng, fitLongSide, type Image, isImage, listEnvs, makeWorld, type World } from "./saccade.ts";

const SEEDS = 8;
const SIDE = 240;

async function look(world: World): Promise<Image> {
  const seen = await world.observe("image");
  const found = Array.isArray(seen) ? seen.find((part) => part.type === "image")?.image : seen;
  if (!isImage(found)) throw new Error("expected an image");
  return fitLongSide(found, SIDE);
}

const [folder = "sheets", wanted = ""] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
for (const { id, kind, needs } of await listEnvs()) {
  if (kind !== "world" || needs !== undefined || !id.includes(wanted)) continue;
  const world = await makeWorld(id);
  const pairs: (readonly [Image, Image])[] = [];
  for (let seed = 0; seed < SEEDS; seed++) {
    await world.reset(seed);
    const first = await look(world);
    for (const action of (await world.solve?.()) ?? []) await world.act(action);
    pairs.push([first, await look(world)]);
  }
  const height = Math.max(...pairs.flat().map((image) => image.height)) + 4;
  // Four pairs across, two down.
  const sheet = new Canvas(4 * (SIDE + 4), 4 * height + 8, [40, 40, 40]);
  pairs.forEach((pair, i) => {
    const [x, y] = [(i % 4) * (SIDE + 4) + 2, Math.floor(i / 4) * (2 * height + 8) + 2];
    for (const [row, image] of pair.entries()) sheet.draw(image, x, y + row * height);
  });
  writeFileSync(join(folder, `${id.replace("/", "-")}.png`), encodePng(sheet.toImage()));
  await world.close?.();
}
