/** For tests: where two servers' answers differ, apart from names, times and the wording of errors. */
import { decodeFeatures } from "../engine/features.ts";
import type { TestAnswer } from "./test-requests.ts";

/** Values that are each server's own. */
const OWN = new Set(["created", "system_fingerprint", "owned_by", "permission", "message", "mm_hashes", "root"]);
const NAMES = new Set(["id", "request_id"]);
const WITHIN = 1e-4;

export function differences(ours: TestAnswer, theirs: TestAnswer): string[] {
  const found: string[] = [];
  if (ours.status !== theirs.status)
    found.push(`status ${ours.status} for ${theirs.status}: ${ours.text.slice(0, 300)}`);
  const [kind, their] = [ours.type.split(";")[0], theirs.type.split(";")[0]];
  // vLLM leaves the type of plain text and of nothing out.
  if (their !== "" && kind !== their) found.push(`type ${kind} for ${their}`);
  if (found.length > 0 || their === "") return found;
  compare(read(ours), read(theirs), "", found);
  return found;
}

function read({ type, text }: TestAnswer): unknown {
  if (!type.startsWith("text/event-stream")) return JSON.parse(text);
  return text
    .split("\n\n")
    .filter((line) => line !== "")
    .map((line) => (line === "data: [DONE]" ? line : (JSON.parse(line.slice("data: ".length)) as unknown)));
}

function compare(ours: unknown, theirs: unknown, path: string, found: string[]): void {
  const key = path.split(".").at(-1) ?? "";
  if (OWN.has(key)) return;
  if (NAMES.has(key) && typeof ours === "string" && typeof theirs === "string") {
    const prefix = (name: string) => name.replace(/[0-9a-f]{16}/, "");
    if (prefix(ours) !== prefix(theirs)) found.push(`${path}: ${ours} for ${theirs}`);
    return;
  }
  if (path.includes("kwargs_data") && typeof ours === "string" && typeof theirs === "string") {
    // The order of their fields is any.
    const [mine, other] = [decodeFeatures(ours, ""), decodeFeatures(theirs, "")];
    const same =
      mine.dtype === other.dtype && String(mine.grid) === String(other.grid) && near32(mine.data, other.data);
    if (!same) found.push(`${path}: other pixels`);
    return;
  }
  if (typeof ours === "number" && typeof theirs === "number") {
    const near =
      /logprob/.test(path) && !/\.(token_id|rank|bytes)/.test(path)
        ? Math.abs(ours - theirs) <= WITHIN
        : ours === theirs;
    if (!near) found.push(`${path}: ${ours} for ${theirs}`);
    return;
  }
  if (Array.isArray(ours) && Array.isArray(theirs)) {
    if (ours.length !== theirs.length) found.push(`${path}: ${ours.length} for ${theirs.length} elements`);
    else for (const [i, value] of ours.entries()) compare(value, theirs[i], `${path}.${i}`, found);
    return;
  }
  if (isObject(ours) && isObject(theirs)) {
    const keys = new Set([...Object.keys(ours), ...Object.keys(theirs)]);
    for (const name of keys) {
      if (!Object.hasOwn(ours, name))
        found.push(`${path}.${name} is missing, it should be ${JSON.stringify(theirs[name])}`);
      // Ours says it twice, for clients of another age.
      else if (name === "token" && Object.hasOwn(theirs, "token_id")) continue;
      else if (!Object.hasOwn(theirs, name)) found.push(`${path}.${name} is too much: ${JSON.stringify(ours[name])}`);
      else compare(ours[name], theirs[name], `${path}.${name}`, found);
    }
    return;
  }
  if (ours !== theirs) found.push(`${path}: ${JSON.stringify(ours)} for ${JSON.stringify(theirs)}`);
}

function near32(ours: Uint8Array, theirs: Uint8Array): boolean {
  const read = (bytes: Uint8Array) => new Float32Array(bytes.slice().buffer);
  const other = read(theirs);
  return read(ours).every((value, i) => Math.abs(value - (other[i] as number)) <= 1e-6);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
