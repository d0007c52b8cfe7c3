/** Images in files of their own, as rows of data name them. */
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { errorMessage, ImageError } from "../core/errors.ts";
import type { Image } from "../core/image.ts";
import { missingFile } from "../core/missing.ts";
import { decodeImage } from "./decode.ts";

/** The image in a PNG or JPEG file. A relative path starts at the working directory; `new URL("cat.png", import.meta.url)` starts at the file that says it. */
export async function readImage(file: string | URL): Promise<Image> {
  const path = typeof file === "string" ? file : fileURLToPath(file);
  const bytes = await readFile(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") throw new ImageError(missingFile(path));
    if (error.code === "EISDIR") throw new ImageError(`${path} is a folder. Name an image in it.`);
    throw error;
  });
  try {
    return await decodeImage(bytes);
  } catch (error) {
    throw new ImageError(`${path}: ${errorMessage(error)}`, { cause: error });
  }
}
