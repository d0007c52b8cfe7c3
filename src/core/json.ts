/** Values that survive `JSON.parse(JSON.stringify(x))`. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
export type JsonObject = { readonly [key: string]: Json };

export type Awaitable<T> = T | Promise<T>;

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value of JSON; text that is not JSON stays as it is. */
export function jsonOrText(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return text;
  }
}

export type JsonLimits = {
  /** Numbers, words and everything else that stands in lists and objects. */
  readonly values: number;
  /** Lists, objects and their fields, which take far more memory than they take bytes. */
  readonly structures: number;
  /** Lists and objects inside each other; what walks through a value would run out of stack at some thousands. */
  readonly nesting: number;
};

/** Far above honest requests: ids of a context of a million tokens, thousands of messages. */
export const JSON_LIMITS: JsonLimits = { values: 2 ** 20, structures: 2 ** 17, nesting: 100 };

/**
 * Looks at the bytes of JSON as they come and says what there is too much of, long before a tree of it is in memory: a body of brackets unpacks to
 * fifty times its length. Whether it is JSON at all is left to the parser; but one that breaks off need not be given to it.
 */
export class JsonScan {
  readonly #limits: JsonLimits;
  #values = 0;
  #structures = 0;
  #nesting = 0;
  #isText = false;
  #isEscaped = false;

  constructor(limits: JsonLimits = JSON_LIMITS) {
    this.#limits = limits;
  }

  /** Every list, object and text that began has ended. */
  get isClosed(): boolean {
    return this.#nesting === 0 && !this.#isText;
  }

  /** What is wrong, in words; undefined while nothing is. */
  push(bytes: Uint8Array): string | undefined {
    const { values: mostValues, structures: mostStructures, nesting: mostNesting } = this.#limits;
    let values = this.#values;
    let structures = this.#structures;
    let nesting = this.#nesting;
    let isText = this.#isText;
    let isEscaped = this.#isEscaped;
    let wrong: string | undefined;
    for (let i = 0; i < bytes.length && wrong === undefined; i++) {
      const byte = bytes[i];
      if (isText) {
        if (isEscaped) isEscaped = false;
        else if (byte === 0x5c) isEscaped = true;
        else if (byte === 0x22) isText = false;
        continue;
      }
      switch (byte) {
        case 0x22: // "
          isText = true;
          break;
        case 0x5b: // [
        case 0x7b: // {
          nesting += 1;
          structures += 1;
          values += 1;
          if (nesting > mostNesting) wrong = `it nests more than ${mostNesting} deep`;
          break;
        case 0x5d: // ]
        case 0x7d: // }
          nesting -= 1;
          break;
        case 0x2c: // ,
          values += 1;
          break;
        case 0x3a: // :
          structures += 1;
      }
      if (values > mostValues) wrong ??= `it has more than ${mostValues} values`;
      if (structures > mostStructures) wrong ??= `it has more than ${mostStructures} lists, objects and fields`;
    }
    this.#values = values;
    this.#structures = structures;
    this.#nesting = nesting;
    this.#isText = isText;
    this.#isEscaped = isEscaped;
    return wrong;
  }
}

/** JSON that does not depend on the order of fields. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_, x: unknown) =>
    isJsonObject(x) ? Object.fromEntries(Object.entries(x).sort(([a], [b]) => (a < b ? -1 : 1))) : x,
  );
}
