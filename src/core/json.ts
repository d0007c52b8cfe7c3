/** Values that survive `JSON.parse(JSON.stringify(x))`. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
export type JsonObject = { readonly [key: string]: Json };

export type Awaitable<T> = T | Promise<T>;

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** JSON that does not depend on the order of fields. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_, x: unknown) =>
    isJsonObject(x) ? Object.fromEntries(Object.entries(x).sort(([a], [b]) => (a < b ? -1 : 1))) : x,
  );
}
