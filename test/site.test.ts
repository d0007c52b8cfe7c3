/** What the site of the docs needs before it is built; `site.prove.ts` builds it and opens it in a browser. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, posix, resolve } from "node:path";
import { expect, test } from "vitest";
import { outside } from "../site/outside.ts";
import { names, start } from "../site/worlds.ts";

const docs = resolve(import.meta.dirname, "../docs");
const lists = ["README.md", "results/README.md", "internals/README.md"];

test("the lists of pages, which become the sidebar, name every page", () => {
  const listed = lists.flatMap((list) =>
    [...readFileSync(join(docs, list), "utf8").matchAll(/\]\(([^)#]+\.md)\)/g)].map(([, link = ""]) =>
      posix.join(dirname(list), link),
    ),
  );
  const pages = readdirSync(docs, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".md"));
  expect(pages.filter((page) => page !== "README.md" && !listed.includes(page))).toEqual([]);
});

test("a link that leaves docs/ is told from one that stays", () => {
  expect(outside("../../examples/loop.ts", "guide/extend.md")).toBe("examples/loop.ts");
  expect(outside("../images/lab.gif", "guide/lab.md")).toBeUndefined();
  expect(outside("https://example.org", "README.md")).toBeUndefined();
  expect(outside("#heading", "README.md")).toBeUndefined();
});

test.each(names)("%s is solved in the page by its hints, and says what a move did", async (name) => {
  const game = await start(name, 3);
  expect(game.moves).toEqual(expect.arrayContaining(["up", "down", "left", "right"]));
  const first = (await game.frame()).data;
  let won = false;
  for (let turn = 0; turn < 100 && !won; turn++) {
    const word = await game.hint();
    expect(word).toBeDefined();
    won = (await game.move(word as string)).won;
  }
  expect(won).toBe(true);
  expect((await game.frame()).data).not.toEqual(first);
});
