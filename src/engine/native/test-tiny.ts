/** Random tiny models and sequences for tests: every shape differs from its neighbours, so that a swapped axis can't pass. */
import { NumpyRandom } from "../../core/random-numpy.ts";
import { checkConfig, type ModelConfig } from "../../model/config.ts";
import type { F32 } from "./kernels/api.ts";
import type { PackedBatch, PackedSequence } from "./network.ts";
import { type Freeze, type Head, modelLayout, Parameters } from "./parameters.ts";
import type { ImagePatches } from "./vision-tower.ts";

const VOCAB = 61;
const IMAGE_TOKEN = 57;

export function tinyConfig(seed: number): ModelConfig {
  const random = new NumpyRandom(seed);
  const sections = [
    [2, 1, 1],
    [4, 2, 2],
    [4, 4, 4],
    [6, 5, 5],
  ] as const;
  const mropeSection = random.choice(sections);
  const kvHeads = random.integers(1, 3);
  const hiddenSize = random.choice([24, 40, 48]);
  const depth = random.integers(1, 4);
  const layers = random.integers(1, 4);
  const visionHeads = random.integers(1, 4);
  const levels = Math.min(random.integers(0, 3), layers, depth);
  return checkConfig({
    vision: {
      depth,
      hiddenSize: visionHeads * random.choice([8, 12, 16]),
      intermediateSize: random.choice([20, 36]),
      heads: visionHeads,
      patchSize: 4,
      temporalPatchSize: 2,
      mergeSize: 2,
      outHiddenSize: hiddenSize,
      positionEmbeddings: random.integers(2, 6) ** 2,
      deepstackIndexes: Array.from({ length: levels }, (_, i) => depth - levels + i),
      ropeTheta: 10_000,
      act: "gelu_pytorch_tanh",
      initializerRange: 0.02,
    },
    text: {
      vocabSize: VOCAB,
      hiddenSize,
      intermediateSize: random.choice([28, 52]),
      layers,
      heads: kvHeads * random.integers(1, 4),
      kvHeads,
      headDim: 2 * mropeSection.reduce((sum: number, x) => sum + x, 0),
      eps: 1e-6,
      ropeTheta: 10_000,
      mropeSection,
      tied: random.random() < 0.5,
      maxPositions: 512,
      act: "silu",
      initializerRange: 0.02,
    },
    ids: { imageToken: IMAGE_TOKEN, videoToken: 58, visionStart: 59, visionEnd: 60, eos: [0], pad: undefined },
  });
}

/** Normal-like numbers around `mean`. */
export function noise(random: NumpyRandom, size: number, scale: number, mean = 0): F32 {
  return Float32Array.from(
    { length: size },
    () => mean + scale * (random.random() + random.random() + random.random() - 1.5) * 2,
  );
}

export function tinyParameters(
  config: ModelConfig,
  seed: number,
  options: { head?: Head; freeze?: Freeze; frozen?: boolean } = {},
): Parameters {
  const random = new NumpyRandom(seed);
  const parameters = new Parameters(modelLayout(config, { head: "lm", ...options }));
  for (const { name, shape, size } of parameters.layout) {
    const mean = name.includes("norm") && name.endsWith("weight") ? 1 : 0;
    parameters.view(name).set(noise(random, size, shape.length > 1 ? 0.15 : 0.2, mean));
  }
  return parameters;
}

/** Sequences with `imageCounts[i]` images each, drawn from a few distinct ones. */
export function tinyBatch(config: ModelConfig, seed: number, imageCounts: readonly number[]): PackedBatch {
  const random = new NumpyRandom(seed);
  const { patchSize, temporalPatchSize, mergeSize } = config.vision;
  const distinct = imageCounts.some((count) => count > 0) ? random.integers(1, 4) : 0;
  const images: ImagePatches[] = Array.from({ length: distinct }, () => {
    const gridH = mergeSize * random.integers(1, 4);
    const gridW = mergeSize * random.integers(1, 4);
    return { gridH, gridW, patches: noise(random, gridH * gridW * 3 * temporalPatchSize * patchSize ** 2, 0.5) };
  });
  const sequences: PackedSequence[] = imageCounts.map((count) => {
    const ids: number[] = [];
    const words = () => ids.push(...random.integers(0, IMAGE_TOKEN, random.integers(1, 9)));
    words();
    const spans = Array.from({ length: count }, () => {
      const image = random.integers(0, distinct);
      const { gridH, gridW } = images[image] as ImagePatches;
      const start = ids.length;
      ids.push(...new Array<number>((gridH * gridW) / mergeSize ** 2).fill(IMAGE_TOKEN));
      words();
      return { start, image };
    });
    return { ids: Int32Array.from(ids), spans };
  });
  return { sequences, images };
}
