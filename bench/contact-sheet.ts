/** Generated geometry problems with their questions and answers, in sheets to be looked at: `npx jiti bench/contact-sheet.ts [count] [folder] [size]`. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Canvas } from "../src/images/canvas.ts";
import { encodePng } from "../src/images/png.ts";
import { KINDS, makeProblem } from "../worlds/geometry3k/problems.ts";

const [count = "500", folder = "sheets", side = "224"] = process.argv.slice(2);
const size = Number(side);
const [columns, rows, caption] = [10, 5, size < 128 ? 26 : 46];
mkdirSync(folder, { recursive: true });
const options = { kinds: KINDS, size, step: 1, turn: 20, choices: 0.3 };
for (let first = 0; first < Number(count); first += columns * rows) {
  const canvas = new Canvas(columns * (size + 6), rows * (size + caption), [235, 235, 235]);
  for (let i = 0; i < columns * rows; i++) {
    const { picture, question, truth, steps } = makeProblem(first + i, options);
    const [x, y] = [(i % columns) * (size + 6), Math.floor(i / columns) * (size + caption)];
    canvas.draw(picture, x, y);
    const words = `${first + i}: ${question.replaceAll("\\", "")}`;
    const line = Math.floor(size / 6.2);
    for (let l = 0; l < 2; l++)
      canvas.text(words.slice(l * line, (l + 1) * line), x + 2, y + size + 3 + l * 13, { size: 9, color: [0, 0, 0] });
    canvas.text(`= ${truth.replaceAll("\\", "")}   [${steps}]`, x + 2, y + size + 30, { size: 9, color: [160, 0, 0] });
  }
  writeFileSync(join(folder, `sheet-${first / (columns * rows)}.png`), encodePng(canvas.toImage()));
}
