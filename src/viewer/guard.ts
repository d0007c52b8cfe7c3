/**
 * Who may talk to the viewer. A page of another site must not reach it through the browser of the person who runs it, so `Host` and
 * `Origin` are checked on every request and nothing is shared across origins; beyond this machine a token is demanded besides.
 * Pages may load nothing but what the viewer itself serves, and run no script but its own.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { hostname } from "node:os";

export const SECURITY_HEADERS: Readonly<Record<string, string>> = {
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

export class Guard {
  readonly #host: string;
  readonly #token: Buffer | undefined;

  /** `host`: what the server is bound to. */
  constructor(host: string, token: string | undefined) {
    this.#host = host;
    this.#token = token === undefined ? undefined : digest(token);
  }

  /** Why this request is refused; undefined when it may come from whom it says. */
  refuse({ headers }: IncomingMessage, isApi: boolean): string | undefined {
    const host = headers.host;
    if (host === undefined || !this.#isOurName(nameOf(host))) {
      return "This viewer is not reached under that name; use the address it printed.";
    }
    if (headers.origin !== undefined && headers.origin !== `http://${host}` && headers.origin !== `https://${host}`) {
      return "Requests from other sites are refused.";
    }
    const site = headers["sec-fetch-site"];
    if (isApi && (site === "cross-site" || site === "same-site")) return "Requests from other sites are refused.";
    return undefined;
  }

  get wantsToken(): boolean {
    return this.#token !== undefined;
  }

  /** In constant time. */
  isToken(given: string | undefined): boolean {
    if (this.#token === undefined) return true;
    return given !== undefined && timingSafeEqual(digest(given), this.#token);
  }

  /** Names that no page of another site can point at us: addresses, this machine's name, and what it was bound to. */
  #isOurName(name: string): boolean {
    if (isLoopback(this.#host)) return isLoopback(name);
    return isIP(name) !== 0 || isLoopback(name) || name === this.#host || name === hostname().toLowerCase();
  }
}

/** The token a request brings along: header or cookie. */
export function tokenOf({ headers }: IncomingMessage, cookie: string): string | undefined {
  const bearer = /^Bearer (.+)$/.exec(headers.authorization ?? "")?.[1];
  if (bearer !== undefined) return bearer;
  for (const pair of (headers.cookie ?? "").split(";")) {
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
