/**
 * The docs as a site: the Markdown of `docs/`, as it is; `scripts/site.ts` copies it to `pages/`, next to Vue, which its pages need. The sidebar is the list of pages in `docs/README.md`; results and internals follow their own lists.
 * A link to a file outside `docs/` leads to a copy of it under `/files`, which `scripts/site.ts` makes.
 */
import { readFileSync } from "node:fs";
import { dirname, join, posix, resolve } from "node:path";
import { type DefaultTheme, defineConfig } from "vitepress";
import { outside } from "../outside.ts";

const docs = resolve(import.meta.dirname, "../pages");
const base = process.env.SITE_BASE ?? "/";

/** An eye. */
const ICON =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><path d="M2 16q14-18 28 0q-14 18-28 0z" fill="#4566d1"/><circle cx="19" cy="16" r="6" fill="#fff"/></svg>';

type Item = { readonly text: string; readonly link: string };

/** The links of a page of links, in order; `from`: the page. */
function linksIn(text: string, from: string): Item[] {
  return [...text.matchAll(/\[([^\]]+)\]\(([^)#]+\.md)\)/g)].map(([, name = "", path = ""]) => ({
    text: name.replaceAll("`", ""),
    link: `/${posix
      .join(dirname(from), path)
      .replace(/(^|\/)README\.md$/, "$1")
      .replace(/\.md$/, "")}`,
  }));
}

const read = (page: string) => readFileSync(join(docs, page), "utf8");

export function sidebar(): DefaultTheme.SidebarItem[] {
  const sections = read("README.md").split(/^## /m).slice(1);
  const groups = sections.map((section) => ({
    text: section.slice(0, section.indexOf("\n")),
    items: linksIn(section, "README.md"),
  }));
  const folders = ["results", "internals"].map((folder) => ({
    text: folder === "results" ? "Results" : "Internals",
    collapsed: true,
    items: [
      { text: "Overview", link: `/${folder}/` },
      ...linksIn(read(`${folder}/README.md`), `${folder}/README.md`),
    ].filter(
      ({ link }, index, all) => link.startsWith(`/${folder}/`) && all.findIndex((one) => one.link === link) === index,
    ),
  }));
  return [...groups.filter(({ text }) => !/internals/i.test(text)), ...folders];
}

export default defineConfig({
  title: "Saccade",
  description: "Train vision-language agents by multi-turn reinforcement learning, in TypeScript.",
  head: [["link", { rel: "icon", href: `data:image/svg+xml,${encodeURIComponent(ICON)}` }]],
  srcDir: docs,
  outDir: resolve(import.meta.dirname, "../dist"),
  cacheDir: resolve(import.meta.dirname, "../.cache"),
  base,
  rewrites: { "README.md": "index.md", ":folder/README.md": ":folder/index.md" },
  cleanUrls: true,
  // Addresses of servers that a reader starts.
  ignoreDeadLinks: "localhostLinks",
  // Pages are small; fetching all that the list of pages links to is not.
  router: { prefetchLinks: false },
  themeConfig: {
    sidebar: sidebar(),
    search: { provider: "local" },
    outline: [2, 3],
    nav: [
      { text: "Start", link: "/start/first-run" },
      { text: "Recipes", link: "/guide/recipes" },
      { text: "Command line", link: "/reference/command-line" },
      { text: "Results", link: "/results/" },
    ],
  },
  markdown: {
    theme: { light: "github-light-high-contrast", dark: "github-dark-high-contrast" },
    // As GitHub makes them, where the same pages are read.
    anchor: {
      slugify: (heading) =>
        heading
          .toLowerCase()
          .replace(/[^\p{L}\p{N}\s_-]/gu, "")
          .replace(/\s/g, "-"),
    },
    config(md) {
      const open =
        md.renderer.rules.link_open ?? ((tokens, index, options, _, self) => self.renderToken(tokens, index, options));
      md.renderer.rules.link_open = (tokens, index, options, env, self) => {
        const href = tokens[index]?.attrGet("href") ?? "";
        const path = outside(href, (env as { relativePath?: string }).relativePath ?? "");
        if (path !== undefined) {
          tokens[index]?.attrs?.splice(0, Infinity, ["href", `${base}files/${path}`], ["target", "_blank"]);
          return self.renderToken(tokens, index, options);
        }
        tokens[index]?.attrSet("href", href.replace(/(^|\/)README\.md/, "$1index.md"));
        return open(tokens, index, options, env, self);
      };
    },
  },
  vite: { publicDir: resolve(import.meta.dirname, "../public"), build: { chunkSizeWarningLimit: 4000 } },
});
