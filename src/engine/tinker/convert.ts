/** Our inputs and batches in the API's form: images as PNG files, losses as sums without weights where the server has none. */
import { ConfigError } from "../../core/errors.ts";
import type { Image } from "../../core/image.ts";
import type { ModelInput } from "../../core/model-input.ts";
import { encodePng } from "../../images/png.ts";
import * as api from "../../tinker/index.ts";
import type { Datum, LoraSpec, OptimizerParams } from "../engine.ts";
import type { PolicyLoss } from "../losses.ts";

/** A frame is shown turn after turn. */
const files = new WeakMap<Image, Uint8Array>();

export function inputOf({ ids, images }: ModelInput): api.ModelInput {
  const chunks: api.ModelInputChunk[] = [];
  let at = 0;
  const text = (to: number) => {
    if (to > at) chunks.push({ type: "encoded_text", tokens: ids.subarray(at, to) });
  };
  for (const { start, length, image } of images) {
    text(start);
    const data = files.get(image) ?? encodePng(image);
    files.set(image, data);
    chunks.push({ type: "image", data, format: "png", expected_tokens: length });
    at = start + length;
  }
  text(ids.length);
  return new api.ModelInput(chunks);
}

/** `own`: one of Saccade's servers, which takes weights beside advantages and −1 for positions without a target. */
export function datumOf(datum: Datum, loss: PolicyLoss["name"], own: boolean): api.Datum {
  const { targets, weights, advantages, oldLogprobs } = datum;
  const model_input = inputOf(datum.input);
  const target_tokens = own ? targets : targets.map((id) => Math.max(id, 0));
  if (loss === "cross-entropy") return { model_input, loss_fn_inputs: { target_tokens, weights } };
  const counts = (values: Float32Array | undefined) =>
    Float32Array.from(weights, (weight, i) => (weight === 0 ? 0 : (values?.[i] ?? 0)));
  const logprobs = counts(oldLogprobs);
  if (own) return { model_input, loss_fn_inputs: { target_tokens, weights, advantages: counts(advantages), logprobs } };
  const folded = counts(advantages).map((advantage, i) => advantage * (weights[i] as number));
  return {
    model_input,
    loss_fn_inputs: {
      target_tokens,
      advantages: folded,
      logprobs,
      ...(loss === "gspo" && { sequence_ratio_mask: weights.map((weight) => (weight === 0 ? 0 : 1)) }),
    },
  };
}

/** Tinker's API spells losses with underscores. */
export function wireName(loss: PolicyLoss["name"]): string {
  return loss.replaceAll("-", "_");
}

export function lossConfig(loss: PolicyLoss): Record<string, number> | undefined {
  if ("entropy" in loss && loss.entropy) throw new ConfigError("Tinker has no entropy bonus: leave loss.entropy out.");
  if ("kl" in loss && loss.kl) throw new ConfigError('Tinker\'s losses have no KL term: set kl.as to "reward".');
  if (loss.name === "dro") return { beta: loss.beta };
  if (!("clipLow" in loss)) return undefined;
  if ("dualClip" in loss && loss.dualClip !== undefined)
    throw new ConfigError("Tinker's ppo has no dual clip: leave loss.dualClip out.");
  return { clip_low_threshold: loss.clipLow, clip_high_threshold: loss.clipHigh };
}

/** With every constant named: the API's defaults are others than ours. */
export function adamOf(optimizer: OptimizerParams): Required<api.AdamParams> {
  if (optimizer.name !== "adamw")
    throw new ConfigError(`Tinker has no optimizer "${optimizer.name}": set optimizer.name to adamw.`);
  if (optimizer.rates) throw new ConfigError("Tinker has one learning rate for all: leave optimizer.rates out.");
  const { learningRate, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weightDecay = 0, maxGradNorm = 0 } = optimizer;
  return {
    learning_rate: learningRate,
    beta1,
    beta2,
    eps: epsilon,
    weight_decay: weightDecay,
    grad_clip_norm: maxGradNorm,
  };
}

/** The alpha of every Tinker adapter; it is not on the wire. */
export const LORA_ALPHA = 32;
const ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"];
const MLP = ["gate_proj", "up_proj", "down_proj"];

export function loraOf(lora: LoraSpec | undefined): api.LoraConfig {
  if (lora === undefined) return { rank: 0 };
  const { rank, alpha, targets } = lora;
  if (alpha !== LORA_ALPHA)
    throw new ConfigError(`Tinker's adapters have alpha ${LORA_ALPHA}: set lora.alpha to ${LORA_ALPHA}.`);
  if (targets === undefined) return { rank };
  const has = (part: readonly string[]) => part.every((name) => targets.includes(name));
  const [attention, mlp] = [has(ATTENTION), has(MLP)];
  const known = [...(attention ? ATTENTION : []), ...(mlp ? MLP : [])];
  if (known.length === 0 || targets.some((name) => !known.includes(name))) {
    throw new ConfigError(
      `Tinker adapts attention (${ATTENTION.join(", ")}), the MLP (${MLP.join(", ")}) or both: set lora.targets to that, or leave it out.`,
    );
  }
  return { rank, train_attn: attention, train_mlp: mlp, train_unembed: false };
}
