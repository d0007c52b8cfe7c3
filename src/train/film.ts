/** An episode of a run as an animation: the longest success among the kept evaluation episodes of a step, which tells most. */
import type { Image } from "../core/image.ts";
import { captioned } from "../images/captions.ts";
import { encodeGif, resize } from "../images/index.ts";
import { readFrame, readTrajectories, type TrajectoryRecord } from "../run/index.ts";

const SIDE = 256;

/** Undefined: no evaluation episode of that step was kept, or none has frames. */
export async function episodeGif(folder: string, step: number): Promise<Uint8Array | undefined> {
  let chosen: TrajectoryRecord | undefined;
  for (const record of await readTrajectories(folder, step)) {
    if (record.split !== "eval") continue;
    const better = chosen === undefined || Number(record.success) > Number(chosen.success);
    const longer =
      chosen !== undefined && record.success === chosen.success && record.turns.length > chosen.turns.length;
    if (better || longer) chosen = record;
  }
  if (chosen === undefined) return undefined;
  const film: { image: Image; caption: string }[] = [];
  let [caption, image]: [string, Image | undefined] = ["start", undefined];
  for (const [index, hash] of [...chosen.turns.map((turn) => turn.frames[0]), chosen.final?.frames[0]].entries()) {
    const frame = hash === undefined ? undefined : await readFrame(folder, hash);
    // A turn that shows nothing new (a tool's words) still looks at the image before it.
    if (frame !== undefined) image = enlarge(frame);
    if (image !== undefined) film.push({ image, caption });
    caption = `${index + 1}: ${chosen.turns[index]?.actions.join(", ") || "(no action)"}`;
  }
  if (film.length === 0) return undefined;
  const verdict = { terminated: true, truncated: false, success: chosen.success };
  return encodeGif(captioned(film, verdict), { delayMs: 600 });
}

function enlarge(frame: Image): Image {
  const times = Math.max(1, Math.floor(SIDE / Math.max(frame.width, frame.height)));
  return times === 1 ? frame : resize(frame, frame.width * times, frame.height * times, "nearest");
}
