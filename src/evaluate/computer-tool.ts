/**
 * A hosted model's own computer tool. OpenAI's models click through a tool of the Responses API whose calls are not text: this stands between the client and the
 * provider and turns them into what the protocol `computer_use` reads, and the conversation back into calls with their screenshots. Their coordinates are pixels of
 * the image that was sent; the world's are those of its grid, as the prompt says them. So a click lands where the model pointed, whatever the scale and size.
 */
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { writeCall } from "../envs/protocols/tool-text.ts";

type Size = { readonly width: number; readonly height: number };

/** As `computer_use` writes it for the model. */
const RESOLUTION = /resolution is (\d+)x(\d+)/;
const CALL_ID = /"call_id":\s*"([^"]+)"/;

/** `fetch` for a client of the Responses API, whose requests get the tool. */
export function withComputerTool(send: typeof fetch): typeof fetch {
  /** The items of an answer, by the call in them: models that think want their thoughts back with their calls. */
  const answers = new Map<string, readonly JsonObject[]>();
  return async (input, init) => {
    const asked = JSON.parse(String(init?.body ?? "{}")) as JsonObject;
    const { body, image, grid } = request(asked, answers);
    const response = await send(input, { ...init, body: JSON.stringify(body) });
    const said = await response.text();
    const headers = new Headers(response.headers);
    for (const name of ["content-length", "content-encoding", "transfer-encoding"]) headers.delete(name);
    const answer = response.ok ? readJson(said) : undefined;
    const text = answer === undefined ? said : JSON.stringify(reply(answer, answers, image, grid));
    return new Response(text, { status: response.status, statusText: response.statusText, headers });
  };
}

function readJson(text: string): JsonObject | undefined {
  try {
    const value = JSON.parse(text) as Json;
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

const objects = (value: Json | undefined): JsonObject[] => (Array.isArray(value) ? value.filter(isJsonObject) : []);
const textOf = ({ content }: JsonObject): string =>
  typeof content === "string"
    ? content
    : objects(content)
        .map(({ text }) => String(text ?? ""))
        .join("\n");

function request(asked: JsonObject, answers: ReadonlyMap<string, readonly JsonObject[]>) {
  const items = objects(asked.input);
  const isTold = ({ role }: JsonObject) => role === "system" || role === "developer";
  const told = items.filter(isTold).map(textOf).join("\n") + String(asked.instructions ?? "");
  const [, columns, rows] = RESOLUTION.exec(told) ?? [];
  const input: JsonObject[] = [];
  let image: Size | undefined;
  let open: JsonObject | undefined;
  for (const item of items) {
    // What they say of a function is about one that this model does not have.
    if (isTold(item)) continue;
    if (item.role === "assistant") {
      const [, id = ""] = CALL_ID.exec(textOf(item)) ?? [];
      const known = answers.get(id);
      input.push(...(known ?? [item]));
      open = known?.findLast(({ type }) => type === "computer_call");
      continue;
    }
    const parts = objects(item.content);
    const shown = parts.findLast(({ type }) => type === "input_image");
    if (shown !== undefined) image = pngSize(String(shown.image_url));
    if (open === undefined || shown === undefined) {
      input.push(item);
      continue;
    }
    const checks = objects(open.pending_safety_checks);
    input.push({
      type: "computer_call_output",
      call_id: open.call_id ?? "",
      output: { type: "computer_screenshot", image_url: shown.image_url ?? "" },
      ...(checks.length > 0 && { acknowledged_safety_checks: checks }),
    });
    open = undefined;
    const rest = parts.filter((part) => part !== shown && String(part.text ?? "") !== "");
    if (rest.length > 0) input.push({ ...item, content: rest });
  }
  const preview = /computer-use-preview/.test(String(asked.model));
  const { width = 1024, height = 768 } = image ?? {};
  const tool = preview
    ? { type: "computer_use_preview", environment: "browser", display_width: width, display_height: height }
    : { type: "computer" };
  const { instructions: _, ...rest } = asked;
  return {
    body: { ...rest, input, tools: [tool], ...(preview && { truncation: "auto" }) },
    image: image ?? { width, height },
    grid: columns === undefined ? undefined : { width: Number(columns), height: Number(rows) },
  };
}

/** The answer with its calls as text. One without a call ends the episode: the model thinks that it is done. */
function reply(
  answer: JsonObject,
  answers: Map<string, readonly JsonObject[]>,
  image: Size,
  grid: Size | undefined,
): JsonObject {
  const output = objects(answer.output);
  if (!Array.isArray(answer.output) || answer.status === "incomplete") return answer;
  const scale = { x: (grid?.width ?? image.width) / image.width, y: (grid?.height ?? image.height) / image.height };
  const calls = output.filter(({ type }) => type === "computer_call");
  const said = calls.flatMap((call) => {
    const id = String(call.call_id ?? "");
    answers.set(id, output);
    const actions = Array.isArray(call.actions) ? objects(call.actions) : objects([call.action ?? null]);
    return actions.map((action) => writeCall("computer_use", { ...scaled(action, scale), call_id: id }, "qwen"));
  });
  const refused = output.some((item) => objects(item.content).some(({ type }) => type === "refusal"));
  if (calls.length === 0 && !refused) {
    said.push(writeCall("computer_use", { action: "terminate", status: "success" }, "qwen"));
  }
  const message = {
    type: "message",
    id: `msg_${String(answer.id ?? "computer")}`,
    status: "completed",
    role: "assistant",
    content: [{ type: "output_text", text: said.join("\n"), annotations: [], logprobs: [] }],
  };
  const kept = output.filter(({ type }) => type !== "computer_call");
  return { ...answer, output: [...kept, ...(said.length > 0 ? [message] : [])] };
}

/** A pixel of the image as a place of the world's grid: the cell that holds the pixel's middle. */
function scaled(action: JsonObject, scale: { readonly x: number; readonly y: number }): JsonObject {
  const place = (value: Json | undefined, by: number) => Math.floor((Math.floor(Number(value)) + 0.5) * by);
  const { x, y, path } = action;
  return {
    ...action,
    ...(typeof x === "number" && { x: place(x, scale.x) }),
    ...(typeof y === "number" && { y: place(y, scale.y) }),
    ...(Array.isArray(path) && {
      path: objects(path).map((point) => ({ x: place(point.x, scale.x), y: place(point.y, scale.y) })),
    }),
  };
}

/** Of the PNG in a data URL: width and height stand at fixed places of its header. */
function pngSize(url: string): Size | undefined {
  const header = Buffer.from(url.slice(url.indexOf(",") + 1, url.indexOf(",") + 1 + 44), "base64");
  if (header.length < 24 || header.toString("latin1", 1, 4) !== "PNG") return undefined;
  return { width: header.readUInt32BE(16), height: header.readUInt32BE(20) };
}
