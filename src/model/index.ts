/** What a VLM is to us: tokenizer, chat rendering, image processor, Hugging Face checkpoint folder. */
export * from "./chat.ts";
export * from "./config.ts";
export { type FoundModel, findModel } from "./find.ts";
export * from "./folder.ts";
export * from "./hub-cache.ts";
export * from "./image-processor.ts";
export * from "./known.ts";
export * from "./parameters.ts";
export * from "./presets.ts";
export * from "./renderer.ts";
export * from "./safetensors.ts";
export * from "./shape.ts";
export * from "./size.ts";
export * from "./template.ts";
export * from "./tokenizer.ts";
export * from "./train-tokenizer.ts";
export { readTrained, shippedModel, shippedModels, type Trained } from "./trained.ts";
