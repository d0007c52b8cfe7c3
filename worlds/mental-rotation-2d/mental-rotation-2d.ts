/**
 * mental_rotation_2d (VisGym): a round image and the same image turned; turn the right one back until they agree, then
 * stop. Only `stop` ends the episode and pays. Both panels are VisGym's for the same photo, to a step of rounding.
 */
import { z } from "zod";
import { type Awaitable, exact, Image, type Json, NumpyRandom } from "../../src/core/index.ts";
import {
  type Action,
  type ActionSpec,
  act,
  defineWorld,
  type Observation,
  type ObservationMode,
  type Outcome,
  type PromptStyle,
  stopAction,
  type World,
} from "../../src/envs/index.ts";
import { type Turnable, Turner } from "../../src/images/index.ts";
import { Saved } from "../shared/saved.ts";
import { Dice } from "../shared/scenes/dice.ts";
import { type ImageSource, pictures, when } from "../shared/scenes/index.ts";
import { chunksOf, restOf, type Script } from "../shared/script.ts";

const { cos, sin } = exact;

const options = z.strictObject({
  tolerance: z
    .number()
    .min(0)
    .max(180)
    .default(5)
    .describe("Largest difference in angle that counts as a match, in degrees."),
  panel: z.int().min(16).max(512).default(128).describe("Side of each panel, in pixels."),
  folder: z.string().optional().describe("Folder of your own photos. Without it, the world draws its own scenes."),
  size: z
    .tuple([z.int().min(32).max(2048), z.int().min(32).max(2048)])
    .default([256, 256])
    .describe("Width and height of the scenes that the world draws, in pixels."),
  solverSteps: z
    .int()
    .min(1)
    .max(100)
    .optional()
    .describe("Number of rotations that the oracle makes. Without it, 2 to 4 at random."),
});

type Episode = { readonly picture: string; readonly secret: number; readonly start: number };
/** What is turned, and brightness along a circle, degree by degree. */
type Disc = Turnable & { readonly rim: readonly number[] };

export class MentalRotation2D implements World {
  readonly actions: readonly ActionSpec[] = [
    {
      name: "rotate",
      description: "turn the right picture by so many degrees, clockwise, or counter-clockwise if negative",
      arg: { type: "int", name: "degrees", min: -180, max: 180 },
      example: 45,
    },
    stopAction("end the episode, once both pictures stand the same way"),
  ];
  readonly #options: z.output<typeof options>;
  readonly #source: ImageSource;
  readonly #shape: Shape;
  #episode!: Episode;
  #angle = 0;
  #moves = 0;
  #stopped = false;
  #script: Script | undefined;
  #disc: Disc | undefined;

  constructor(given: z.output<typeof options>) {
    this.#options = given;
    this.#source = pictures(given.folder, { width: given.size[0], height: given.size[1] });
    this.#shape = Shape.of(given.panel);
    this.reset(0);
  }

  reset(seed: number): void {
    const secret = new NumpyRandom(seed).integers(0, 360);
    this.#begin({ picture: this.#source.pick(seed), secret, start: 0 }, 0, 0, false);
  }

