/**
 * Builds `/lab`: one HTML file with page, workers and kernels inside, which the viewer's server hands out and `saccade lab` writes. `npm run build` calls it:
 * `jiti web/lab/build.ts <file>`. The workers' script is the framework itself; `src/core/platform-browser.ts` takes the place of Node.
 */
import { createHash } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { build, type InlineConfig, type Plugin } from "vite";

const here = import.meta.dirname;
const root = join(here, "../..");

export type Bundle = { readonly code: string; readonly css: string; readonly modules: readonly string[] };

/** The script of the workers, and the modules of ours that are in it. */
export async function bundleWorker(): Promise<Bundle> {
  const kernels = await readFile(join(root, "native/wasm/kernels.wasm"));
  return bundle("worker.ts", [virtual("kernels", kernels.toString("base64")), browserPlatform()], {
    // Files that a page never calls may import Node: what is not used is left out, imports and all.
    treeshake: { moduleSideEffects: false },
    // It asks for packages that nobody has installed, so it must not even be looked into.
    external: ["playwright-core"],
  });
}

/** What stands for Node in a browser. */
export function browserPlatform(): Plugin {
  const platform = join(root, "src/core/platform.ts");
  return {
    name: "browser-platform",
    enforce: "pre",
    async resolveId(source, importer) {
      if (!source.endsWith("/platform.ts") || importer === undefined) return null;
      return resolve(dirname(importer), source) === platform ? platform.replace(".ts", "-browser.ts") : null;
    },
  };
}

/** The whole page. */
export async function labPage(): Promise<string> {
  const worker = await bundleWorker();
  const { code, css } = await bundle("main.tsx", []);
  const script = inScript(code);
  const policy = [
    "default-src 'none'",
    `script-src 'sha256-${createHash("sha256").update(script).digest("base64")}' 'wasm-unsafe-eval' blob:`,
    "worker-src blob:",
    "style-src 'unsafe-inline'",
    "img-src data: blob:",
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
  const html = await readFile(join(here, "index.html"), "utf8");
  return html
    .replace("<!-- policy -->", () => `<meta http-equiv="Content-Security-Policy" content="${policy}" />`)
    .replace("<!-- style -->", () => `<style>${css.replaceAll("</style", "<\\/style")}</style>`)
    .replace("<!-- worker -->", () => `<script type="text/plain" id="worker">${inScript(worker.code)}</script>`)
    .replace("<!-- script -->", () => `<script>${script}</script>`);
}

/** Code whose strings must not end the element that it stands in. */
function inScript(code: string): string {
  return code.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
}

async function bundle(
  entry: string,
  plugins: Plugin[],
  rollup: NonNullable<InlineConfig["build"]>["rollupOptions"] = {},
): Promise<Bundle> {
  const built = await build({
    root: here,
    configFile: false,
    logLevel: "error",
    plugins,
    // Nothing is found by where a script lies.
    define: { "import.meta.url": '"file:///lab/"' },
    oxc: { jsx: { importSource: "preact" } },
    build: {
      write: false,
      target: "es2023",
      modulePreload: false,
      cssCodeSplit: false,
      reportCompressedSize: false,
      rollupOptions: { ...rollup, input: join(here, entry), output: { format: "iife", codeSplitting: false } },
    },
  });
  const outputs = [built].flat().flatMap((one) => ("output" in one ? one.output : []));
  const chunks = outputs.flatMap((one) => (one.type === "chunk" ? [one] : []));
  const styles = outputs.flatMap((one) => (one.type === "asset" && one.fileName.endsWith(".css") ? [one.source] : []));
  const modules = chunks.flatMap(({ modules }) =>
    Object.entries(modules).flatMap(([id, { renderedLength }]) => (renderedLength > 0 ? [id] : [])),
  );
  return { code: chunks.map(({ code }) => code).join(""), css: styles.join("\n"), modules };
}

function virtual(name: string, text: string): Plugin {
  const id = `virtual:${name}`;
  return {
    name: id,
    resolveId: (source) => (source === id ? `\0${id}` : null),
    load: (asked) => (asked === `\0${id}` ? `export default ${JSON.stringify(text)};` : null),
  };
}

const [, called, out] = process.argv;
if (called !== undefined && resolve(called) === join(here, "build.ts")) {
  if (out === undefined) throw new Error("usage: jiti web/lab/build.ts <file>");
  await mkdir(dirname(out), { recursive: true });
  await writeFile(out, await labPage());
}
