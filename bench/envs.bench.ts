/**
 * Steps per second of every world on one core: an action is played and the frame's RGB bytes are written. Hashing and PNG
 * encoding happen only at the edges, so their rates are printed apart. The peer is VisGym's Python, whose rates were
 * measured on the machine this was written on (2 cores x86-64, Python 3.11).
 */
import {
  encodePng,
  type Image,
  isImage,
  listEnvs,
  makeWorld,
  NumpyRandom,
  sampleAction,
  type World,
} from "./saccade.ts";

const VISGYM: Record<string, number> = {
  maze_2d: 1720,
  sliding_block: 426,
  matchstick_equation: 245,
  patch_reassembly: 227,
  matchstick_rotation: 16,
  // With small photos, clips and models; the upper end of what was measured.
  jigsaw: 5200,
  colorization: 850,
  zoom_in_puzzle: 245,
  video_unshuffle: 6200,
  mental_rotation_2d: 10_000,
  mental_rotation_3d_objaverse: 20,
  counting: 16_000,
  referring_dot_pointing: 10_000,
  maze_3d: 1.3,
  fetch_reach: 8,
  fetch_pick_and_place: 8,
};
const SECONDS = 1.5;

/** Best of three windows: the machine is shared, and a slow window says nothing about the code. */
async function rate(work: () => Promise<number>): Promise<number> {
  let best = 0;
  for (let window = 0; window < 3; window++) {
    const start = performance.now();
    let done = 0;
    while (performance.now() - start < SECONDS * 333) done += await work();
    best = Math.max(best, (done / (performance.now() - start)) * 1000);
  }
  return best;
}

async function picture(world: World): Promise<Image> {
  const seen = await world.observe("image");
  const found = Array.isArray(seen) ? seen.find((part) => part.type === "image")?.image : seen;
  if (!isImage(found)) throw new Error("expected a picture");
  return found;
}

console.log("| world | frame | steps/s | VisGym (Python) | ratio | hashes/s | PNG/s |\n|---|---|---|---|---|---|---|");
let tooSlow = 0;
for (const { id } of listEnvs()) {
  const world = await makeWorld(id);
  const lasting = world.actions.filter((spec) => !spec.ends);
  const random = new NumpyRandom(0);
  let seed = 0;
  await world.reset(seed);
  const steps = await rate(async () => {
    for (let step = 0; step < 40; step++) {
      const { ended } = await world.act(sampleAction(lasting, random));
      await world.observe("image");
      if (ended) await world.reset(++seed);
    }
    return 40;
  });
  const frame = await picture(world);
  const hashes = await rate(async () => ((await picture(world)).hash === "" ? 0 : 1));
  const pngs = await rate(async () => (encodePng(frame).length > 0 ? 1 : 0));
  const peer = VISGYM[id.split("/")[0] ?? ""];
  const ratio = peer === undefined ? undefined : steps / peer;
  if (ratio !== undefined && ratio < 10) tooSlow += 1;
  const cells = [
    id,
    `${frame.width}×${frame.height}`,
    Math.round(steps),
    peer ?? "–",
    ratio === undefined ? "–" : `${ratio.toFixed(1)}×`,
    Math.round(hashes),
    Math.round(pngs),
  ];
  console.log(`| ${cells.join(" | ")} |`);
}
if (tooSlow > 0) console.log(`\n${tooSlow} worlds are less than 10 times as fast as VisGym's.`);
