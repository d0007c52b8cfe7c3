/** From ids to text, piece by piece. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ChatFolder, loadChat } from "../model/chat.ts";
import { temporaryFolder } from "../model/test-folder.ts";
import { createServable } from "../serve/test-serve.ts";
import { AnswerText } from "./text.ts";

let root = "";
let tokenizer: ChatFolder["tokenizer"];
beforeAll(async () => {
  root = await temporaryFolder();
  await createServable(join(root, "model"));
  ({ tokenizer } = await loadChat(join(root, "model")));
});
afterAll(() => rm(root, { recursive: true, force: true }));

test.each([[[]], [["\n\n"]], [["!?!"]], [["\n\n", "a longer one"]]])(
  "pieces with the stop strings %j hold whole characters, and are the text together",
  (stop) => {
    const said = "Well 😀😀 now, 🧭!";
    const text = new AnswerText(tokenizer, { skipSpecial: true, stop, includeStop: false });
    const pieces = [...tokenizer.encode(said)].map((id) => text.push(id));
    pieces.push(text.end());
    for (const piece of pieces) expect(Buffer.from(piece, "utf8").toString("utf8")).toBe(piece);
    expect(pieces.join("")).toBe(said);
  },
);
