/**
 * What models of `click` click, greedily, as an animation: a tile for each task, an image for each seed from 1,000,000,000 on, which no run trains on. The cross is the click; the border
 * is green where it succeeded.
 *
 *     npx jiti bench/click-film.ts RUN-OR-MODEL OUT.gif [IMAGES]
 */
import { writeFileSync } from "node:fs";
import { openPlayer } from "../src/cli/play-model.ts";
import { Canvas, type Color, encodeGif, isImage, type Mark, makeEnv } from "./saccade.ts";

const [agent = "", out = "click.gif", count = "8"] = process.argv.slice(2);
const TASKS = ["test", "test-2", "color", "shape", "button", "tab", "link", "dialog"].map(
  (task) => `miniwob/click-${task}`,
);
const [SIDE, GAP, COLUMNS, WORDS] = [160, 8, 4, 14];
const RIGHT: Color = [30, 150, 60];
const WRONG: Color = [200, 40, 40];

const player = await openPlayer({ agent, greedy: true });
const height = Math.ceil(TASKS.length / COLUMNS) * (SIDE + WORDS + GAP) + GAP;
const film = Array.from({ length: Number(count) }, () => new Canvas(COLUMNS * (SIDE + GAP) + GAP, height));
for (const [place, task] of TASKS.entries()) {
  const env = await makeEnv(task, await player.options(task, {}));
  const x = GAP + (place % COLUMNS) * (SIDE + GAP);
  const y = GAP + Math.floor(place / COLUMNS) * (SIDE + WORDS + GAP);
  for (const [i, canvas] of film.entries()) {
    const seed = 1_000_000_000 + i;
    const messages = await env.reset(seed);
    const reply = await (await player.open(env, seed))(messages);
    const { success, info } = await env.step(reply);
    const color = success === true ? RIGHT : WRONG;
    for (const part of messages[0]?.content ?? []) {
      if (part.type === "text")
        canvas.text((part.text.split("\n")[0] ?? "").slice(0, 38), x, y, { size: 8, color: [0, 0, 0] });
      if (part.type === "image" && isImage(part.image)) canvas.draw(part.image, x, y + WORDS);
    }
    canvas.strokeRect(x - 2, y + WORDS - 2, SIDE + 4, SIDE + 4, color, 2);
    const [mark] = (info.marks ?? []) as readonly Mark[];
    if (mark?.x === undefined || mark.y === undefined) continue;
    const [cx, cy] = [Math.round(x + mark.x * SIDE), Math.round(y + WORDS + mark.y * SIDE)];
    canvas.fillRect(cx - 7, cy - 1, 15, 3, color);
    canvas.fillRect(cx - 1, cy - 7, 3, 15, color);
  }
  await env.close?.();
}
await player.close();
const images = film.map((canvas) => canvas.toImage());
writeFileSync(out, encodeGif(images, { delayMs: 1200 }));
process.exit(0);
