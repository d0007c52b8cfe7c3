export * from "./canvas.ts";
export * from "./chart.ts";
export * from "./decode.ts";
export * from "./gif.ts";
export { decodeJpeg } from "./jpeg.ts";
export * from "./openai.ts";
export { decodePng, encodePng, type PngOptions } from "./png.ts";
export * from "./resize.ts";
export * from "./terminal.ts";
