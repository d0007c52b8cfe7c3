/**
 * A GIF of the lab learning: `npx jiti web/lab/film.ts <folder> <file.gif> [width [frames]]` takes the screenshots that the proof wrote
 * (`LAB_SHOTS=<folder> npm run prove -- web/lab`), evenly over the run.
 */
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Image } from "../../src/core/image.ts";
import { decodePng, encodeGif, resize } from "../../src/images/index.ts";

const [folder, out, width = "600", wanted = "14"] = process.argv.slice(2);
if (folder === undefined || out === undefined) {
  throw new Error("usage: npx jiti web/lab/film.ts <folder> <file.gif> [width [frames]]");
}
const names = (await readdir(folder)).filter((name) => name.endsWith(".png")).sort();
const count = Math.min(Number(wanted), names.length);
const chosen = Array.from({ length: count }, (_, i) => names[Math.round((i * (names.length - 1)) / (count - 1))] ?? "");
const frames = await Promise.all(
  chosen.map(async (name) => {
    const shot = decodePng(await readFile(join(folder, name)));
    return flat(resize(shot, Number(width), Math.round((shot.height * Number(width)) / shot.width), "lanczos"));
  }),
);
const delayMs = frames.map((_, i) => (i === frames.length - 1 ? 2500 : 450));
await writeFile(out, encodeGif(frames, { delayMs }));

/** Few colours, so that text and edges cost little. */
function flat({ width, height, data }: Image): Image {
  return new Image(
    width,
    height,
    data.map((value) => Math.min(255, Math.round(value / 24) * 24 + (value > 245 ? 15 : 0))),
  );
}
