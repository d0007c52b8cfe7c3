/** `/tokenize` and `/detokenize`. */
import { z } from "zod";
import { json } from "../http/responses.ts";
import { type Ask, readJsonBody } from "./ask.ts";
import { chatSchema, renderChat } from "./chat.ts";
import { readFields } from "./errors.ts";

const flag = z.boolean().nullish();
const textSchema = z.looseObject({ prompt: z.string(), model: z.string().nullish(), return_token_strs: flag });
const idsSchema = z.looseObject({ tokens: z.array(z.int().min(0)), model: z.string().nullish() });

export async function answerTokenize({ backend, request }: Ask): Promise<Response> {
  const body = await readJsonBody(request);
  const { tokenizer } = backend.chat;
  const isChat = typeof body === "object" && body !== null && "messages" in body;
  const asked = isChat ? readFields(chatSchema, body) : readFields(textSchema, body);
  backend.resolve(asked.model);
  const ids = isChat
    ? (await renderChat(readFields(chatSchema, body), backend)).ids
    : tokenizer.encode(readFields(textSchema, body).prompt);
  return json({
    count: ids.length,
    max_model_len: backend.contextLength,
    tokens: [...ids],
    token_strs: asked.return_token_strs === true ? [...ids].map((id) => tokenizer.token(id) ?? "") : null,
  });
}

export async function answerDetokenize({ backend, request }: Ask): Promise<Response> {
  const { tokens, model } = readFields(idsSchema, await readJsonBody(request));
  backend.resolve(model);
  return json({ prompt: backend.chat.tokenizer.decode(tokens) });
}
