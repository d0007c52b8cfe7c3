/** The vision tower of Qwen3-VL: patches of images to tokens, and the deepstack levels that the language model adds to its first layers. */
import type { ModelConfig } from "../../model/config.ts";
import { VISION_PREFIX } from "../../model/parameters.ts";
import { EngineError } from "../errors.ts";
import type { F32 } from "./kernels/api.ts";
import * as op from "./ops.ts";
import { positionTaps, VisionRotary } from "./positions.ts";
import type { Tape, Tensor } from "./tape.ts";

/** An image: patches [gridH*gridW, 3*frames*size*size] in merge-block order. */
export type ImagePatches = { readonly patches: F32; readonly gridH: number; readonly gridW: number };

/** Encoded images, one below the other. */
export type Encoded = {
  readonly main: Tensor;
  readonly deepstack: readonly Tensor[];
  readonly starts: readonly number[];
};

type Norm = { readonly weight: op.Param; readonly bias: op.Param };
type Block = {
  readonly norm1: Norm;
  readonly qkv: op.Linear;
  readonly proj: op.Linear;
  readonly norm2: Norm;
  readonly fc1: op.Linear;
  readonly fc2: op.Linear;
};
type Merger = { readonly norm: Norm; readonly fc1: op.Linear; readonly fc2: op.Linear };

/** Of the vision tower's layer norms; not in config.json. */
const VISION_EPS = 1e-6;

export class VisionTower {
  readonly #config: ModelConfig["vision"];
  readonly #patchEmbed: op.Linear;
  readonly #positionTable: op.Param;
  readonly #blocks: readonly Block[];
  readonly #merger: Merger;
  readonly #deepstackMergers: readonly Merger[];
  readonly #rotary: VisionRotary;

  constructor(
    vision: ModelConfig["vision"],
    param: (name: string) => op.Param,
    linear: (module: string, out: number, from: number, bias: boolean) => op.Linear,
  ) {
    const norm = (name: string): Norm => ({ weight: param(`${name}.weight`), bias: param(`${name}.bias`) });
    this.#config = vision;
    this.#rotary = new VisionRotary(vision.ropeTheta, vision.hiddenSize / vision.heads);
    const eyes = VISION_PREFIX;
    const width = vision.hiddenSize;
    this.#patchEmbed = linear(
      `${eyes}patch_embed.proj`,
      width,
      3 * vision.temporalPatchSize * vision.patchSize ** 2,
      true,
    );
    this.#positionTable = param(`${eyes}pos_embed.weight`);
    this.#blocks = Array.from({ length: vision.depth }, (_, i) => {
      const block = `${eyes}blocks.${i}.`;
      return {
        norm1: norm(`${block}norm1`),
        qkv: linear(`${block}attn.qkv`, 3 * width, width, true),
        proj: linear(`${block}attn.proj`, width, width, true),
        norm2: norm(`${block}norm2`),
        fc1: linear(`${block}mlp.linear_fc1`, vision.intermediateSize, width, true),
        fc2: linear(`${block}mlp.linear_fc2`, width, vision.intermediateSize, true),
      };
    });
    const merged = width * vision.mergeSize ** 2;
    const merger = (name: string): Merger => ({
      norm: norm(`${name}.norm`),
      fc1: linear(`${name}.linear_fc1`, merged, merged, true),
      fc2: linear(`${name}.linear_fc2`, vision.outHiddenSize, merged, true),
    });
    this.#merger = merger(`${eyes}merger`);
    this.#deepstackMergers = vision.deepstackIndexes.map((_, i) => merger(`${eyes}deepstack_merger_list.${i}`));
  }

  encode(tape: Tape, images: readonly ImagePatches[]): Encoded {
    const vision = this.#config;
    const { mergeSize: merge, heads } = vision;
    const headDim = vision.hiddenSize / heads;
    const side = Math.sqrt(vision.positionEmbeddings);
    const total = images.reduce((sum, { gridH, gridW }) => sum + gridH * gridW, 0);
    const cos = tape.take((total * headDim) / 2);
    const sin = tape.take((total * headDim) / 2);
    const tapIds = new Int32Array(total * 4);
    const tapWeights = tape.take(total * 4);
    const segments = new Int32Array(images.length * 2);
    const starts: number[] = [];
    let start = 0;
    for (const [i, { patches, gridH, gridW }] of images.entries()) {
      const count = gridH * gridW;
      if (gridH % merge !== 0 || gridW % merge !== 0 || patches.length !== count * this.#patchEmbed.in) {
        throw new EngineError(
          `An image of ${gridH}×${gridW} patches must divide into blocks of ${merge} and have ${this.#patchEmbed.in} numbers for each patch.`,
        );
      }
      this.#rotary.fill(cos.subarray((start * headDim) / 2), sin.subarray((start * headDim) / 2), gridH, gridW, merge);
      positionTaps(tapIds.subarray(start * 4), tapWeights.subarray(start * 4), side, gridH, gridW, merge);
      segments.set([start, count], i * 2);
      starts.push(start / merge ** 2);
      start += count;
    }

    let x = op.embedPatches(
      tape,
      images.map(({ patches }) => patches),
      this.#patchEmbed,
    );
    op.addMixed(tape, x, this.#positionTable, tapIds, tapWeights, 4);
    const shape = { heads, kvHeads: heads, headDim, causal: false };
    const deepstack: Tensor[] = [];
    for (const [i, block] of this.#blocks.entries()) {
      const attended = op.layerNorm(tape, x, block.norm1.weight, block.norm1.bias, VISION_EPS);
      const qkv = op.linear(tape, attended, block.qkv);
      tape.drop(attended);
      // Queries and keys are neighbours: one call turns both.
      op.rope(tape, qkv, cos, sin, 2 * heads, headDim);
      const at = (part: number) => ({ tensor: qkv, at: part * vision.hiddenSize });
      const mixed = op.attention(tape, at(0), at(1), at(2), segments, shape);
      tape.drop(qkv);
      x = op.addLinear(tape, x, mixed, block.proj);
      tape.drop(mixed);
      const normed = op.layerNorm(tape, x, block.norm2.weight, block.norm2.bias, VISION_EPS);
      const wide = op.linear(tape, normed, block.fc1);
      tape.drop(normed);
      const active = op.gelu(tape, wide, "tanh");
      tape.drop(wide);
      x = op.addLinear(tape, x, active, block.fc2);
      tape.drop(active);
      const level = vision.deepstackIndexes.indexOf(i);
      const merger = this.#deepstackMergers[level];
      if (merger !== undefined) deepstack.push(this.#merge(tape, x, merger));
    }
    const main = this.#merge(tape, x, this.#merger);
    tape.drop(x);
    return { main, deepstack, starts };
  }

  /** Blocks of patches to tokens. The norm's size says whether it works on patches or on blocks. */
  #merge(tape: Tape, x: Tensor, { norm, fc1, fc2 }: Merger): Tensor {
    const normed = op.layerNorm(tape, x, norm.weight, norm.bias, VISION_EPS, fc1.in);
    const wide = op.linear(tape, normed, fc1);
    tape.drop(normed);
    const active = op.gelu(tape, wide, "erf");
    tape.drop(wide);
    const y = op.linear(tape, active, fc2);
    tape.drop(active);
    return y;
  }
}
