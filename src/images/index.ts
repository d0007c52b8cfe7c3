/** Drawing, reading, writing and resizing images. */
export { freshBytes } from "../core/platform.ts";
export {
  Canvas,
  type Color,
  copyBytes,
  type LineOptions,
  type Point,
  type Rect,
  type TextOptions,
} from "./canvas.ts";
export { type Chart, type Curve, drawChart, type Level } from "./chart.ts";
export { addEdge } from "./coverage.ts";
export { decodeImage, readImageSize } from "./decode.ts";
export { encodeGif, type GifOptions } from "./gif.ts";
export { decodeJpeg } from "./jpeg.ts";
export {
  fromOpenAI,
  pngDataUri,
  readDataUri,
  toOpenAI,
  type WireImagePart,
  type WireMessage,
  type WirePart,
  type WireTextPart,
  type WireToolCall,
} from "./openai.ts";
export { decodePng, encodePng, isPng, type PngOptions } from "./png.ts";
export { readImage } from "./read.ts";
export { fitLongSide, type ResizeFilter, resize } from "./resize.ts";
export { type HalfBlockOptions, halfBlocks, shades } from "./terminal.ts";
export { type Turnable, Turner } from "./turn.ts";
