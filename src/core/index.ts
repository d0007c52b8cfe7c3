export * from "./errors.ts";
export * as exact from "./exact-math.ts";
export * from "./image.ts";
export * from "./json.ts";
export * from "./message.ts";
export * from "./model-input.ts";
export * from "./random-numpy.ts";
export * from "./random-python.ts";
export * from "./seed.ts";
