/**
 * Scenes in which one object can be named without saying where it is: "the striped mug", "the smaller red car". Kinds come
 * several at a time, so that a name needs its attributes; the phrase is the shortest that fits one object only, and relies
 * on nothing but kind, colour, pattern and clear differences of size.
 */
import { backdrops } from "./backdrops/index.ts";
import { Dice } from "./dice.ts";
import {
  compose,
  drawLook,
  type Figure,
  inhabitants,
  put,
  type Scene,
  type SceneObject,
  type SceneSize,
} from "./scene.ts";
import { wordsFor } from "./thing.ts";
import { thingNamed } from "./things/index.ts";

export type Referring = { readonly scene: Scene; readonly target: SceneObject; readonly phrase: string };

/** Of two objects called larger and smaller, the larger must be this much higher. */
const CLEARLY = 1.4;
/** Too small to point at. */
const MIN_PIXELS = 140;

export function referringScene(seed: number, size: SceneSize): Referring {
  for (let attempt = 0; ; attempt++) {
    const dice = new Dice(seed, `referring ${attempt}`);
    const scene = compose(dice, dice.pick(backdrops), size, (place, backdrop) => {
      const roll = dice.fork("things");
      const homes = place.stages.filter(({ habitat }) => habitat !== "sky");
      const kinds = roll
        .shuffle(
          inhabitants(
            backdrop.name,
            homes.map(({ habitat }) => habitat),
          ),
        )
        .slice(0, roll.whole(2, 4));
      const figures: Figure[] = [];
      const count = roll.whole(5, 9);
      for (let i = 0; i < count; i++) {
        const thing = kinds[i % kinds.length];
        const home = homes.find(({ habitat }) => thing?.habitat.includes(habitat));
        if (thing === undefined || home === undefined) continue;
        const scale = roll.chance(0.25) ? 0.62 : 1;
        const figure = put(figures, thing, drawLook(thing, roll), home, size, roll, scale, 0.04);
        if (figure !== undefined) figures.push(figure);
      }
      return figures;
    });
    const choices = dice.shuffle(scene.objects.filter(({ pixels }) => pixels >= MIN_PIXELS));
    const named = choices.flatMap((target) => {
      const phrase = nameOf(target, scene.objects);
      return phrase === undefined ? [] : [{ scene, target, phrase }];
    });
    // A name that needs attributes is worth more than one that is the only of its kind.
    const best = named.find(({ target, phrase }) => phrase !== target.kind) ?? named[0];
    if (best !== undefined && scene.objects.length >= 4) return best;
  }
}

/** The shortest phrase that fits `target` and no other object; undefined when there is none. */
function nameOf(target: SceneObject, objects: readonly SceneObject[]): string | undefined {
  const { kind, color, pattern } = target;
  const alike = objects.filter((other) => other.kind === kind && other.id !== target.id);
  if (alike.length === 0) return kind;
  const thing = thingNamed(kind);
  if (alike.every((other) => other.color !== color)) return wordsFor(thing, color);
  if (pattern !== "plain" && alike.every((other) => other.pattern !== pattern)) return `${pattern} ${kind}`;
  const twins = alike.filter((other) => other.color === color);
  if (twins.every((other) => other.pattern !== pattern)) return wordsFor(thing, color, pattern);
  const same = twins.filter((other) => other.pattern === pattern);
  const plain = pattern === "plain" && twins.length === same.length;
  const words = wordsFor(thing, color, plain ? undefined : pattern);
  const rivals = plain ? twins : same;
  if (rivals.every((other) => isLarger(target, other))) return `${rivals.length > 1 ? "largest" : "larger"} ${words}`;
  if (rivals.every((other) => isLarger(other, target))) return `${rivals.length > 1 ? "smallest" : "smaller"} ${words}`;
  return undefined;
}

/** In truth, and by what is seen of both: one that hides behind something may look like the smaller. */
function isLarger(one: SceneObject, other: SceneObject): boolean {
  return one.height > other.height * CLEARLY && one.box.height > other.box.height;
}
