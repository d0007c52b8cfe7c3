/**
 * Random Sokoban rooms, after gym-sokoban's recipe. A walker carves the floor with small stamps, player and boxes are
 * put down with every box on its target, and the room is then played backwards: a depth-first search over pulls keeps
 * the state whose boxes were swapped most often and stand farthest from home. A room counts when its shortest solution
 * has an allowed length; otherwise the next try goes on with the same random stream, so a seed always gives one room.
 */
import { EnvError, NumpyRandom } from "../../src/core/index.ts";
import { DIRECTIONS, FLOOR, type Room, stateKey, stepOf, TARGET, WALL } from "./room.ts";
import { search } from "./solver.ts";

export type RoomOptions = {
  readonly width: number;
  readonly height: number;
  readonly boxes: number;
  readonly minSolution: number;
  readonly maxSolution: number;
};

/** Chance that the walker turns before a step. */
const TURN_PROBABILITY = 0.35;
/** What the walker carves around itself. The middle is always carved, so the floor is one piece. */
const STAMPS = [
  ["...", "xxx", "..."],
  [".x.", ".x.", ".x."],
  ["...", "xx.", ".x."],
  ["...", ".xx", ".x."],
  ["...", "xx.", "xx."],
] as const;

/** Bounds of the backward search. */
const MAX_DEPTH = 300;
const MAX_PULL_STATES = 5_000;
/** States a solution may cost to find; harder rooms are skipped. */
const MAX_SOLVE_STATES = 20_000;
/** Work one seed may take, in states of all its tries; counted, not timed, so that it is the same everywhere. */
const MAX_WORK = 2_000_000;

export function generateRoom(seed: number, options: RoomOptions): Room {
  const random = new NumpyRandom(seed);
  let tries = 0;
  for (let work = 0; work < MAX_WORK; tries++) {
    const fixed = carve(random, options);
    // A try that fails at once still costs something, or hopeless options would be tried for minutes.
    work += fixed.length;
    const solved = placeBoxes(random, fixed, options);
    if (solved === undefined) continue;
    const start = playBackwards(solved);
    work += start.states;
    if (start.room === undefined) continue;
    const solution = search(start.room, { maxMoves: options.maxSolution, maxStates: MAX_SOLVE_STATES });
    work += solution.states;
    if (solution.moves !== undefined && solution.moves.length >= options.minSolution) return start.room;
  }
  throw new EnvError(
    `No ${options.width}×${options.height} Sokoban room with boxes: ${options.boxes} and a shortest solution of ` +
      `${options.minSolution} to ${options.maxSolution} moves came up in ${tries} tries of seed ${seed}. ` +
      "Widen minSolution..maxSolution, change width and height, or use fewer boxes.",
  );
}

function carve(random: NumpyRandom, { width, height }: RoomOptions): Uint8Array {
  const fixed = new Uint8Array(width * height);
  let row = random.integers(1, height - 1);
  let column = random.integers(1, width - 1);
  let direction = random.choice(DIRECTIONS);
  const steps = Math.floor(1.7 * (width + height));
  for (let step = 0; step < steps; step++) {
    if (random.random() < TURN_PROBABILITY) direction = random.choice(DIRECTIONS);
    if (direction === "up") row = Math.max(row - 1, 1);
    if (direction === "down") row = Math.min(row + 1, height - 2);
    if (direction === "left") column = Math.max(column - 1, 1);
    if (direction === "right") column = Math.min(column + 1, width - 2);
    const stamp = random.choice(STAMPS);
    for (const [dy, line] of stamp.entries()) {
      const y = row + dy - 1;
      if (y < 1 || y > height - 2) continue;
      for (let dx = 0; dx < 3; dx++) {
        const x = column + dx - 1;
        if (line[dx] === "x" && x >= 1 && x <= width - 2) fixed[y * width + x] = FLOOR;
      }
    }
  }
  return fixed;
}

/** Player first, then every box on its target; undefined when the floor is too small. */
function placeBoxes(random: NumpyRandom, fixed: Uint8Array, { width, height, boxes }: RoomOptions): Room | undefined {
  const floor = Array.from(fixed.keys()).filter((cell) => fixed[cell] !== WALL);
  if (floor.length < boxes + 1) return undefined;
  const draw = () => floor.splice(random.integers(floor.length), 1)[0] as number;
  const player = draw();
  const targets = Array.from({ length: boxes }, draw).sort((a, b) => a - b);
  for (const target of targets) fixed[target] = TARGET;
  return { width, height, fixed, targets, boxes: targets, player };
}

/** The hardest-looking state that leads to the solved `room`; undefined when no box can be pulled off its target. */
function playBackwards(room: Room): { room: Room | undefined; states: number } {
  const { width, fixed, targets } = room;
  const seen = new Set<number>();
  /** `boxes[i]` started on `targets[i]`. */
  const boxes = [...room.boxes];
  let player = room.player;
  let best: Room | undefined;
  let bestScore = 0;

  const visit = (depth: number, swaps: number, lastPulled: number) => {
    if (depth === MAX_DEPTH || seen.size === MAX_PULL_STATES) return;
    const sorted = boxes.length === 1 ? boxes : boxes.toSorted((a, b) => a - b);
    const key = stateKey(player, sorted);
    if (seen.has(key)) return;
    seen.add(key);
    const score = swaps * boxes.reduce((sum, box, i) => sum + manhattan(box, targets[i] as number, width), 0);
    // Every target must lie open in the image an episode starts with.
    if (score > bestScore && fixed[player] !== TARGET && boxes.every((box) => fixed[box] !== TARGET)) {
      bestScore = score;
      best = { ...room, boxes: [...sorted], player };
    }
    for (const direction of DIRECTIONS) {
      const step = stepOf(direction, width);
      const here = player;
      if (fixed[here + step] === WALL || boxes.includes(here + step)) continue;
      // A box right behind the player comes along.
      const pulled = boxes.indexOf(here - step);
      player = here + step;
      if (pulled < 0) {
        visit(depth + 1, swaps, lastPulled);
      } else {
        boxes[pulled] = here;
        visit(depth + 1, pulled === lastPulled ? swaps : swaps + 1, pulled);
        boxes[pulled] = here - step;
      }
      player = here;
    }
  };
  visit(0, 0, -1);
  return { room: best, states: seen.size };
}

function manhattan(a: number, b: number, width: number): number {
  return Math.abs(Math.floor(a / width) - Math.floor(b / width)) + Math.abs((a % width) - (b % width));
}
