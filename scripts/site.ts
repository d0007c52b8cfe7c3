/**
 * `npm run site`: the docs as a site in `site/dist`. Installs VitePress into `site/` the first time; from then on nothing is fetched. Bundles the worlds
 * that readers play, and copies the files that pages link to and that are not pages.
 */
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { build } from "vite";
import { outside } from "../site/outside.ts";
import { browserPlatform } from "../web/lab/build.ts";

const root = resolve(import.meta.dirname, "..");
const site = join(root, "site");
const docs = join(root, "docs");

/** Files outside `docs/` that its pages link to. */
function linkedFiles(): string[] {
  const pages = readdirSync(docs, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".md"));
  const found = pages.flatMap((page) =>
    [...readFileSync(join(docs, page), "utf8").matchAll(/\]\(([^)\s#]+)\)/g)].flatMap(
      ([, link = ""]) => outside(link, page.replaceAll("\\", "/")) ?? [],
    ),
  );
  return [...new Set(found)];
}

function copyFiles(): void {
  const files = join(site, "public/files");
  rmSync(files, { recursive: true, force: true });
  for (const name of linkedFiles()) {
    if (statSync(join(root, name)).isDirectory())
      throw new Error(`A page links to the folder ${name}: link to a file in it.`);
    mkdirSync(dirname(join(files, name)), { recursive: true });
    cpSync(join(root, name), join(files, name));
  }
}

async function bundleWorlds(): Promise<void> {
  await build({
    root: site,
    configFile: false,
    logLevel: "error",
    plugins: [browserPlatform()],
    publicDir: false,
    define: { "import.meta.url": '"file:///worlds/"' },
    build: {
      outDir: join(site, "public"),
      emptyOutDir: false,
      target: "es2023",
      reportCompressedSize: false,
      lib: { entry: join(site, "worlds.ts"), formats: ["es"], fileName: () => "worlds.js" },
      rollupOptions: {
        // Files that a page never calls may import Node: what is not used is left out, imports and all.
        treeshake: { moduleSideEffects: false },
        external: ["playwright-core"],
        output: { codeSplitting: false },
      },
    },
  });
}

const npm = (...args: string[]) => execFileSync("npm", args, { cwd: site, stdio: "inherit" });

if (!existsSync(join(site, "node_modules/vitepress"))) npm("ci", "--ignore-scripts", "--no-audit", "--no-fund");
mkdirSync(join(site, "public"), { recursive: true });
rmSync(join(site, "pages"), { recursive: true, force: true });
cpSync(docs, join(site, "pages"), { recursive: true });
copyFiles();
await bundleWorlds();
npm("exec", "vitepress", "build");
