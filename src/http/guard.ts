/**
 * Who may talk to a server of ours. A page of another site must not reach it through the browser of the person who runs it, so `Host` and
 * `Origin` are checked on every request and nothing is shared across origins; beyond this machine a key is demanded besides.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import { isIP } from "node:net";
import { hostname } from "node:os";
import { ConfigError } from "../core/errors.ts";
import { HttpError } from "./errors.ts";
import type { HttpRequest } from "./request.ts";

/** For pages of ours: they may load nothing but what their server gives them, and run no script but its own. */
export const PAGE_HEADERS: Readonly<Record<string, string>> = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; " +
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
  "Referrer-Policy": "no-referrer",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Cross-Origin-Opener-Policy": "same-origin",
};

export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127(\.\d{1,3}){3}$/.test(host);
}

export const MIN_KEY_CHARACTERS = 16;

/** Where people give the key, for messages. */
const KEY_SOURCES = "--api-key-file or SACCADE_API_KEY";

export type GuardOptions = {
  /** What the server is bound to. */
  readonly host: string;
  /** The key to ask for; needed where others can reach the host. */
  readonly key?: string;
  /** DNS names under which others reach it, such as a proxy's or a cluster's; `*.` stands for any labels. They need a key. */
  readonly names?: readonly string[];
};

export class Guard {
  readonly #host: string;
  readonly #key: Buffer | undefined;
  readonly #names: readonly string[];

  constructor({ host, key, names = [] }: GuardOptions) {
    if (!isLoopback(host) && key === undefined) {
      throw new ConfigError(`Other machines can reach ${host}: give a key (${KEY_SOURCES}), or use 127.0.0.1.`);
    }
    if (names.length > 0 && key === undefined) {
      throw new ConfigError(`Others can reach ${names.join(", ")} (--allow-host): give a key (${KEY_SOURCES}).`);
    }
    this.#names = names.map((name) => name.toLowerCase());
    const odd = this.#names.find((name) => !/^(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*$/.test(name));
    if (odd !== undefined) {
      throw new ConfigError(
        `--allow-host takes a DNS name such as policy.example or *.svc.cluster.local, got "${odd}".`,
      );
    }
    if (key !== undefined && key.length < MIN_KEY_CHARACTERS) {
      throw new ConfigError(`A key (${KEY_SOURCES}) has at least ${MIN_KEY_CHARACTERS} characters.`);
    }
    this.#host = host;
    this.#key = key === undefined ? undefined : digest(key);
  }

  /** Refuses with 403 a request that another site may have sent. `fetched`: by a script or a program, not as a page that somebody opened. */
  checkSource({ headers }: HttpRequest, fetched: boolean): void {
    const host = headers.get("host");
    if (host === null || !this.#isOurName(nameOf(host))) {
      throw new HttpError(
        403,
        "This server does not answer to that host name: use the address it printed, or start it with --allow-host NAME.",
      );
    }
    const origin = headers.get("origin");
    const foreign = origin !== null && origin !== `http://${host}` && origin !== `https://${host}`;
    const site = headers.get("sec-fetch-site");
    if (foreign || (fetched && (site === "cross-site" || site === "same-site"))) {
      throw new HttpError(403, "Requests from other sites are refused.");
    }
  }

  /** Whether no key is asked for, or this is the one. In constant time. */
  isKey(given: string | undefined): boolean {
    if (this.#key === undefined) return true;
    return given !== undefined && timingSafeEqual(digest(given), this.#key);
  }

  /** Names that no page of another site can point at us: addresses, this machine's name, what it was bound to, and what was allowed. */
  #isOurName(name: string): boolean {
    if (this.#names.some((known) => (known.startsWith("*.") ? name.endsWith(known.slice(1)) : name === known))) {
      // No label of a name is empty: ".example" is none.
      return !name.startsWith(".");
    }
    if (isLoopback(this.#host)) return isLoopback(name);
    return isIP(name) !== 0 || isLoopback(name) || name === this.#host || name === hostname().toLowerCase();
  }
}

/** The key a request brings along: in its header or, where pages ask, in a cookie. */
export function keyOf({ headers }: HttpRequest, cookie?: string): string | undefined {
  const bearer = /^Bearer (.+)$/i.exec(headers.get("authorization") ?? "")?.[1];
  if (bearer !== undefined || cookie === undefined) return bearer;
  for (const pair of (headers.get("cookie") ?? "").split(";")) {
    const [name, value] = pair.trim().split("=", 2);
    if (name === cookie && value !== undefined) return decode(value);
  }
  return undefined;
}

/** Host without port and brackets. */
function nameOf(host: string): string {
  const address = /^\[([^\]]+)\](:\d+)?$/.exec(host)?.[1];
  return (address ?? host.replace(/:\d+$/, "")).toLowerCase();
}

function decode(value: string): string | undefined {
  try {
    return decodeURIComponent(value);
  } catch {
    return undefined;
  }
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
