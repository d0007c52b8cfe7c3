/** Answers as server-sent events. */
import { eventText } from "../http/event-stream.ts";
import { pieces } from "../http/responses.ts";
import { apiErrorBody } from "./errors.ts";

export type Send = (value: unknown, event?: string) => void;

/** How a wire tells of a failure once the answer has begun, and what it sends last. */
export type EventForm = { readonly fail: (error: unknown, send: Send) => void; readonly end?: string };

const openAIForm: EventForm = { fail: (error, send) => send(apiErrorBody(error).body), end: "[DONE]" };

export function eventAnswer(work: (send: Send) => Promise<void>, { fail, end }: EventForm = openAIForm): Response {
  const queue: string[] = [];
  let wake = () => {};
  let done = false;
  const push = (data: string, event?: string) => {
    queue.push(eventText({ data, ...(event !== undefined && { event }) }));
    wake();
  };
  const send: Send = (value, event) => push(JSON.stringify(value), event);
  void work(send)
    .catch((error: unknown) => fail(error, send))
    .finally(() => {
      done = true;
      if (end !== undefined) push(end);
      wake();
    });
  async function* source() {
    for (;;) {
      if (queue.length > 0) yield queue.splice(0).join("");
      else if (done) return;
      else
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
    }
  }
  return pieces(source(), { type: "text/event-stream; charset=utf-8" });
}

/** Sends each piece when the next one comes, so that the last one can say that it is the last. */
export class HeldBack<Last> {
  #send: ((last?: Last) => void) | undefined;

  next(send: (last?: Last) => void): void {
    this.#send?.();
    this.#send = send;
  }

  /** False where there was no piece. */
  end(last: Last): boolean {
    this.#send?.(last);
    return this.#send !== undefined;
  }
}
