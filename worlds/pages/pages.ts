/**
 * Our own pages: eight that look like the web people know. Data, layout, wording and theme come from the seed; each judges itself in
 * parts and knows what to do next (`site/kit.js`). The files are plain HTML, CSS and JavaScript in `site/`, which the package ships.
 */
import { z } from "zod";
import { ConfigError, packagedFolder } from "../../src/core/index.ts";
import { definePage } from "../../src/envs/index.ts";

export const PAGES = ["login", "search", "shop", "calendar", "mail", "board", "settings", "canvas"] as const;

const options = z.strictObject({
  page: z.enum(PAGES).default("login").describe("Which of the eight pages to open. The id sets it."),
  form: z.enum(["easy", "hard"]).default("easy").describe("Length of the task: one to three actions, or two to seven."),
  theme: z.enum(["light", "dark", "seed"]).default("seed").describe("Light, dark, or decided by the seed."),
});

const perPage = <T>(value: (page: (typeof PAGES)[number]) => T) =>
  Object.fromEntries(PAGES.map((page) => [page, value(page)]));

export const pages = definePage({
  id: "pages",
  summary: "eight web pages: log in, search, shop, calendar, mail, board, settings, canvas",
  options,
  difficulties: perPage((page) => ({ page })),
  variants: { easy: perPage(() => ({ form: "easy" })), hard: perPage(() => ({ form: "hard" })) },
  protocol: "keyword",
  maxTurns: 12,
  page: ({ page, theme }) => {
    const files = packagedFolder("worlds/pages/site");
    if (files === undefined) throw new ConfigError("The pages of Saccade are not in this package: install it again.");
    return {
      files,
      open: `/${page}.html`,
      viewport: { width: 320, height: 256 },
      theme: theme === "seed" ? (seed: number) => (seed % 3 === 2 ? "dark" : "light") : theme,
      inPlace: true,
      words: ["ada", "hello", "yes please", "42"],
    };
  },
});
