/** Shared weights as named parameters, the same in every thread. */
import type { ModelRef } from "./jobs.ts";
import { adapterLayout } from "./lora.ts";
import { modelLayout, Parameters } from "./parameters.ts";

/** Those of the base, and of the adapter if there is one: then the adapter is what is trained. */
export function viewParameters(ref: Pick<ModelRef, "config" | "head" | "freeze" | "weights" | "lora">): {
  readonly base: Parameters;
  readonly adapter: Parameters | undefined;
} {
  const options = { head: ref.head, ...(ref.freeze && { freeze: ref.freeze }) };
  return {
    base: new Parameters(modelLayout(ref.config, { ...options, frozen: ref.lora !== undefined }), ref.weights),
    adapter: ref.lora && new Parameters(adapterLayout(ref.config, ref.lora.spec, options), ref.lora.weights),
  };
}
