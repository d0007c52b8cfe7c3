/** Helpers of this room's tests: a small run through the real writers, a server over it, and requests byte by byte. */
import { connect } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { Image } from "../core/image.ts";
import { openRun, type RunFolder } from "../run/folder.ts";
import { record, withFolder } from "../run/test-run.ts";
import type { TokensRecord, TrajectoryRecord, TurnRecord } from "../run/trajectories.ts";
import { startViewer, type Viewer, type ViewerOptions } from "./server.ts";

/** A frame of one colour. */
export function frame(n: number): Image {
  return new Image(8, 8, new Uint8Array(192).fill(n));
}

export function turn(more: Partial<TurnRecord> = {}): TurnRecord {
  return { ...(record(0, 0).turns[0] as TurnRecord), ...more };
}

/** Sampled ids whose learner disagrees by `drift` on the last. */
export function tokens(drift: number, hash: string, learnerHash = hash): TokensRecord {
  return {
    ids: [1, 2, 3, 4],
    kinds: "piss",
    texts: ["a", "<img>", "b", "c"],
    samplerLogprobs: [0, 0, -1, -2],
    learnerLogprobs: [9, 9, -1, -2 - drift],
    images: [{ start: 1, length: 1, hash, learnerHash }],
    replies: [{ turn: 0, start: 2, end: 4 }],
  };
}

export const CONFIG = {
  seed: 1,
  envs: [{ env: "frozen_lake", options: { minSteps: 3, cellSize: 16, maxActions: 1 } }],
};

/** Steps 1 to 3: four siblings of a group each, and at steps 1 and 3 an evaluation of seed 900. */
export async function writeRun(path: string, { steps = 3, name = "small" } = {}): Promise<RunFolder> {
  const run = await openRun(path, { config: CONFIG, name });
  await run.begin();
  for (let step = 1; step <= steps; step++) writeStep(run, step);
  await run.flush();
  return run;
}

export function writeStep(run: RunFolder, step: number): void {
  const spans = [
    { lane: "sample", start: 1000 * step, ms: 400 },
    { lane: "learn", start: 1000 * step + 400, ms: 500 },
  ];
  run.log("train", step, { "train/success": step / 10, "policy/entropy": 1 }, { spans });
  const rows: TrajectoryRecord[] = [0, 1, 2, 3].map((sibling) => {
    const hash = run.frames.put(frame(sibling));
    return record(step, sibling, {
      ...(sibling === 0 && { tokens: [tokens(step / 10, hash, step === 2 ? "f".repeat(32) : hash)] }),
      turns: [
        turn({
          frames: [hash],
          reply: sibling === 3 ? "Ich weiß NICHT <script>alert(1)</script>" : "<action>left</action>",
          actions: sibling === 3 ? [] : [sibling === 2 ? "right" : "left"],
          parsed: sibling !== 3,
          ...(sibling < 2 && { sight: sibling === 0 ? -0.5 : 1.5 }),
        }),
      ],
      final: { observation: "<image>", frames: [run.frames.put(frame(100 + step))] },
    });
  });
  run.trajectories.append(step, rows);
  if (step % 2 === 0) return;
  run.log("eval", step, { "eval/success": step / 4 });
  run.log("sight", step, { "sight/gap": 0.5, "sight/gap_low": 0.2, "sight/gap_high": 0.8, "sight/gap_turn/0": 0.5 });
  const pinned = record(step, 0, { id: "maze#900/0", group: "maze#900", seed: 900, split: "eval", temperature: 0 });
  run.trajectories.append(step, [{ ...pinned, success: step > 1, end: step > 1 ? "done" : "max_turns" }]);
}

/** `body` gets a folder with the finished run `small` in it, and a server over the folder. */
export async function withViewer<T>(
  body: (viewer: Viewer, folder: string) => Promise<T>,
  options: Partial<ViewerOptions> = {},
): Promise<T> {
  return withFolder(async (folder) => {
    const run = await writeRun(join(folder, "small"));
    await run.close("finished");
    const viewer = await startViewer({ folder, ...options });
    try {
      return await body(viewer, folder);
    } finally {
      await viewer.close();
    }
  });
}

/** One viewer over one such folder for all tests of a `describe` that only read. */
export function sharedViewer(prepare: (folder: string) => Promise<void> = async () => {}): { readonly viewer: Viewer } {
  let viewer: Viewer | undefined;
  let done: () => void = () => {};
  let ended: Promise<void> | undefined;
  beforeAll(
    () =>
      new Promise<void>((ready, fail) => {
        ended = withViewer(async (started, folder) => {
          await prepare(folder);
          viewer = started;
          ready();
          await new Promise<void>((resolve) => {
            done = resolve;
          });
        });
        ended.catch(fail);
      }),
  );
  afterAll(async () => {
    done();
    await ended;
  });
  return {
    get viewer() {
      return viewer as Viewer;
    },
  };
}

export async function get<T>(viewer: Viewer, route: string): Promise<T> {
  const response = await fetch(`http://127.0.0.1:${viewer.port}${route}`);
  return (await response.json()) as T;
}

/** Sends exactly these lines; returns what comes back until the server ends the connection. */
export function raw(port: number, lines: readonly string[], body = ""): Promise<{ status: number; text: string }> {
  return new Promise((done, fail) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.write(`${[...lines, "Connection: close"].join("\r\n")}\r\n\r\n${body}`);
    });
    let text = "";
    socket.setEncoding("utf8");
    socket.on("data", (piece: string) => {
      text += piece;
    });
    socket.on("end", () => done({ status: Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1]), text }));
    socket.on("error", fail);
  });
}

/** Follows a stream of server-sent events; `next` waits for a message that fits. */
export async function follow(viewer: Viewer, route: string) {
  const stop = new AbortController();
  const response = await fetch(`http://127.0.0.1:${viewer.port}${route}`, { signal: stop.signal });
  const reader = (response.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  async function next<T>(fits: (message: T) => boolean): Promise<T> {
    for (;;) {
      const at = buffer.indexOf("\n\n");
      if (at < 0) {
        const { value, done } = await reader.read();
        if (done) throw new Error("The stream ended.");
        buffer += value;
        continue;
      }
      const data = /^data: (.*)$/m.exec(buffer.slice(0, at))?.[1];
      buffer = buffer.slice(at + 2);
      if (data === undefined) continue;
      const message = JSON.parse(data) as T;
      if (fits(message)) return message;
    }
  }
  return { response, next, stop: () => stop.abort() };
}
