/**
 * Shortest Sokoban solutions, counted in moves. A* over pushes: a node is the state right after a push, an edge is the
 * walk to a box plus one push, so the many states that differ only in where the player strolls are never stored.
 * The estimate is the cheapest pairing of boxes with targets by push distance in the empty room; it also prunes: a box
 * on a square from which no target can be reached (a corner, say) has no pairing.
 */
import { DIRECTIONS, type Direction, isSolved, move, moveBox, type Room, stateKey, stepOf, WALL } from "./room.ts";

export type SearchLimits = {
  /** Longer solutions are not looked for. */
  readonly maxMoves?: number;
  /** States after which the search gives up. */
  readonly maxStates?: number;
  /** A whole number. Above 1 the estimate is multiplied: far fewer states, a solution that may be longer than the shortest. */
  readonly weight?: number;
};

export type SearchResult = {
  /** Undefined when there is no solution within the limits; empty when the room is solved already. */
  readonly moves: Direction[] | undefined;
  readonly states: number;
  /** False when the search gave up, so that "no solution" is not proven. */
  readonly complete: boolean;
};

const UNSEEN = -1;
const BLOCKED = -2;

type Node = {
  readonly boxes: readonly number[];
  readonly player: number;
  readonly cost: number;
  readonly parent: Node | undefined;
  /** The push that led here. */
  readonly push: Direction;
};

export function search(room: Room, limits: SearchLimits = {}): SearchResult {
  const { maxMoves = Number.POSITIVE_INFINITY, maxStates = Number.POSITIVE_INFINITY, weight = 1 } = limits;
  if (isSolved(room)) return { moves: [], states: 0, complete: true };
  const distances = room.targets.map((target) => pushDistances(room, target));
  const bestCost = new Map<number, number>();
  /** Open nodes by estimated total; totals are small whole numbers, so this is the priority queue. */
  const open: Node[][] = [];
  let cursor = 0;

  const add = (node: Node) => {
    const key = stateKey(node.player, node.boxes);
    if (node.cost >= (bestCost.get(key) ?? Number.POSITIVE_INFINITY)) return;
    const estimate = pairingCost(node.boxes, distances);
    if (estimate === Number.POSITIVE_INFINITY || node.cost + estimate > maxMoves) return;
    bestCost.set(key, node.cost);
    const total = node.cost + weight * estimate;
    let bucket = open[total];
    if (bucket === undefined) {
      bucket = [];
      open[total] = bucket;
    }
    bucket.push(node);
    cursor = Math.min(cursor, total);
  };

  add({ boxes: room.boxes, player: room.player, cost: 0, parent: undefined, push: "up" });
  for (; cursor < open.length; cursor++) {
    // Expanding may move the cursor back (weight > 1), so the bucket is looked up anew each time.
    for (let node = open[cursor]?.pop(); node !== undefined; node = open[cursor]?.pop()) {
      if (node.cost > (bestCost.get(stateKey(node.player, node.boxes)) ?? 0)) continue;
      const state = { ...room, boxes: node.boxes, player: node.player };
      if (isSolved(state)) return { moves: unwind(room, node), states: bestCost.size, complete: true };
      if (bestCost.size >= maxStates) return { moves: undefined, states: bestCost.size, complete: false };
      const walk = walkDistances(state);
      for (const box of node.boxes) {
        for (const push of DIRECTIONS) {
          const step = stepOf(push, room.width);
          const steps = walk[box - step] as number;
          const to = box + step;
          if (steps < 0 || room.fixed[to] === WALL || node.boxes.includes(to)) continue;
          const boxes = moveBox(node.boxes, box, to);
          add({ boxes, player: box, cost: node.cost + steps + 1, parent: node, push });
        }
      }
    }
  }
  return { moves: undefined, states: bestCost.size, complete: true };
}

/** Pushes that bring a box from each cell to `target` when nothing else stands in the room; Infinity: impossible. */
function pushDistances(room: Room, target: number): Float64Array {
  const distances = new Float64Array(room.fixed.length).fill(Number.POSITIVE_INFINITY);
  distances[target] = 0;
  const queue = [target];
  for (const cell of queue) {
    for (const direction of DIRECTIONS) {
      // The push ends on `cell`: the box came from `from`, the player stood behind it.
      const step = stepOf(direction, room.width);
      const from = cell - step;
      if (room.fixed[from] === WALL || room.fixed[from - step] === WALL || distances[from] !== Number.POSITIVE_INFINITY)
        continue;
      distances[from] = (distances[cell] as number) + 1;
      queue.push(from);
    }
  }
  return distances;
}

/** The least sum of push distances over all ways to give each box its own target. */
function pairingCost(boxes: readonly number[], distances: readonly Float64Array[], index = 0, taken = 0): number {
  const box = boxes[index];
  if (box === undefined) return 0;
  let least = Number.POSITIVE_INFINITY;
  for (let target = 0; target < distances.length; target++) {
    const own = distances[target]?.[box] as number;
    if (taken & (1 << target) || own >= least) continue;
    least = Math.min(least, own + pairingCost(boxes, distances, index + 1, taken | (1 << target)));
  }
  return least;
}

/** Steps of the player to every cell around the boxes; below 0 where it can't go. */
function walkDistances({ width, fixed, boxes, player }: Room): Int16Array {
  const distances = new Int16Array(fixed.length);
  for (let cell = 0; cell < fixed.length; cell++) distances[cell] = fixed[cell] === WALL ? BLOCKED : UNSEEN;
  for (const box of boxes) distances[box] = BLOCKED;
  distances[player] = 0;
  const steps = [-width, width, -1, 1];
  const queue = [player];
  for (let head = 0; head < queue.length; head++) {
    const cell = queue[head] as number;
    for (const step of steps) {
      if (distances[cell + step] !== UNSEEN) continue;
      distances[cell + step] = (distances[cell] as number) + 1;
      queue.push(cell + step);
    }
  }
  return distances;
}

/** The moves from the start to `node`: walks and pushes in between. */
function unwind(start: Room, last: Node): Direction[] {
  const moves: Direction[] = [];
  for (let node = last; node.parent !== undefined; node = node.parent) {
    const { boxes, player } = node.parent;
    const step = stepOf(node.push, start.width);
    // `node.player` is where the box was; the walk ended on the cell behind it.
    const walk = walkBetween({ ...start, boxes, player }, node.player - step);
    moves.unshift(...walk, node.push);
  }
  return moves;
}

function walkBetween(room: Room, goal: number): Direction[] {
  // Distances from the goal, so that walking downhill from the player is a shortest path.
  const distances = walkDistances({ ...room, player: goal });
  const moves: Direction[] = [];
  for (let here = room; here.player !== goal; ) {
    const distance = distances[here.player] as number;
    const next = DIRECTIONS.find(
      (direction) => distances[here.player + stepOf(direction, room.width)] === distance - 1,
    );
    const after = next && move(here, next);
    if (next === undefined || after === undefined) return moves;
    moves.push(next);
    here = after;
  }
  return moves;
}
