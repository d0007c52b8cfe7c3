/**
 * Environments as tools of the Model Context Protocol, so that any assistant can play: `start_episode` shows the first turn, `reply` answers it and shows
 * the next. Images are image content. What goes wrong is an answer with `isError`, which the assistant reads.
 */
import { z } from "zod";
import { errorMessage } from "../core/errors.ts";
import type { JsonObject } from "../core/json.ts";
import type { Parcel } from "../envs/remote-wire.ts";
import type { Environments } from "./environments.ts";
import type { Seat } from "./seat.ts";

export type McpContent = { type: "text"; text: string } | { type: "image"; data: string; mimeType: string };
export type McpResult = { content: McpContent[]; isError?: boolean; structuredContent?: Record<string, unknown> };
export type McpTool = {
  name: string;
  description: string;
  inputSchema: { type: "object"; [field: string]: unknown };
};

const startSchema = z.strictObject({
  env: z.string().optional().describe("Which environment; needed where several are served."),
  seed: z.int().min(0).optional().describe("Which episode. The same seed is the same episode; without one, any."),
  options: z.record(z.string(), z.json()).optional().describe("Options of the environment."),
});
const replySchema = z.strictObject({
  text: z.string().describe("Your reply, in exactly the format that the first turn asks for."),
});

export async function playTools(environments: Environments): Promise<McpTool[]> {
  const names = await environments.names();
  const which = names.length === 1 ? `Plays ${names[0]}.` : `Environments: ${names.join(", ")}.`;
  const schema = (input: z.ZodObject) => {
    const { $schema: _, ...rest } = z.toJSONSchema(input, { io: "input" });
    return rest as McpTool["inputSchema"];
  };
  return [
    {
      name: "start_episode",
      description: `Starts an episode of a visual world and shows what you see first. ${which}`,
      inputSchema: schema(startSchema),
    },
    {
      name: "reply",
      description:
        "Plays your reply in the episode under way, and shows what you see next, what it earned, and whether the episode is over.",
      inputSchema: schema(replySchema),
    },
  ];
}

/** Never throws. */
export async function playTool(name: string, given: unknown, seat: Seat): Promise<McpResult> {
  try {
    switch (name) {
      case "start_episode": {
        const { env, seed, options = {} } = startSchema.parse(given ?? {});
        return { content: contentOf(await seat.reset({ env, seed, options: options as JsonObject })) };
      }
      case "reply":
        return played(await seat.step(replySchema.parse(given ?? {}).text));
      default:
        return failed(`There is no tool ${JSON.stringify(name.slice(0, 100))}: the tools are start_episode and reply.`);
    }
  } catch (error) {
    if (!(error instanceof z.ZodError)) return failed(errorMessage(error));
    const wrong = error.issues.map(({ path, message }) => `${path.join(".") || "arguments"}: ${message}`);
    return failed(`The arguments of ${name} do not fit: ${wrong.join("; ")}.`);
  }
}

function failed(message: string): McpResult {
  return { content: [{ type: "text", text: message }], isError: true };
}

function played(parcel: Parcel): McpResult {
  const { reward, done, success } = parcel.data;
  const end =
    done === true
      ? ` The episode is over${typeof success === "boolean" ? `: ${success ? "success" : "no success"}` : ""}.`
      : "";
  const structuredContent = { reward, done, ...(typeof success === "boolean" && { success }) };
  return {
    content: [...contentOf(parcel), { type: "text", text: `Reward: ${reward}.${end}` }],
    structuredContent,
  };
}

/** Text and images in the order in which they are seen. */
function contentOf({ data, images }: Parcel): McpContent[] {
  const texts = String(data.obs).split("<image>");
  return texts.flatMap((text, i): McpContent[] => {
    const png = i > 0 ? images[i - 1] : undefined;
    return [
      ...(png === undefined
        ? []
        : [{ type: "image" as const, data: Buffer.from(png).toString("base64"), mimeType: "image/png" }]),
      ...(text.trim() === "" ? [] : [{ type: "text" as const, text }]),
    ];
  });
}
