/**
 * Server-sent events, pushed. A comment now and then keeps proxies and browsers from giving up; a reader that does not read is let go before it fills
 * the memory; `onClose` is called once, whoever ends it.
 */

export type EventStreamOptions = {
  /** Milliseconds of silence after which a comment is sent; default 15 s. */
  readonly heartbeatMs?: number;
  /** Default 8 MiB. */
  readonly maxUnreadBytes?: number;
  readonly onClose?: () => void;
};

export type ServerEvent = { readonly data: string; readonly id?: string | number; readonly event?: string };

const COMMENT = ":\n\n";

export class EventStream {
  readonly response: Response;
  readonly #options: Required<EventStreamOptions>;
  readonly #encoder = new TextEncoder();
  readonly #beat: NodeJS.Timeout;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;

  constructor({ heartbeatMs = 15_000, maxUnreadBytes = 8 * 1024 * 1024, onClose = () => {} }: EventStreamOptions = {}) {
    this.#options = { heartbeatMs, maxUnreadBytes, onClose };
    const body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
        },
        cancel: () => this.#end(),
      },
      { highWaterMark: 0, size: (chunk) => chunk?.length ?? 0 },
    );
    this.response = new Response(body, {
      headers: { "Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no" },
    });
    this.#beat = setInterval(() => this.#write(COMMENT), heartbeatMs).unref();
    // The head goes out with the first byte.
    this.#write(COMMENT);
  }

  get open(): boolean {
    return this.#controller !== undefined;
  }

  /** After the end nothing is sent. */
  send(event: ServerEvent): void {
    this.#write(eventText(event));
    this.#beat.refresh();
  }

  close(): void {
    this.#controller?.close();
    this.#end();
  }

  #write(text: string): void {
    this.#controller?.enqueue(this.#encoder.encode(text));
    if (-(this.#controller?.desiredSize ?? 0) <= this.#options.maxUnreadBytes) return;
    this.#controller?.error(new Error("The reader is too slow."));
    this.#end();
  }

  #end(): void {
    if (this.#controller === undefined) return;
    this.#controller = undefined;
    clearInterval(this.#beat);
    this.#options.onClose();
  }
}

/** Line breaks in `data` become lines of their own, as the format wants it. */
export function eventText({ data, id, event }: ServerEvent): string {
  const lines = [
    ...(event === undefined ? [] : [`event: ${event}`]),
    ...(id === undefined ? [] : [`id: ${id}`]),
    ...data.split(/\r\n|\r|\n/).map((line) => `data: ${line}`),
  ];
  return `${lines.join("\n")}\n\n`;
}
