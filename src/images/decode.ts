/** Picture bytes of either kind we read, told apart by how they start. */
import { ImageError } from "../core/errors.ts";
import type { Image } from "../core/image.ts";
import { decodeJpeg, isJpeg } from "./jpeg.ts";
import { decodePng, isPng } from "./png.ts";

export async function decodeImage(bytes: Uint8Array): Promise<Image> {
  if (isPng(bytes)) return decodePng(bytes);
  if (isJpeg(bytes)) return decodeJpeg(bytes);
  throw new ImageError(`This picture is ${formatOf(bytes)}; convert it to PNG or JPEG first.`);
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
