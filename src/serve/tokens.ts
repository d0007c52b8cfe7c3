/** `/tokenize` and `/detokenize`. */
import { z } from "zod";
import { json } from "../http/responses.ts";
import { chatRequest, readChat } from "../wire/chat.ts";
import { ApiError, integers, readFields } from "../wire/errors.ts";
import { readJsonBody } from "../wire/request.ts";
import type { Ask } from "./ask.ts";
import { renderIds } from "./chat.ts";

const flag = z.boolean().nullish();
const textSchema = z.looseObject({ prompt: z.string(), model: z.string().nullish(), return_token_strs: flag });
const idsSchema = z.looseObject({ tokens: integers, model: z.string().nullish() });

export async function answerTokenize({ backend, request }: Ask): Promise<Response> {
  const body = await readJsonBody(request);
  const { tokenizer } = backend.chat;
  const isChat = typeof body === "object" && body !== null && "messages" in body;
  const asked = isChat ? readChat(body) : readFields(textSchema, body);
  backend.resolve(asked.model);
  const ids = isChat
    ? (await renderIds(chatRequest(readChat(body)), backend, request)).ids
    : ((await backend.desk.encode([readFields(textSchema, body).prompt], request.signal))[0] as Int32Array);
  return json({
    count: ids.length,
    max_model_len: backend.contextTokens,
    tokens: [...ids],
    token_strs: asked.return_token_strs === true ? [...ids].map((id) => tokenizer.token(id) ?? "") : null,
  });
}

export async function answerDetokenize({ backend, request }: Ask): Promise<Response> {
  const { tokens, model } = readFields(idsSchema, await readJsonBody(request));
  backend.resolve(model);
  const wrong = tokens.findIndex((id) => id < 0);
  if (wrong >= 0) {
    throw new ApiError(400, `body.tokens.${wrong}: an id is 0 or more`, {
      type: "Bad Request",
      param: `body.tokens.${wrong}`,
    });
  }
  return json({ prompt: backend.chat.tokenizer.decode(tokens) });
}
