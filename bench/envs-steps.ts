/**
 * Steps per second of a world on one core: an action is played and the frame's RGB bytes are written. Episodes are as long as the world
 * allows; starting them is counted apart, and so are hashing and PNG encoding, which happen only at the edges. Seconds are processor time of
 * this process with all its threads, so that other work on the machine counts little. The peer is VisGym's Python, whose rates were measured on the
 * machine this was written on (2 cores x86-64, Python 3.11); where it shows photos, ours are as large. Run by `envs.bench.ts`.
 */
import "../worlds/register.ts";
import { Image, isImage, NumpyRandom } from "../src/core/index.ts";
import { makeWorld, type Options, sampleAction, type World } from "../src/envs/index.ts";
import { encodePng } from "../src/images/index.ts";

const photo = { size: [256, 192] };
type Peer = { readonly rate?: number; readonly options?: Options };
const PEERS: Record<string, Peer> = {
  maze_2d: { rate: 1720 },
  sliding_block: { rate: 426 },
  matchstick_equation: { rate: 245 },
  patch_reassembly: { rate: 227 },
  matchstick_rotation: { rate: 16 },
  // With small photos, clips and models; the upper end of what was measured.
  jigsaw: { rate: 5200, options: photo },
  colorization: { rate: 850, options: photo },
  zoom_in_puzzle: { rate: 245, options: photo },
  video_unshuffle: { rate: 6200 },
  // The range was given for both; its upper end is taken for four tiles, and five take OpenCV 1.25 times as long: python bench/peers/video.py.
  "video_unshuffle/hard": { rate: 4970 },
  mental_rotation_2d: { rate: 10_000, options: photo },
  // Two panels by matplotlib: python bench/peers/cube.py.
  mental_rotation_3d_cube: { rate: 27 },
  mental_rotation_3d_objaverse: { rate: 20 },
  counting: { rate: 16_000, options: photo },
  referring_dot_pointing: { rate: 10_000, options: photo },
  maze_3d: { rate: 1.3, options: { size: [336, 336] } },
  navigation: { options: { size: 336 } },
  fetch_reach: { rate: 8 },
  fetch_pick_and_place: { rate: 8 },
};
/** Most steps of an episode; long ones, since starting leaves garbage behind that is tidied up later. */
const MAX_STEPS = 200;
const WINDOWS = 30;
/** Processor seconds a window: short, so that other work on the machine leaves some of them alone. */
const SECONDS = 0.06;
/** Slow worlds, whose episodes are longer than a window, have fewer of them. */
const MAX_SECONDS = 6;

/** Runs `work` on a stopped clock, which it starts and stops itself; the best of some windows, since a slow one says nothing about the code. */
async function rate(work: (clock: Clock) => Promise<number>): Promise<number> {
  let [best, spent] = [0, 0];
  for (let window = 0; window < WINDOWS && spent < MAX_SECONDS; window++) {
    const clock = new Clock();
    let done = 0;
    while (clock.seconds < SECONDS) done += await work(clock);
    best = Math.max(best, done / clock.seconds);
    spent += clock.seconds;
  }
  return best;
}

class Clock {
  seconds = 0;
  #started: NodeJS.CpuUsage | undefined;

  start(): void {
    this.#started = process.cpuUsage();
  }

  stop(): void {
    const { user, system } = process.cpuUsage(this.#started);
    this.seconds += (user + system) / 1e6;
  }
}

async function frameOf(world: World): Promise<Image> {
  const seen = await world.observe("image");
  const found = Array.isArray(seen) ? seen.find((part) => part.type === "image")?.image : seen;
  if (!isImage(found)) throw new Error("expected an image");
  return found;
}

const [id] = process.argv.slice(2);
if (id === undefined) throw new Error("Which world?");
const peer = PEERS[id] ?? PEERS[id.split("/")[0] ?? ""];
const world = await makeWorld(id, peer?.options);
const lasting = world.actions.filter((spec) => !spec.ends);
const random = new NumpyRandom(0);
let seed = 0;
const starts = await rate(async (clock) => {
  clock.start();
  await world.reset(++seed);
  await world.observe("image");
  clock.stop();
  return 1;
});
const steps = await rate(async (clock) => {
  // A few episodes are played again and again, so that starting them costs little time off the clock.
  await world.reset(++seed % 8);
  await world.observe("image");
  let played = 0;
  clock.start();
  for (let ended = false; !ended && played < MAX_STEPS; played++) {
    ({ ended } = await world.act(sampleAction(lasting, random)));
    await world.observe("image");
  }
  clock.stop();
  return played;
});
const frame = await frameOf(world);
const often = (work: () => unknown) =>
  rate(async (clock) => {
    clock.start();
    for (let i = 0; i < 10; i++) work();
    clock.stop();
    return 10;
  });
const hashes = await often(() => new Image(frame.width, frame.height, frame.data).hash);
const pngs = await often(() => encodePng(frame));
const cells = [
  id,
  `${frame.width}×${frame.height}`,
  Math.round(steps),
  peer?.rate ?? "–",
  peer?.rate === undefined ? "–" : `${(steps / peer.rate).toFixed(1)}×`,
  Math.round(starts),
  Math.round(hashes),
  Math.round(pngs),
];
console.log(`| ${cells.join(" | ")} |`);
