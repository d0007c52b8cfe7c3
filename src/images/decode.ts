/** Image bytes of either kind we read, told apart by how they start. */
import { ImageError } from "../core/errors.ts";
import type { Image } from "../core/image.ts";
import { decodeJpeg, isJpeg, readJpegSize } from "./jpeg.ts";
import { decodePng, isPng, readPngSize } from "./png.ts";

/** `mostPixels`: for images from strangers, less than what an image may have. */
export async function decodeImage(bytes: Uint8Array, mostPixels = Number.POSITIVE_INFINITY): Promise<Image> {
  if (Number.isFinite(mostPixels)) readImageSize(bytes, mostPixels);
  if (isPng(bytes)) return decodePng(bytes);
  if (isJpeg(bytes)) return decodeJpeg(bytes);
  throw unread(bytes);
}

/** As its header says, before any memory is spent on it. */
export function readImageSize(
  bytes: Uint8Array,
  mostPixels = Number.POSITIVE_INFINITY,
): { readonly width: number; readonly height: number } {
  const size = sizeOf(bytes);
  const pixels = size.width * size.height;
  if (pixels > mostPixels) {
    throw new ImageError(
      `This image has ${size.width}×${size.height} = ${pixels} pixels, and the limit is ${mostPixels}. Make it smaller first.`,
    );
  }
  return size;
}

function sizeOf(bytes: Uint8Array): { readonly width: number; readonly height: number } {
  if (isPng(bytes)) return readPngSize(bytes);
  if (isJpeg(bytes)) return readJpegSize(bytes);
  throw unread(bytes);
}

function unread(bytes: Uint8Array): ImageError {
  return new ImageError(`This image is ${formatOf(bytes)}. Convert it to PNG or JPEG first.`);
}

function formatOf(bytes: Uint8Array): string {
  if (bytes.length === 0) return "empty";
  const start = Buffer.from(bytes.subarray(0, 16)).toString("latin1");
  if (start.startsWith("GIF8")) return "a GIF";
  if (start.startsWith("RIFF") && start.slice(8, 12) === "WEBP") return "a WebP";
  if (start.startsWith("BM")) return "a BMP";
  if (start.startsWith("II*\0") || start.startsWith("MM\0*")) return "a TIFF";
  if (/^.{4}ftypavi[fs]/s.test(start)) return "an AVIF";
  if (/^.{4}ftyp(hei|mif)/s.test(start)) return "a HEIC";
  if (/^\s*<(\?xml|svg|!DOCTYPE|html)/i.test(start)) return "text (SVG or HTML)";
  return "of an unknown format";
}
