/** Picture bytes of either kind we read, told apart by how they start. */
import { ImageError } from "../core/errors.ts";
import type { Image } from "../core/image.ts";
import { decodeJpeg, isJpeg, readJpegSize } from "./jpeg.ts";
import { decodePng, isPng } from "./png.ts";

/** `mostPixels`: for pictures from strangers, less than what an image may have. */
export async function decodeImage(bytes: Uint8Array, mostPixels = Number.POSITIVE_INFINITY): Promise<Image> {
  const pixels = Number.isFinite(mostPixels) ? pixelsOf(bytes) : 0;
  if (pixels > mostPixels) throw new ImageError(`This picture has ${pixels} pixels; send at most ${mostPixels}.`);
  if (isPng(bytes)) return decodePng(bytes);
  if (isJpeg(bytes)) return decodeJpeg(bytes);
  throw new ImageError(`This picture is ${formatOf(bytes)}; convert it to PNG or JPEG first.`);
}

/** As its header says; 0 where that can't be read, which decoding will find. */
function pixelsOf(bytes: Uint8Array): number {
  if (isPng(bytes) && bytes.length >= 24) {
    const header = new DataView(bytes.buffer, bytes.byteOffset + 16, 8);
    return header.getUint32(0) * header.getUint32(4);
  }
  if (!isJpeg(bytes)) return 0;
  const { width, height } = readJpegSize(bytes);
  return width * height;
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
