/** What the main thread and a thread that plays demonstrations say to each other. Pictures' bytes change hands; all else is copied, and small. */
import { Image } from "../core/image.ts";
import type { ImageSpan } from "../core/model-input.ts";
import { type ImageProcessor, rememberView } from "../model/image-processor.ts";
import type { Imitated } from "./decisions.ts";
import type { DemoEpisode, DemoStyle } from "./demo-player.ts";

/** Modules of the user that environments come from are loaded there too. */
export type DemoWorkerData = { readonly folder: string; readonly style: DemoStyle };
export type DemoCall = { readonly id: number; readonly episodes: readonly DemoEpisode[] };
export type DemoReply = {
  readonly id: number;
  readonly batch?: DemoBatch;
  readonly error?: { readonly name: string; readonly message: string };
};

type Pixels = { readonly width: number; readonly height: number; readonly data: Uint8Array };
/** With its name, and as the model sees it where that is another size: both take time, which the main thread has not. */
type Picture = Pixels & { readonly hash: string; readonly view?: Pixels };
export type DemoBatch = { readonly imitated: readonly Imitated[]; readonly pictures: readonly Picture[] };

export function packBatch(
  imitated: readonly Imitated[],
  processor: Pick<ImageProcessor, "view">,
): { readonly batch: DemoBatch; readonly transfer: ArrayBuffer[] } {
  const pictures = new Map<Image, Picture>();
  for (const { image } of spansOf(imitated)) {
    if (pictures.has(image)) continue;
    const view = processor.view(image);
    pictures.set(image, { ...copyOf(image), hash: image.hash, ...(view !== image && { view: copyOf(view) }) });
  }
  const places = new Map([...pictures.keys()].map((image, i) => [image, i]));
  const transfer = [...pictures.values()].flatMap(({ data, view }) =>
    [data, view?.data].flatMap((one) => one?.buffer ?? []),
  );
  return {
    batch: {
      // A span's picture is its place in the list meanwhile.
      imitated: withImages(imitated, (image) => places.get(image) as unknown as Image),
      pictures: [...pictures.values()],
    },
    transfer: transfer as ArrayBuffer[],
  };
}

export function unpackBatch({ imitated, pictures }: DemoBatch): Imitated[] {
  const images = pictures.map(({ width, height, data, hash, view }) => {
    const image = new Image(width, height, data, hash);
    if (view !== undefined) rememberView(image, new Image(view.width, view.height, view.data));
    return image;
  });
  return withImages(imitated, (place) => images[place as unknown as number] as Image);
}

function spansOf(imitated: readonly Imitated[]): readonly ImageSpan[] {
  return imitated.flatMap(({ sequence }) => sequence.images);
}

function withImages(imitated: readonly Imitated[], map: (image: Image) => Image): Imitated[] {
  return imitated.map(({ sequence, decisions }) => ({
    sequence: { ...sequence, images: sequence.images.map((span) => ({ ...span, image: map(span.image) })) },
    decisions,
  }));
}

/** A world may keep its own bytes, or a view of a larger buffer. */
function copyOf({ width, height, data }: Pixels): Pixels {
  return { width, height, data: new Uint8Array(data) };
}
