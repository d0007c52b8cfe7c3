/**
 * `npm run bench -- pages [id]`: steps a second on browser worlds, by the number of pages at once. A step is a random click, the score,
 * and the frame; an episode that ended or had ten steps is reset, which counts. Then episodes of three steps until SACCADE_EPISODES
 * are played, with the memory of this process and the number of open tabs.
 */
import { makeWorld, NumpyRandom, sampleAction, type World } from "./saccade.ts";

const named = process.argv.slice(2).filter((word) => word.includes("/") && !word.endsWith(".ts"));
const ids = named.length > 0 ? named : ["pages/login", "pages/shop", "miniwob/click-test-2"];
const SECONDS = Number(process.env.SACCADE_SECONDS ?? 8);
const EPISODES = Number(process.env.SACCADE_EPISODES ?? 0);

async function play(world: World, random: NumpyRandom, steps: number): Promise<number> {
  const clicks = world.actions.filter((spec) => spec.name === "click");
  await world.reset(random.integers(0, 1_000_000));
  await world.observe("image");
  for (let step = 1; step <= steps; step++) {
    const { ended } = await world.act(sampleAction(clicks, random));
    await world.observe("image");
    if (ended) return step;
  }
  return steps;
}

for (const id of ids) {
  for (const tabs of [1, 2, 4, 8, 16]) {
    const worlds = await Promise.all(Array.from({ length: tabs }, () => makeWorld(id)));
    await Promise.all(worlds.map((world) => world.reset(0)));
    const start = performance.now();
    let [steps, episodes] = [0, 0];
    await Promise.all(
      worlds.map(async (world, i) => {
        const random = new NumpyRandom(i);
        while (performance.now() - start < SECONDS * 1000) {
          steps += await play(world, random, 10);
          episodes += 1;
        }
      }),
    );
    const seconds = (performance.now() - start) / 1000;
    const line = `${id}, ${tabs} pages: ${(steps / seconds).toFixed(1)} steps with frame a second, ${(episodes / seconds).toFixed(1)} episodes`;
    console.log(line);
    for (const world of worlds) await world.close?.();
  }
  if (EPISODES > 0) {
    const worlds = await Promise.all(Array.from({ length: 4 }, () => makeWorld(id)));
    let left = EPISODES;
    const random = new NumpyRandom(7);
    await Promise.all(
      worlds.map(async (world) => {
        while (left > 0) {
          left -= 1;
          await play(world, random, 3);
          if (left % 1000 === 0) console.log(`${left} left, ${(process.memoryUsage().rss / 2 ** 20).toFixed(0)} MB`);
        }
      }),
    );
    for (const world of worlds) await world.close?.();
  }
}
