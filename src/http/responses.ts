/** Answers with the headers they need. Nothing is kept by anybody unless it says that it never changes. */

type More = { readonly status?: number; readonly headers?: Readonly<Record<string, string>> };

const FOR_EVER = "private, max-age=31536000, immutable";

export function json(value: unknown, { status = 200, headers = {} }: More = {}): Response {
  const body = new TextEncoder().encode(JSON.stringify(value));
  return new Response(body, { status, headers: { ...sized("application/json", body), ...headers } });
}

export type BytesOptions = {
  readonly type: string;
  /** The same address always gives these bytes. */
  readonly immutable?: boolean;
  /** A file to be saved under this name, which the caller has made plain. */
  readonly name?: string;
  /** For what may be kept but must be asked for again; default: not kept. */
  readonly revalidate?: boolean;
};

export function bytes(body: Uint8Array, options: BytesOptions): Response {
  const cache = options.immutable ? FOR_EVER : options.revalidate ? "no-cache" : "no-store";
  // Nothing that is sent lies in shared memory.
  return new Response(body as Uint8Array<ArrayBuffer>, {
    headers: { ...sized(options.type, body), "Cache-Control": cache, ...attachment(options.name) },
  });
}

/** Text that is made while it is sent. */
export function pieces(
  source: AsyncIterable<string>,
  options: { readonly type: string; readonly name?: string },
): Response {
  const iterator = source[Symbol.asyncIterator]();
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { value, done } = await iterator.next();
      if (done) controller.close();
      else controller.enqueue(encoder.encode(value));
    },
    async cancel() {
      await iterator.return?.();
    },
  });
  return new Response(body, {
    headers: { "Content-Type": options.type, "Cache-Control": "no-store", ...attachment(options.name) },
  });
}

function sized(type: string, body: Uint8Array): Record<string, string> {
  return { "Content-Type": type, "Content-Length": String(body.length), "Cache-Control": "no-store" };
}

function attachment(name: string | undefined): Record<string, string> {
  return name === undefined ? {} : { "Content-Disposition": `attachment; filename="${name}"` };
}
