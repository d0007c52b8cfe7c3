/** Messages between the server and its desk threads. */
import type { JsonObject } from "../core/json.ts";
import type { PromptOptions } from "../model/renderer.ts";

/** Of one image: a small file can unpack to a very large image. */
export const MAX_PIXELS = 16 * 1024 * 1024;
/** Of one text, and of all texts of a request. */
export const MAX_CHARACTERS = 2 ** 21;
export const MAX_REQUEST_CHARACTERS = 2 ** 23;

export type DeskData = { readonly folder: string; readonly contextTokens: number };

export type DeskJob =
  | { readonly kind: "encode"; readonly texts: readonly string[] }
  | {
      readonly kind: "render";
      readonly messages: readonly JsonObject[];
      readonly options: PromptOptions;
    }
  | { readonly kind: "image"; readonly file: Uint8Array }
  | { readonly kind: "features"; readonly image: Decoded };

export type Encoded = { readonly ids: readonly Int32Array[] };
/** A prompt whose images are still encoded. */
export type Rendered = {
  readonly ids: Int32Array;
  readonly places: readonly { readonly start: number; readonly length: number }[];
  readonly files: readonly Uint8Array[];
};
/** Never larger than the model sees it; the hash is that of the image as it was sent. */
export type Decoded = {
  readonly width: number;
  readonly height: number;
  readonly data: Uint8Array;
  readonly hash: string;
};

/** A processed image on vLLM's wire, and all of it but the pixels. */
export type Processed = { readonly item: string; readonly metadata: string };

type Results = { encode: Encoded; render: Rendered; image: Decoded; features: Processed };
export type DeskResult<J extends DeskJob> = Results[J["kind"]];

export type DeskCall = { readonly id: number; readonly job: DeskJob };
export type DeskReply = { readonly id: number } & (
  | { readonly result: Results[keyof Results] }
  /** `isOurs`: thrown on purpose, about the request. */
  | { readonly error: { readonly message: string; readonly isOurs: boolean } }
);
