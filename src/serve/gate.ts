/** Holds requests back while weights are swapped. */

export class Gate {
  #closed: { readonly over: Promise<void>; readonly end: () => void } | undefined;

  get isClosed(): boolean {
    return this.#closed !== undefined;
  }

  close(): void {
    if (this.#closed !== undefined) return;
    let end = () => {};
    const over = new Promise<void>((done) => {
      end = done;
    });
    this.#closed = { over, end };
  }

  open(): void {
    this.#closed?.end();
    this.#closed = undefined;
  }

  /** Resolves when the gate is open; rejects when the request is aborted. */
  async pass(signal: AbortSignal): Promise<void> {
    while (this.#closed !== undefined) {
      signal.throwIfAborted();
      await new Promise<void>((done, fail) => {
        const abort = () => fail(signal.reason);
        signal.addEventListener("abort", abort, { once: true });
        this.#closed?.over.then(done).finally(() => signal.removeEventListener("abort", abort));
      });
    }
    signal.throwIfAborted();
  }
}
