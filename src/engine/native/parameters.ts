/**
 * The numbers that are learned: one flat shared array with a named view for each parameter, so that worker threads see the same
 * weights and an optimizer walks over ranges. A gradient is another flat array of the same layout; every shard of a batch has its own and
 * they are summed in a fixed order. An adapter (lora.ts) is a Parameters of its own beside the base.
 */
import { DataError } from "../../core/errors.ts";
import type { ModelConfig } from "../../model/config.ts";
import { elementCount, LANGUAGE_PREFIX, parameterShapes, VISION_PREFIX } from "../../model/parameters.ts";
import type { Tensors } from "../../model/safetensors.ts";
import type { ParameterGroup } from "../engine.ts";
import type { F32 } from "./kernels/api.ts";

export type Parameter = {
  readonly name: string;
  readonly shape: readonly number[];
  /** In floats, from the start of the flat array. */
  readonly offset: number;
  readonly size: number;
  readonly group: ParameterGroup;
  /** A hidden matrix of a block or merger: what Muon orthogonalises and weight decay shrinks. */
  readonly matrix: boolean;
  readonly trainable: boolean;
};

export type Head = "lm" | "value";
/** "vision" holds back the vision tower and its mergers, "language" the embedding, the layers and the language head. */
export type Freeze = "vision" | "language";

export const VALUE_HEAD = "score.weight";
/** Parameters start on 64-byte lines. */
const LINE = 16;

export class Parameters {
  readonly layout: readonly Parameter[];
  readonly flat: F32;
  readonly buffer: SharedArrayBuffer;
  readonly #byName: ReadonlyMap<string, Parameter>;

  /** `buffer`: values that another thread made for the same layout. */
  constructor(layout: readonly Parameter[], buffer?: SharedArrayBuffer) {
    const last = layout.at(-1);
    const floats = last === undefined ? 0 : alignUp(last.offset + last.size);
    this.layout = layout;
    this.buffer = buffer ?? new SharedArrayBuffer(floats * 4);
    this.flat = new Float32Array(this.buffer, 0, floats);
    this.#byName = new Map(layout.map((parameter) => [parameter.name, parameter]));
  }

  find(name: string): Parameter | undefined {
    return this.#byName.get(name);
  }

  /** The view of a parameter in `flat`: the values, or an array of the same layout. */
  view(name: string, flat: F32 = this.flat): F32 {
    const parameter = this.find(name);
    if (parameter === undefined) throw new DataError(`There is no parameter "${name}" in this model.`);
    return flat.subarray(parameter.offset, parameter.offset + parameter.size);
  }

  /** Zeros of this layout, in shared memory: a gradient or an optimizer's state. */
  like(buffer?: SharedArrayBuffer): F32 {
    return new Float32Array(buffer ?? new SharedArrayBuffer(this.flat.byteLength));
  }

  /** Copies values in. Every parameter must be there in its shape, except those named in `optional`; nothing may be left over. */
  load(tensors: Tensors, optional: readonly string[] = [], flat: F32 = this.flat): void {
    for (const [name] of tensors) {
      if (!this.#byName.has(name) && !optional.includes(name)) {
        throw new DataError(
          `The weights hold "${name}", which this model does not have. Check that config.json belongs to them.`,
        );
      }
    }
    for (const { name, shape } of this.layout) {
      const tensor = tensors.get(name);
      if (tensor === undefined) {
        if (optional.includes(name)) continue;
        throw new DataError(`The weights lack "${name}". Check that config.json belongs to them.`);
      }
      if (tensor.shape.join() !== shape.join()) {
        throw new DataError(
          `"${name}" has shape [${tensor.shape.join(", ")}] in the weights and [${shape.join(", ")}] in the model. ` +
            "Check that config.json belongs to them.",
        );
      }
      this.view(name, flat).set(tensor.data);
    }
  }

  /** Named tensors over `flat` (views, not copies), for writing. */
  tensors(flat: F32 = this.flat): Tensors {
    return new Map(this.layout.map(({ name, shape }) => [name, { shape, data: this.view(name, flat) }]));
  }
}

/** Lays parameters out one after the other. */
export function layOut(parameters: readonly Omit<Parameter, "offset" | "size">[]): Parameter[] {
  let offset = 0;
  return parameters.map((parameter) => {
    const size = elementCount(parameter.shape);
    const placed = { ...parameter, offset, size };
    offset = alignUp(offset + size);
    return placed;
  });
}

/** The parameters of a model. `frozen`: none is trained (an adapter is). */
export function modelLayout(
  config: ModelConfig,
  options: { readonly head: Head; readonly freeze?: Freeze; readonly frozen?: boolean },
): Parameter[] {
  const shapes = new Map(parameterShapes(config));
  if (options.head === "value") {
    shapes.delete("lm_head.weight");
    shapes.set(VALUE_HEAD, [1, config.text.hiddenSize]);
  }
  return layOut(
    [...shapes].map(([name, shape]) => {
      const group = groupOf(name);
      return {
        name,
        shape,
        group,
        matrix: isMatrix(name, shape),
        trainable: !options.frozen && !isFrozen(name, group, options.freeze),
      };
    }),
  );
}

function groupOf(name: string): ParameterGroup {
  if (name.startsWith(VISION_PREFIX)) return name.includes("merger") ? "merger" : "vision";
  if (name === "lm_head.weight" || name === VALUE_HEAD) return "head";
  return name === `${LANGUAGE_PREFIX}embed_tokens.weight` ? "embedding" : "language";
}

function isMatrix(name: string, shape: readonly number[]): boolean {
  return shape.length === 2 && !/embed|^lm_head|^score/.test(name);
}

function isFrozen(name: string, group: ParameterGroup, freeze: Freeze | undefined): boolean {
  const sees = group === "vision" || group === "merger";
  return freeze === "vision" ? sees : freeze === "language" ? !sees && name !== VALUE_HEAD : false;
}

function alignUp(floats: number): number {
  return Math.ceil(floats / LINE) * LINE;
}
