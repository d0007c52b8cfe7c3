/**
 * From Tinker's losses to ours: sums over positions, nothing averaged. Targets come shifted by the client. A position whose target is a image
 * placeholder has no log-probability (0 is reported). Several targets a position are as many datums with the same input: the sum is the same.
 */
import { DataError } from "../../core/errors.ts";
import type { ModelInput } from "../../core/model-input.ts";
import type { Datum } from "../../engine/engine.ts";
import type { PolicyLoss } from "../../engine/losses.ts";
import { denseValues, type ReceivedTensor } from "../../tinker/messages.ts";
import type { LossFnConfig } from "../../tinker/types.ts";

const MAX_TARGETS = 64;

const LOSSES: Readonly<Record<string, (config: LossFnConfig) => PolicyLoss>> = {
  cross_entropy: () => ({ name: "cross-entropy" }),
  importance_sampling: () => ({ name: "importance-sampling" }),
  ppo: (config) => ({ name: "ppo", ...bounds(config, 0.8, 1.2) }),
  cispo: (config) => ({ name: "cispo", ...bounds(config, 0, 4) }),
  gspo: (config) => ({ name: "gspo", ...bounds(config, 0.8, 1.2) }),
  dro: (config) => {
    if (typeof config.beta !== "number") throw new DataError('The loss "dro" needs loss_fn_config beta, such as 0.05.');
    return { name: "dro", beta: config.beta };
  },
};
const KEYS = new Set(["clip_low_threshold", "clip_high_threshold", "beta"]);

export function lossOf(name: string, config: LossFnConfig): PolicyLoss {
  const make = Object.hasOwn(LOSSES, name) ? LOSSES[name] : undefined;
  if (make === undefined)
    throw new DataError(`This server has no loss "${name}". Its losses are ${Object.keys(LOSSES).join(", ")}.`);
  const unknown = Object.keys(config).find((key) => !KEYS.has(key));
  if (unknown !== undefined) throw new DataError(`loss_fn_config has no ${unknown} here.`);
  return make(config);
}

function bounds(config: LossFnConfig, low: number, high: number) {
  const read = (key: string, usual: number) => {
    const value = config[key] ?? usual;
    if (typeof value !== "number") throw new DataError(`loss_fn_config ${key} is a number.`);
    return value;
  };
  return { clipLow: read("clip_low_threshold", low), clipHigh: read("clip_high_threshold", high) };
}

export type Expanded = {
  /** 0: one target a position. */
  readonly columns: number;
  readonly datums: readonly Datum[];
};

export function expandDatum(
  input: ModelInput,
  inputs: ReadonlyMap<string, ReceivedTensor>,
  loss: PolicyLoss,
  vision: ReadonlySet<number>,
): Expanded {
  const { length } = input.ids;
  const dense = new Map([...inputs].map(([name, tensor]) => [name, { ...tensor, data: denseValues(tensor) }]));
  const targets = dense.get("target_tokens");
  if (targets === undefined) throw new DataError("A datum needs target_tokens in its loss_fn_inputs.");
  const columns = targets.shape.length === 2 ? (targets.shape[1] as number) : 0;
  if (targets.shape.length > 2 || targets.shape[0] !== length) {
    throw new DataError(`target_tokens is [${targets.shape}]; the model_input has ${length} positions.`);
  }
  if (columns > MAX_TARGETS) throw new DataError(`${columns} targets per position are more than ${MAX_TARGETS}.`);
  if (columns > 0 && loss.name !== "cross-entropy" && loss.name !== "importance-sampling") {
    throw new DataError(`The loss "${loss.name}" takes one target per position.`);
  }
  const wide = Math.max(columns, 1);
  const column = (name: string, k: number): Float32Array | undefined => {
    const found = dense.get(name);
    if (found === undefined) return undefined;
    if (found.data.length !== length * wide)
      throw new DataError(`${name} is [${found.shape}] but must have the shape of target_tokens.`);
    return Float32Array.from({ length }, (_, i) => found.data[i * wide + k] as number);
  };
  const need = (name: string, k: number): Float32Array => {
    const found = column(name, k);
    if (found === undefined) throw new DataError(`The loss "${loss.name}" needs ${name} in loss_fn_inputs.`);
    return found;
  };
  const datums = Array.from({ length: wide }, (_, k): Datum => {
    const ids = Int32Array.from({ length }, (_, i) => {
      const id = targets.data[i * wide + k] as number;
      return vision.has(id) ? -1 : id;
    });
    if (loss.name === "cross-entropy") {
      return { input, targets: ids, weights: column("weights", k) ?? Float32Array.from(ids, (id) => (id < 0 ? 0 : 1)) };
    }
    const advantages = need("advantages", k);
    const mask = loss.name === "gspo" ? column("sequence_ratio_mask", k) : undefined;
    if (mask !== undefined && advantages.some((advantage, i) => advantage !== 0 && mask[i] === 0)) {
      throw new DataError("gspo: an advantage lies outside sequence_ratio_mask.");
    }
    // What has no advantage has no term, except where a penalty or a mean counts it.
    const counts = (i: number) =>
      loss.name === "dro" ? true : mask === undefined ? advantages[i] !== 0 : mask[i] !== 0;
    const weights = column("weights", k) ?? Float32Array.from(ids, (id, i) => (counts(i) && id >= 0 ? 1 : 0));
    return { input, targets: ids, weights, advantages, oldLogprobs: need("logprobs", k) };
  });
  return { columns, datums };
}

/** The columns' log-probabilities side by side again. */
export function joinColumns(columns: number, parts: readonly Float32Array[]): Float32Array {
  if (columns === 0) return parts[0] as Float32Array;
  const length = parts[0]?.length ?? 0;
  return Float32Array.from({ length: length * columns }, (_, i) => parts[i % columns]?.[Math.floor(i / columns)] ?? 0);
}