  #begin(episode: Episode, angle: number, moves: number, stopped: boolean): void {
    this.#episode = episode;
    this.#angle = angle;
    this.#moves = moves;
    this.#stopped = stopped;
    this.#script = undefined;
    this.#disc = undefined;
  }

  success(): boolean {
    const error = modulo(this.#angle - this.#episode.secret);
    return this.#stopped && Math.min(error, 360 - error) <= this.#options.tolerance;
  }

  act(action: Action): Outcome {
    if (this.#stopped) return { valid: false, feedback: "The episode is over.", reward: 0, ended: true };
    if (action.name === "stop") {
      this.#stopped = true;
      return this.success()
        ? { valid: true, feedback: "You stopped with both pictures standing the same way.", reward: 1, ended: true }
        : { valid: true, feedback: "You stopped with the right picture turned.", reward: 0, ended: true };
    }
    this.#angle = modulo(this.#angle + Number(action.payload));
    this.#moves += 1;
    return { valid: true, reward: 0, ended: false };
  }

  observe(mode: ObservationMode): Awaitable<Observation> {
    const turn = modulo(this.#angle - this.#episode.secret);
    return when(this.#open(), (disc) => (mode === "text" ? describe(disc, turn) : this.#frame(disc, turn)));
  }

  #open(): Awaitable<Disc> {
    if (this.#disc !== undefined) return this.#disc;
    const episode = this.#episode;
    return when(this.#source.get(episode.picture), (photo) => {
      const disc = this.#shape.cut(photo);
      if (episode === this.#episode) this.#disc = disc;
      return disc;
    });
  }

  #frame(disc: Disc, turn: number): Image {
    const { panel } = this.#options;
    return new Image(2 * panel, panel, this.#shape.turner.turn(disc, turn));
  }

  task(style: PromptStyle, mode: ObservationMode): string {
    const { tolerance } = this.#options;
    if (style === "brief") {
      return mode === "text"
        ? "Turn the second circle until it matches the first, then stop."
        : "Turn the right picture until it stands like the left one, then stop.";
    }
    const view =
      mode === "text"
        ? "A round picture was turned about its centre. You are told its brightness (0 to 99) at 36 places along a circle, " +
          "clockwise from the top in steps of 10 degrees, first as it should stand and then as it stands now."
        : "You see a round picture on the left, and the same picture on the right, turned about its centre.";
    const which = mode === "text" ? "the picture" : "the right picture";
    return (
      `${view} Turn ${which} until it stands as it should, then stop. Turns add up. You succeed if it is at most ` +
      `${tolerance} degrees off when you stop.`
    );
  }

  solve(): Action[] {
    if (this.#stopped) return [];
    this.#script ??= this.#plan();
    const rest = restOf(this.#script, this.#moves, String(this.#angle));
    if (rest !== undefined) return rest;
    const left = shortest(this.#episode.secret - this.#angle);
    return left === 0 ? [act("stop")] : [act("rotate", left), act("stop")];
  }

  #plan(): Script {
    const { secret, start, picture } = this.#episode;
    const dice = new Dice(Math.round(secret), picture);
    const turns = chunksOf(shortest(secret - start), this.#options.solverSteps ?? dice.whole(2, 4), dice);
    const states = [start];
    for (const turn of turns) states.push(modulo((states.at(-1) as number) + turn));
    return { plan: [...turns.map((turn) => act("rotate", turn)), act("stop")], states: states.map(String) };
  }

  /** VisGym's `init_state`, its angle being the present one, and what has been played since. */
  save(): Json {
    const { picture, secret, start } = this.#episode;
    return {
      image_name: picture,
      secret_angle: secret,
      agent_angle: this.#angle,
      start_angle: start,
      moves: this.#moves,
      stopped: this.#stopped,
    };
  }

  load(state: Json): void {
    const saved = new Saved(state, "mental_rotation_2d", "image_name, secret_angle, agent_angle");
    const angle = modulo(saved.number("agent_angle"));
    const start = modulo(saved.number("start_angle", { fallback: angle }));
    const secret = modulo(saved.number("secret_angle"));
    const [picture, moves] = [saved.string("image_name"), saved.integer("moves", { min: 0, fallback: 0 })];
    this.#begin({ picture, secret, start }, angle, moves, saved.boolean("stopped"));
  }
}

/** The turn to somewhere else that is not more than half a circle, in whole degrees. */
function shortest(degrees: number): number {
  return Math.round(modulo(degrees + 180) - 180) + 0;
}

function modulo(degrees: number): number {
  const rest = degrees % 360;
  return (rest < 0 ? rest + 360 : rest) + 0;
}

function describe({ rim }: Disc, turn: number): string {
  const at = (shift: number) =>
    Array.from({ length: 36 }, (_, i) => rim[modulo(Math.round(i * 10 - shift))] as number).join(" ");
  return `as it should stand: ${at(0)}\nas it stands now: ${at(turn)}`;
}

/** Cutting images round, for panels of one size. The centre is the middle of pixel `side / 2`. */
class Shape {
  static readonly #known = new Map<number, Shape>();
  readonly turner: Turner;
  readonly #side: number;
  /** First and last column of the disc in each row; none where the first is beyond the last. */
  readonly #spans: readonly (readonly [number, number])[];

  static of(side: number): Shape {
    const shape = Shape.#known.get(side) ?? new Shape(side);
    Shape.#known.set(side, shape);
    return shape;
  }

  private constructor(side: number) {
    this.#side = side;
    const centre = side / 2;
    this.#spans = Array.from({ length: side }, (_, y) => {
      const half = Math.floor(Math.sqrt(Math.max(0, centre * centre - (y - centre) * (y - centre))));
      return [Math.max(0, Math.ceil(centre - half)), Math.min(side - 1, Math.floor(centre + half))] as const;
    });
    this.turner = new Turner(side, this.#spans);
  }

  cut(photo: Image): Disc {
    const side = this.#side;
    const pixels = squeeze(photo, side);
    const round = new Uint8Array(side * side * 3);
    this.#spans.forEach(([from, to], y) => {
      round.set(pixels.subarray((y * side + from) * 3, (y * side + to + 1) * 3), (y * side + from) * 3);
    });
    return { ...this.turner.prepare(round), rim: this.#rim(round) };
  }

  /** Brightness from 0 to 99, clockwise from the top, three quarters of the way out. */
  #rim(pixels: Uint8Array): number[] {
    const side = this.#side;
    return Array.from({ length: 360 }, (_, degree) => {
      const angle = (degree * Math.PI) / 180;
      const x = Math.round(side / 2 + sin(angle) * side * 0.375);
      const y = Math.round(side / 2 - cos(angle) * side * 0.375);
      const i = (y * side + x) * 3;
      const light =
        0.299 * (pixels[i] as number) + 0.587 * (pixels[i + 1] as number) + 0.114 * (pixels[i + 2] as number);
      return Math.floor((light * 100) / 256);
    });
  }
}

/** Made square by bilinear interpolation without smoothing, as OpenCV resizes. */
function squeeze({ width, height, data }: Image, side: number): Uint8Array {
  const out = new Uint8Array(side * side * 3);
  const place = (i: number, length: number) => {
    const at = Math.max(0, Math.min(length - 1, ((i + 0.5) * length) / side - 0.5));
    const first = Math.floor(at);
    return [first, Math.min(length - 1, first + 1), at - first] as const;
  };
  for (let y = 0; y < side; y++) {
    const [top, bottom, fy] = place(y, height);
    for (let x = 0; x < side; x++) {
      const [left, right, fx] = place(x, width);
      for (let k = 0; k < 3; k++) {
        const value = (column: number, row: number) => data[(row * width + column) * 3 + k] as number;
        const upper = value(left, top) * (1 - fx) + value(right, top) * fx;
        const lower = value(left, bottom) * (1 - fx) + value(right, bottom) * fx;
        out[(y * side + x) * 3 + k] = Math.round(upper * (1 - fy) + lower * fy);
      }
    }
  }
  return out;
}

export const mentalRotation2d = defineWorld({
  id: "mental_rotation_2d",
  summary: "rotate a round photo until it matches the one next to it, then stop",
  options,
  difficulties: { easy: { tolerance: 10 }, hard: { tolerance: 5 } },
  variants: { eval: { easy: {}, hard: {} }, registered: { easy: {}, hard: {} } },
  protocol: "tuple",
  maxTurns: { easy: 20, hard: 30 },
  create: (given) => new MentalRotation2D(given),
});
