#!/usr/bin/env node
/** `npm create saccade my-agent -- --kind task` is `saccade init my-agent --kind task`. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const manifest = createRequire(import.meta.url).resolve("saccade/package.json");
const { bin } = JSON.parse(readFileSync(manifest, "utf8"));
const [folder = "my-agent", ...rest] = process.argv.slice(2);
const command = [join(dirname(manifest), bin.saccade), "init", folder, ...rest];
process.exitCode = spawnSync(process.execPath, command, { stdio: "inherit" }).status ?? 1;
