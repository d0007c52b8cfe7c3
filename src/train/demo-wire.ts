/** What the main thread and a thread that plays demonstrations say to each other. Images' bytes change hands; all else is copied, and small. */
import { Image } from "../core/image.ts";
import type { ImageSpan } from "../core/model-input.ts";
import { type ImageProcessor, rememberView } from "../model/image-processor.ts";
import type { DemoEpisode, DemoStyle } from "./demo-player.ts";
import type { Imitated } from "./taught-decisions.ts";

/** Modules of the user that environments come from are loaded there too. */
export type DemoWorkerData = { readonly folder: string; readonly style: DemoStyle };
/** `"close"`: nothing follows. */
export type DemoCall = { readonly id: number; readonly episodes: readonly DemoEpisode[] } | "close";
export type DemoReply = {
  readonly id: number;
  readonly batch?: DemoBatch;
  readonly error?: { readonly name: string; readonly message: string };
};

type Pixels = { readonly width: number; readonly height: number; readonly data: Uint8Array };
/** With its name, and as the model sees it where that is another size: both take time, which the main thread has not. */
type SentFrame = Pixels & { readonly hash: string; readonly view?: Pixels };
/** A sequence whose spans name their image by its place in the list. */
type Packed = Omit<Imitated, "sequence"> & {
  readonly sequence: Omit<Imitated["sequence"], "images"> & {
    readonly images: readonly (Omit<ImageSpan, "image"> & { readonly frame: number })[];
  };
};
export type DemoBatch = { readonly imitated: readonly Packed[]; readonly frames: readonly SentFrame[] };

export function packBatch(
  imitated: readonly Imitated[],
  processor: Pick<ImageProcessor, "view">,
): { readonly batch: DemoBatch; readonly transfer: ArrayBuffer[] } {
  const places = new Map<Image, number>();
  const frames: SentFrame[] = [];
  const transfer: ArrayBuffer[] = [];
  /** A world may keep its own bytes, or a view of a larger buffer. */
  const copyOf = ({ width, height, data }: Pixels): Pixels => {
    const copy = new Uint8Array(data);
    transfer.push(copy.buffer);
    return { width, height, data: copy };
  };
  const place = (image: Image): number => {
    const known = places.get(image);
    if (known !== undefined) return known;
    const view = processor.view(image);
    places.set(image, frames.length);
    return frames.push({ ...copyOf(image), hash: image.hash, ...(view !== image && { view: copyOf(view) }) }) - 1;
  };
  const packed = imitated.map(({ sequence, ...rest }) => ({
    sequence: {
      ...sequence,
      images: sequence.images.map(({ image, ...span }) => ({ ...span, frame: place(image) })),
    },
    ...rest,
  }));
  return { batch: { imitated: packed, frames }, transfer };
}

export function unpackBatch({ imitated, frames }: DemoBatch): Imitated[] {
  const images = frames.map(({ width, height, data, hash, view }) => {
    const image = new Image(width, height, data, hash);
    if (view !== undefined) rememberView(image, new Image(view.width, view.height, view.data));
    return image;
  });
  return imitated.map(({ sequence, ...rest }) => ({
    sequence: {
      ...sequence,
      images: sequence.images.map(({ frame, ...span }) => ({ ...span, image: images[frame] as Image })),
    },
    ...rest,
  }));
}
