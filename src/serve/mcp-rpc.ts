/** JSON-RPC for the tools of `mcp-play.ts`, as far as OpenEnv's `/mcp` has it: `tools/list` and `tools/call`, and sessions that one connection is anyway. */
import { z } from "zod";
import type { Json, JsonObject } from "../core/json.ts";
import type { Environments } from "./environments.ts";
import { playTool, playTools } from "./mcp-play.ts";
import type { Seat } from "./seat.ts";

const INVALID_REQUEST = -32600;
const NO_METHOD = -32601;
const INVALID_PARAMS = -32602;

const requestSchema = z.looseObject({
  jsonrpc: z.literal("2.0"),
  method: z.string(),
  id: z.union([z.string(), z.number(), z.null()]).optional(),
  params: z.record(z.string(), z.unknown()).optional(),
});
const callSchema = z.looseObject({ name: z.string(), arguments: z.record(z.string(), z.unknown()).nullish() });

/** Never throws: a request that is wrong is answered with an error. */
export async function answerRpc(asked: unknown, seat: Seat, environments: Environments): Promise<JsonObject> {
  const read = requestSchema.safeParse(asked);
  if (!read.success) {
    const [issue] = read.error.issues;
    return refusal(
      null,
      INVALID_REQUEST,
      `A request has jsonrpc "2.0", id, method and params; ${issue?.path.join(".")}: ${issue?.message}`,
    );
  }
  const { method, id = null, params = {} } = read.data;
  switch (method) {
    case "tools/list":
      return result(id, { tools: (await playTools(environments)) as unknown as Json });
    case "tools/call": {
      const call = callSchema.safeParse(params);
      if (!call.success) return refusal(id, INVALID_PARAMS, "tools/call takes a name and arguments.");
      return result(id, (await playTool(call.data.name, call.data.arguments, seat)) as unknown as JsonObject);
    }
    default:
      return refusal(
        id,
        NO_METHOD,
        `There is no method ${JSON.stringify(method.slice(0, 100))}: tools/list or tools/call.`,
      );
  }
}

type Id = string | number | null;

function result(id: Id, value: JsonObject): JsonObject {
  return { jsonrpc: "2.0", id, result: value };
}

function refusal(id: Id, code: number, message: string): JsonObject {
  return { jsonrpc: "2.0", id, error: { code, message } };
}
