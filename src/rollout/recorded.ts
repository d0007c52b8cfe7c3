/**
 * Demonstrations from recorded episodes of agents that bring their own loop: each conversation of an episode is a row, with its tools, its messages as they were
 * sent and the model's replies as they were said. Replies that a conversation shares with the one it branched off from are learned there, and are context here.
 */
import { DataError } from "../core/errors.ts";
import type { Image } from "../core/image.ts";
import type { JsonObject } from "../core/json.ts";
import { assistant, type Message, type Part, type Role } from "../core/message.ts";
import type { Demo } from "../envs/demos.ts";
import type { RequestMessage, TrajectoryRecord } from "../run/trajectories.ts";

/** The environment of episodes whose agents somebody else started. */
export const RECORDED_ENV = "recorded";

/** Undefined: the frame was not stored. */
export type ReadFrame = (hash: string) => Promise<Image | undefined>;

type Thread = { readonly messages: Message[]; readonly own: boolean[]; variables?: JsonObject };

/** None of an episode whose turns were no requests. Throws where a frame is missing. */
export async function recordedDemos(record: TrajectoryRecord, readFrame: ReadFrame): Promise<Demo[]> {
  const threads: Thread[] = [];
  for (const { request, reply } of record.turns) {
    if (request === undefined) continue;
    const thread = threads[request.conversation] ?? branchOf(record, threads, request.conversation);
    threads[request.conversation] = thread;
    if (request.variables !== undefined) thread.variables = request.variables;
    for (const message of request.messages) thread.messages.push(await messageOf(message, record.id, readFrame));
    thread.messages.push(assistant(reply));
    thread.own.push(true);
  }
  const { seed, reward, success } = record;
  // Nobody can play it again.
  const env = record.env === RECORDED_ENV ? "" : record.env;
  return threads.flatMap(({ messages, own, variables = {} }) => ({
    ...{ env, seed, reward, success, messages, turns: own.filter(Boolean).length, variables },
    ...(own.includes(false) && { learn: own }),
  }));
}

/** What a conversation begins with: the messages it shares with another, up to the last answer among them. */
function branchOf({ program }: TrajectoryRecord, threads: readonly Thread[], conversation: number): Thread {
  const { parent, at = 0 } = program?.branches?.[conversation] ?? {};
  const from = parent === undefined ? undefined : threads[parent];
  if (from === undefined) return { messages: [], own: [] };
  const shared = from.messages.slice(0, at);
  const messages = shared.slice(0, shared.findLastIndex(({ role }) => role === "assistant") + 1);
  const own = messages.filter(({ role }) => role === "assistant").map(() => false);
  return { messages, own, ...(from.variables && { variables: from.variables }) };
}

async function messageOf(message: RequestMessage, id: string, readFrame: ReadFrame): Promise<Message> {
  const { role, text, frames, parts } = message;
  const [only] = frames;
  const content = parts ?? (only === undefined ? [text] : [{ frame: only }]);
  return { role: role as Role, content: await Promise.all(content.map((part) => partOf(part, id, readFrame))) };
}

async function partOf(part: string | { readonly frame: string }, id: string, readFrame: ReadFrame): Promise<Part> {
  if (typeof part === "string") return { type: "text", text: part };
  const image = await readFrame(part.frame);
  if (image !== undefined) return { type: "image", image };
  throw new DataError(`Episode ${id}: its frame ${part.frame} is not in the run folder, so it can't be learned from.`);
}
