/** Held-out lakes and how the agent crosses them now, frame by frame, all in step. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { PlayedFrame, PlayedLake } from "./messages.ts";

const FRAME_MS = 420;
/** Ticks that the last frame stays. */
const REST = 3;

export function Boards({ lakes, count }: { lakes: readonly PlayedLake[]; count: number }) {
  const [tick, setTick] = useState(0);
  useEffect(() => {
    setTick(0);
    const timer = setInterval(() => setTick((now) => now + 1), FRAME_MS);
    return () => clearInterval(timer);
  }, [lakes]);
  const longest = Math.max(1, ...lakes.map(({ frames }) => frames.length));
  const at = tick % (longest + REST);
  return (
    <ul class="lakes">
      {Array.from({ length: count }, (_, i) => (
        <Board key={lakes[i]?.seed ?? i} lake={lakes[i]} at={at} />
      ))}
    </ul>
  );
}

function Board({ lake, at }: { lake: PlayedLake | undefined; at: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const turn = Math.min(at, (lake?.frames.length ?? 1) - 1);
  const frame = lake?.frames[turn];
  useEffect(() => {
    if (canvas.current !== null && frame !== undefined) paint(canvas.current, frame);
  }, [frame]);
  const over = lake !== undefined && turn === lake.frames.length - 1;
  const outcome = !over ? "" : lake.end === "goal" ? "good" : "bad";
  const words = lake === undefined ? "" : over ? lake.end : wordOf(lake.moves[turn]);
  return (
    <li class={`lake ${outcome}`}>
      <canvas
        ref={canvas}
        class="frame"
        width="32"
        height="32"
        role="img"
        aria-label={words === "" ? "an empty board" : `lake: ${words}`}
      />
      <small>{words}</small>
    </li>
  );
}

/** The move that a reply names, or what it says instead. */
function wordOf(reply = ""): string {
  const word = /<action>\s*(\w+)/.exec(reply)?.[1] ?? reply.trim();
  return word.length > 10 ? `${word.slice(0, 9)}…` : word || "…";
}

function paint(canvas: HTMLCanvasElement, { width, height, data }: PlayedFrame): void {
  const context = canvas.getContext("2d");
  if (context === null) return;
  canvas.width = width;
  canvas.height = height;
  const image = context.createImageData(width, height);
  for (let pixel = 0; pixel < width * height; pixel++) {
    image.data.set(data.subarray(pixel * 3, pixel * 3 + 3), pixel * 4);
    image.data[pixel * 4 + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}
