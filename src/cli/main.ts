#!/usr/bin/env node
/** The `saccade` command. It says what it is about to do, then loads the program: most of a second passes between the two. */
import { firstWords } from "./first-words.ts";

const words = firstWords(process.argv.slice(2));
if (words !== undefined) process.stderr.write(`${words}\n`);
await import("./program.ts");
