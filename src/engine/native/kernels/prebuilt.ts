/**
 * Kernels that came with the package, compiled beforehand for common systems (scripts/prebuild.ts): prebuilt/<system>/kernels.node. They count only when
 * they were made from the sources that are here.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { packageFolder } from "../../../core/package-folder.ts";
import { sourceHash } from "./build.ts";

/** This system's name among them: "linux-x64", "linux-arm64-musl", "darwin-arm64", "win32-x64". */
export function systemName(): string {
  const { platform, arch } = process;
  return `${platform}-${arch}${platform === "linux" && !hasGlibc() ? "-musl" : ""}`;
}

function hasGlibc(): boolean {
  // Otherwise the report looks up names of connections, which may take seconds.
  Object.assign(process.report, { excludeNetwork: true });
  const report = process.report.getReport() as { header?: { glibcVersionRuntime?: string } };
  return report.header?.glibcVersionRuntime !== undefined;
}

/** The file, or why there is none. */
export function findPrebuilt(): { file: string } | { problem: string } {
  const folder = packageFolder("prebuilt");
  const sources = packageFolder("native");
  if (folder === undefined || sources === undefined) return { problem: "this installation has no prebuilt kernels" };
  const file = join(folder, systemName(), "kernels.node");
  if (!existsSync(file)) return { problem: `there are no prebuilt kernels for ${systemName()}` };
  const made = readFileSync(join(folder, "sources.txt"), "utf8").trim();
  if (made !== sourceHash(sources)) return { problem: "the prebuilt kernels are of other sources" };
  return { file };
}
