/** What every room builds on: errors, images, messages, seeds and random numbers. */
import * as exact from "./exact-math.ts";

export { ConfigError, DataError, EnvError, errorMessage, ImageError, SaccadeError } from "./errors.ts";
export { Image, isImage, MAX_PIXELS } from "./image.ts";
export { type Awaitable, isJsonObject, type Json, type JsonObject } from "./json.ts";
export {
  assistant,
  type ImagePart,
  image,
  imagesOf,
  type Message,
  type Part,
  type Role,
  type TextPart,
  type ToolCall,
  text,
  textOf,
  user,
} from "./message.ts";
export type { Features, ImageSpan, ModelInput } from "./model-input.ts";
export { packageFolder as packagedFolder } from "./package-folder.ts";
export { type ChoiceOptions, NumpyRandom } from "./random-numpy.ts";
export { PythonRandom } from "./random-python.ts";
export { mixSeed, seedWords } from "./seed.ts";
export { exact };
