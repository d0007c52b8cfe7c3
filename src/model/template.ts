/**
 * Chat templates: the Jinja text that turns messages into one string. Ours is ChatML in the style of Qwen3-VL; any other
 * Hugging Face template of that kind (`chat_template.jinja` of a downloaded folder) renders through the same door.
 */
import { Template } from "@huggingface/jinja";
import { ConfigError, DataError, errorMessage } from "../core/errors.ts";
import type { Json } from "../core/json.ts";

/** A message as templates know it. */
export type TemplateMessage = { readonly role: string; readonly content: string | readonly TemplatePart[] } & {
  readonly [key: string]: Json;
};
export type TemplatePart = { readonly type: "text"; readonly text: string } | { readonly type: "image" };

/** Renders messages; `generationPrompt` opens the assistant's next turn at the end; `more` is what else a template may read, such as `tools`. */
export type ChatTemplate = (
  messages: readonly TemplateMessage[],
  generationPrompt: boolean,
  more?: Readonly<Record<string, Json>>,
) => string;

/** What `saccade model create` writes as `chat_template.jinja`. */
export const CHAT_TEMPLATE = `{#- Saccade: ChatML turns in the style of Qwen3-VL. A picture is one <|image_pad|>, repeated later for each of its tokens. -#}
{%- macro say(content) -%}
{%- if content is string -%}
{{- content -}}
{%- else -%}
{%- for part in content -%}
{%- if part.type == 'image' -%}
{{- '<|vision_start|><|image_pad|><|vision_end|>' -}}
{%- elif part.type == 'text' -%}
{{- part.text -}}
{%- endif -%}
{%- endfor -%}
{%- endif -%}
{%- endmacro -%}
{%- if tools -%}
{{- '<|im_start|>system\\nFunctions you may call, one JSON object a line:\\n<tools>' -}}
{%- for tool in tools -%}
{{- '\\n' + tool | tojson -}}
{%- endfor -%}
{{- '\\n</tools>\\nTo call one, write <tool_call>{"name": its name, "arguments": an object}</tool_call>.<|im_end|>\\n' -}}
{%- endif -%}
{%- for message in messages -%}
{%- if message.role == 'tool' -%}
{{- '<|im_start|>user\\n<tool_response>\\n' + say(message.content) + '\\n</tool_response>' -}}
{%- else -%}
{{- '<|im_start|>' + message.role + '\\n' + say(message.content) -}}
{%- endif -%}
{%- for call in message.tool_calls or [] -%}
{{- '\\n<tool_call>\\n' + call.function | tojson + '\\n</tool_call>' -}}
{%- endfor -%}
{{- '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
`;

/** Compiles a template. `variables` are the tokens templates may mention (`eos_token`, …); `file` begins the messages. */
export function compileTemplate(
  source: string,
  variables: Readonly<Record<string, string>> = {},
  file = "chat_template.jinja",
): ChatTemplate {
  let template: Template;
  try {
    template = new Template(source);
  } catch (error) {
    throw new ConfigError(`${file} is not a chat template that can be used: ${errorMessage(error)}.`);
  }
  return (messages, generationPrompt, more = {}) => {
    try {
      return template.render({ ...more, ...variables, messages, add_generation_prompt: generationPrompt });
    } catch (error) {
      throw new DataError(
        `${file} can't render a conversation of ${messages.map((message) => message.role).join(", ") || "no messages"}: ` +
          `${errorMessage(error)}. Send messages in the order this model's template allows.`,
      );
    }
  };
}
