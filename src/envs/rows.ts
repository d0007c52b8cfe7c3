/**
 * Rows of a data file, JSON lines or Parquet, as JSON objects with their place. Parquet is read a row group at a time;
 * its cells become JSON: 64-bit integers numbers, dates ISO text, bytes text where they are UTF-8 and base64 elsewhere.
 */
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import type { Compressors } from "hyparquet";
import { ConfigError, DataError, errorMessage } from "../core/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { missingFile } from "../core/missing.ts";
import { readJsonLines } from "./jsonl.ts";

/** A row and its place, for errors: `data.jsonl:7`, `data.parquet row 7`. */
export type Row = { readonly value: JsonObject; readonly where: string };

/** Rows of a `.parquet` file, or of JSON lines under any other name. */
export async function* readRows(file: string): AsyncGenerator<Row> {
  if (file.endsWith(".parquet")) yield* readParquet(file);
  else for await (const { value, line } of readJsonLines(file)) yield { value, where: `${file}:${line}` };
}

/** hyparquet brings snappy; Node's zlib does these. */
const compressors: Compressors = { GZIP: (input) => gunzipSync(input), BROTLI: (input) => brotliDecompressSync(input) };
const codecs = ["UNCOMPRESSED", "SNAPPY", ...Object.keys(compressors)];

/**
 * Columns whose rows differ in their fields. Parquet gives every row the fields of all, the others null, as in
 * `{ type: "text", text, image_url: null }`; here null means absent.
 */
const sparse = ["prompt", "options", "visgym_kwargs"];

async function* readParquet(path: string): AsyncGenerator<Row> {
  const { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } = await import("hyparquet");
  const file = await asyncBufferFromFile(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") throw new ConfigError(missingFile(path));
    throw error;
  });
  const metadata = await parquetMetadataAsync(file).catch((error) => {
    throw new DataError(`${path} can't be read as Parquet (${errorMessage(error)}). Is the file complete?`);
  });
  const used = new Set(metadata.row_groups.flatMap((group) => group.columns.map((column) => column.meta_data?.codec)));
  for (const codec of used) {
    if (codec === undefined || codecs.includes(codec)) continue;
    throw new DataError(
      `${path} is compressed with ${codec}, which can't be read here. Write it again with snappy, for example in Python: ` +
        `import pyarrow.parquet as pq; pq.write_table(pq.read_table("in.parquet"), "out.parquet", compression="snappy")`,
    );
  }
  let rowStart = 0;
  for (const group of metadata.row_groups) {
    const rowEnd = rowStart + Number(group.num_rows);
    const rows = await parquetReadObjects({ file, metadata, compressors, rowStart, rowEnd, utf8: false }).catch(
      (error) => {
        throw new DataError(`${path} rows ${rowStart + 1} to ${rowEnd} can't be read (${errorMessage(error)}).`);
      },
    );
    for (const [i, row] of rows.entries()) {
      const where = `${path} row ${rowStart + i + 1}`;
      const cells = Object.entries(row).map(([column, cell]): [string, Json] => {
        const value = toJson(cell, where);
        return [column, sparse.includes(column) ? withoutNulls(value) : value];
      });
      yield { value: Object.fromEntries(cells), where };
    }
    rowStart = rowEnd;
  }
}

function toJson(value: unknown, where: string): Json {
  if (value === undefined || value === null) return null;
  if (typeof value === "bigint") {
    const number = Number(value);
    if (Number.isSafeInteger(number)) return number;
    throw new DataError(`${where}: ${value} is too large for a JSON number; store that column as text.`);
  }
  if (typeof value !== "object") return value as Json;
  if (value instanceof Date) return value.toISOString();
  if (value instanceof Uint8Array) return decodeBytes(value);
  if (Array.isArray(value)) return value.map((item) => toJson(item, where));
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, toJson(item, where)]));
}

function decodeBytes(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return Buffer.from(bytes).toString("base64");
  }
}

function withoutNulls(value: Json): Json {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (!isJsonObject(value)) return value;
  const entries = Object.entries(value).filter(([, item]) => item !== null);
  return Object.fromEntries(entries.map(([key, item]) => [key, withoutNulls(item)]));
}
