/** The contract: worlds, protocols and the environments made of them. The worlds themselves are in `worlds/`, beside `src/`. */
import { register } from "./registry.ts";
import { remote } from "./remote.ts";

export { z } from "zod";
export * from "./action.ts";
export * from "./args.ts";
export * from "./decisions.ts";
export * from "./define.ts";
export * from "./demos.ts";
export * from "./env.ts";
export * from "./jsonl.ts";
export * from "./load.ts";
export * from "./plans.ts";
export * from "./prompt-records.ts";
export * from "./protocol.ts";
export * from "./protocols/index.ts";
export { TOOL_FORMS, type ToolForm, writeCall } from "./protocols/tool-text.ts";
export * from "./python.ts";
export * from "./registry.ts";
export { HttpEnv } from "./remote.ts";
export { type Row, readRows } from "./rows.ts";
export * from "./seeds.ts";
export * from "./sources.ts";
export * from "./task.ts";
export * from "./tickets.ts";
export * from "./tools.ts";
export * from "./world.ts";
export * from "./world-env.ts";
export * from "./world-model/index.ts";

register(remote);
