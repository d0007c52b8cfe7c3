/** What every test file has: the built-in environments. Files that share a process load this one each, and what it imports once. */
import { setFlagsFromString } from "node:v8";
import "../worlds/register.ts";

// Most test code runs for so short a time that optimizing it costs more than it saves: V8 waits about eight times longer than usual before it does.
setFlagsFromString("--interrupt-budget=500000");
