/** What a VLM is to us: tokenizer, chat rendering, image processor, Hugging Face checkpoint folder. */
export {
  type ChatFolder,
  type ChatModel,
  type ChatParts,
  type ChatRenderer,
  chatModel,
  type GenerationConfig,
  loadChat,
} from "./chat.ts";
export {
  ARCHITECTURES,
  type ModelConfig,
  type ModelIds,
  parseConfig,
  type TextConfig,
  type VisionConfig,
} from "./config.ts";
export { type FoundModel, findModel } from "./find.ts";
export {
  type CreateOptions,
  createFolder,
  loadFolder,
  type ModelFolder,
  readConfig,
  readWeights,
  saveFolder,
} from "./folder.ts";
export { modelPath } from "./hub-cache.ts";
export { ImageProcessor, type Patches } from "./image-processor.ts";
export { KNOWN_MODELS } from "./known.ts";
export { elementCount, parameterCount, parameterShapes, VISION_PREFIX } from "./parameters.ts";
export { findPreset, PRESET_NAMES, PRESETS, type PresetName, type PresetShape } from "./presets.ts";
export { type DeltaOptions, type PromptOptions, Renderer } from "./renderer.ts";
export { readSafetensors, readShardedSafetensors, type Tensor, type Tensors, writeSafetensors } from "./safetensors.ts";
export { type ModelShape, modelShape } from "./shape.ts";
export { hasKnownSize, type ModelSize, modelSize } from "./size.ts";
export { type ChatTemplate, compileTemplate, type TemplateMessage, type TemplatePart } from "./template.ts";
export { type DecodeOptions, Tokenizer, type TokenStream } from "./tokenizer.ts";
export { trainTokenizer } from "./train-tokenizer.ts";
export { readTrained, shippedModel, shippedModels, type Trained } from "./trained.ts";
export { weightsHash } from "./weights-hash.ts";
