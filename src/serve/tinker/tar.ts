/** A folder's files as one tar archive (ustar), made while it is sent. */
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { join } from "node:path";

export const ARCHIVE_END = ".tar";
const BLOCK = 512;
/** Says to the SDK's own tools that nothing is missing. */
const COMPLETE = "checkpoint_complete";

export async function archiveOf(
  folder: string,
  files: readonly string[],
): Promise<{ size: number; content: AsyncIterable<Uint8Array> }> {
  const sizes = await Promise.all(files.map(async (file) => (await stat(join(folder, file))).size));
  const blocks = sizes.reduce((sum, size) => sum + 1 + Math.ceil(size / BLOCK), 0);
  async function* content(): AsyncGenerator<Uint8Array> {
    for (const [i, file] of files.entries()) {
      const size = sizes[i] as number;
      yield header(file, size);
      yield* createReadStream(join(folder, file));
      yield new Uint8Array(Math.ceil(size / BLOCK) * BLOCK - size);
    }
    yield header(COMPLETE, 0);
    yield new Uint8Array(2 * BLOCK);
  }
  return { size: (blocks + 3) * BLOCK, content: content() };
}

function header(name: string, size: number): Uint8Array {
  const block = Buffer.alloc(BLOCK);
  const octal = (value: number, at: number, digits: number) =>
    block.write(value.toString(8).padStart(digits, "0"), at, "ascii");
  block.write(name, 0, 100, "utf8");
  octal(0o644, 100, 7);
  octal(0, 108, 7);
  octal(0, 116, 7);
  // Eleven octal digits hold 8 GiB; more is written as bytes.
  if (size < 8 ** 11) octal(size, 124, 11);
  else {
    block[124] = 0x80;
    block.writeBigUInt64BE(BigInt(size), 128);
  }
  octal(0, 136, 11);
  // The sum counts its own field as blanks.
  block.write("        0", 148, "ascii");
  block.write("ustar\u000000", 257, "ascii");
  octal(
    block.reduce((sum, byte) => sum + byte, 0),
    148,
    6,
  );
  block[154] = 0;
  return block;
}
