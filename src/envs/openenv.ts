/**
 * Any OpenEnv server (0.10) as an environment: `{ env: "openenv", options: { url } }`. An episode is one WebSocket. Images are found in what the server
 * returns and shown as images, whatever form they have there; the rest is text. A reply is an action of the server's schema: plain text where the action is a
 * single string, else a tool call. An action that the server refuses is told to the model; a server that fails or leaves ends the episode as failed.
 */
import { z } from "zod";
import { EnvError } from "../core/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { type Message, type Part, text, user } from "../core/message.ts";
import { defineEnv } from "./define.ts";
import type { Env, RewardPart, Step } from "./env.ts";
import { OpenEnvLine } from "./openenv-line.ts";
import { observationParts } from "./openenv-seen.ts";
import { CALL_TAG, readCalls, resultParts, TOOL_FORMS, type ToolText, withTools } from "./protocols/tool-text.ts";
import { serverFields } from "./server-options.ts";

const options = z.strictObject({
  url: z.url({ protocol: /^(https?|wss?)$/ }).describe("Address of the server."),
  reset: z
    .record(z.string(), z.json())
    .default({})
    .describe("More arguments for every reset, in addition to the seed."),
  instruction: z.string().optional().describe("The task, in words. By default the server's own description."),
  maxTurns: z.int().min(1).default(20).describe("Turn limit. Then the episode is truncated."),
  images: z
    .array(z.string())
    .optional()
    .describe("Fields of the observation that are images. By default every field that looks like one; [] for none."),
  form: z
    .enum(TOOL_FORMS)
    .default("qwen")
    .describe("How the prompt describes tools and how calls are written, if actions are tool calls."),
  ...serverFields,
});
type Settings = z.output<typeof options>;

export const openenv = defineEnv({
  id: "openenv",
  summary: "an environment of any OpenEnv server",
  options,
  create: (settings) => new OpenEnvEnv(settings),
});

/** How replies become actions. */
type Actions =
  | { readonly kind: "text"; readonly field: string; readonly about: string }
  | { readonly kind: "calls"; readonly tools: readonly ToolText[]; readonly isMcp: boolean };

class OpenEnvEnv implements Env {
  readonly #settings: Settings;
  readonly #line: OpenEnvLine;
  #actions: Actions | undefined;
  #about = "";
  #turn = -1;

  constructor(settings: Settings) {
    this.#settings = settings;
    this.#line = new OpenEnvLine(settings);
  }

  async reset(seed: number): Promise<readonly Message[]> {
    const { reset, instruction, form } = this.#settings;
    const begun = await this.#line.begin({ ...reset, seed });
    this.#actions ??= await this.#learn();
    this.#turn = 0;
    const actions = this.#actions;
    const how =
      actions.kind === "text" ? `Your whole reply is the action (${actions.about}).` : "Call one function per turn.";
    const said = [instruction ?? this.#about, how].filter((line) => line !== "").join("\n\n");
    const first = [user(text(`${said}\n\n`), ...(await observationParts(begun.observation, this.#settings.images)))];
    return actions.kind === "text" ? first : withTools(first, actions.tools, form, "full");
  }

  async step(reply: string): Promise<Step> {
    if (this.#turn < 0 || this.#actions === undefined) throw new EnvError("Call reset(seed) before step().");
    this.#turn += 1;
    const { maxTurns, images, form } = this.#settings;
    const actions = this.#actions;
    const read = readAction(reply, actions);
    const answer = "problem" in read ? read : await this.#line.step(read.action);
    const isRefused = "problem" in answer;
    const parts: readonly Part[] = isRefused
      ? [text(`Error: ${answer.problem}`)]
      : await observationParts(answer.observation, images);
    const reward = isRefused ? 0 : answer.reward;
    const terminated = !isRefused && answer.done;
    const truncated = !terminated && this.#turn >= maxTurns;
    if (terminated || truncated) this.#over();
    const told = isRefused ? answer.problem : undefined;
    return {
      observation: [user(...(actions.kind === "calls" ? resultParts([parts], form) : parts))],
      rewards: [{ name: "task", value: reward }],
      terminated,
      truncated,
      success: terminated && ((isRefused ? undefined : answer.success) ?? reward >= 1),
      info: {
        ...(told !== undefined && { feedback: told }),
        actions: "action" in read ? [{ name: read.name, payload: read.action }] : [],
        parsed: "action" in read,
        wellFormed: "action" in read,
        valid: !isRefused,
      },
    };
  }

  /** The episode ends here for want of turns or tokens. */
  truncate(): readonly RewardPart[] {
    this.#over();
    return [];
  }

  #over(): void {
    this.#turn = -1;
    this.#line.rest();
  }

  async close(): Promise<void> {
    this.#turn = -1;
    await this.#line.close();
  }

  /** What the server takes and says of itself. */
  async #learn(): Promise<Actions> {
    const { action, description } = await this.#line.describe();
    this.#about = description;
    const properties = isJsonObject(action.properties) ? action.properties : {};
    const fields = Object.entries(properties).filter(([name]) => name !== "metadata");
    if (Object.hasOwn(properties, "tool_name") || fields.length === 0) {
      const tools = await this.#line.tools();
      if (tools.length > 0) return { kind: "calls", tools, isMcp: true };
    }
    const [only] = fields;
    if (fields.length === 1 && only !== undefined && isJsonObject(only[1]) && only[1].type === "string") {
      const about = typeof only[1].description === "string" ? only[1].description : only[0];
      return { kind: "text", field: only[0], about };
    }
    const { metadata: _, ...own } = properties as Record<string, Json>;
    const parameters = { ...action, properties: own };
    const told = typeof action.description === "string" ? action.description : "Acts in the environment.";
    return { kind: "calls", tools: [{ name: "act", description: told, parameters }], isMcp: false };
  }
}

type ReadAction = { readonly name: string; readonly action: JsonObject } | { readonly problem: string };

/** Never throws: what can't be read is told to the model. */
function readAction(reply: string, actions: Actions): ReadAction {
  if (actions.kind === "text") return { name: actions.field, action: { [actions.field]: reply.trim() } };
  const call = readCalls(reply).at(-1);
  const form = `<${CALL_TAG}>{"name": …, "arguments": {…}}</${CALL_TAG}>`;
  if (call === undefined) return { problem: `No call was found in the reply. Write ${form}.` };
  if (!call.ok) return { problem: `${call.problem} Write ${form}.` };
  const names = actions.tools.map(({ name }) => name);
  if (!names.includes(call.name)) return { problem: `There is no such function. There are: ${names.join(", ")}.` };
  if (!isJsonObject(call.args)) return { problem: `The arguments of ${call.name} must be a JSON object.` };
  if (!actions.isMcp) return { name: call.name, action: call.args };
  return { name: call.name, action: { type: "call_tool", tool_name: call.name, arguments: call.args } };
}
