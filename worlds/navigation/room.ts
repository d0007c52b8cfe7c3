/**
 * Rooms with furniture for navigation: made from a seed, seen from inside. Metres; x runs east, z north, y up, and headings are
 * degrees clockwise from north, as in AI2-THOR. A piece of furniture is built around its own middle, its front to the renderer's z.
 */
import { exact } from "../../src/core/index.ts";
import { turnY, type Vec3 } from "../shared/render3d/matrix.ts";
import {
  box,
  cylinder,
  type Mesh,
  meshOf,
  moved,
  painted,
  shifted,
  sphere,
  type Texture,
} from "../shared/render3d/mesh.ts";
import { Dice } from "../shared/scenes/dice.ts";

const { cos, sin } = exact;

export const PAINTS = {
  red: [190, 48, 48],
  orange: [222, 128, 48],
  yellow: [226, 190, 70],
  green: [74, 140, 82],
  blue: [56, 104, 176],
  purple: [124, 80, 156],
  pink: [216, 136, 164],
  brown: [128, 86, 54],
  white: [226, 226, 222],
  grey: [130, 132, 138],
} as const satisfies Record<string, Vec3>;
export type Paint = keyof typeof PAINTS;

type Kind = {
  readonly name: string;
  /** Footprint: across and deep, in metres. */
  readonly size: readonly [across: number, deep: number];
  readonly paints: readonly Paint[];
  /** A wish that it fulfils. */
  readonly use: string;
  /** What it looks like; `%` is its colour. */
  readonly look: string;
  /** AI2-THOR's names for it. */
  readonly thor: readonly string[];
  build(color: Vec3): Mesh[];
};

const WOOD: Vec3 = [150, 106, 66];
const DARK: Vec3 = [44, 44, 50];
const METAL: Vec3 = [178, 182, 188];
const SOFT: Paint[] = ["red", "orange", "green", "blue", "purple", "pink", "grey"];
const HARD: Paint[] = ["brown", "white", "grey", "yellow", "blue"];

/** A box that stands with its lower side at `y`. */
function block(x: number, y: number, z: number, w: number, h: number, d: number, color: Vec3): Mesh {
  return painted(shifted(box(w, h, d), x, y + h / 2, z), color);
}
function post(x: number, y: number, z: number, radius: number, height: number, color: Vec3, top = radius): Mesh {
  return painted(shifted(cylinder(radius, top, height, 12), x, y + height / 2, z), color);
}
function legs(w: number, d: number, height: number, color: Vec3): Mesh[] {
  const [x, z] = [w / 2 - 0.04, d / 2 - 0.04];
  return [
    [x, z],
    [-x, z],
    [x, -z],
    [-x, -z],
  ].map(([lx = 0, lz = 0]) => block(lx, 0, lz, 0.06, height, 0.06, color));
}
const darker = (color: Vec3, by = 0.75): Vec3 => [color[0] * by, color[1] * by, color[2] * by];

function seat(width: number, color: Vec3): Mesh[] {
  const inner = width - 0.36;
  const cushions = inner > 1 ? [-inner / 4, inner / 4] : [0];
  return [
    block(0, 0.06, 0, width, 0.26, 0.85, darker(color)),
    block(0, 0.32, -0.34, width, 0.5, 0.18, color),
    block(-width / 2 + 0.09, 0.32, 0, 0.18, 0.26, 0.85, color),
    block(width / 2 - 0.09, 0.32, 0, 0.18, 0.26, 0.85, color),
    ...cushions.map((x) => block(x, 0.32, 0.06, inner / cushions.length - 0.03, 0.13, 0.66, darker(color, 1.1))),
  ];
}

export const KINDS: readonly Kind[] = [
  {
    name: "sofa",
    size: [1.8, 0.85],
    paints: SOFT,
    use: "Friends are coming over; find the place where several of us can sit side by side.",
    look: "the wide, low, % piece with two cushions and an armrest at each end",
    thor: ["Sofa"],
    build: (color) => seat(1.8, color),
  },
  {
    name: "armchair",
    size: [0.9, 0.85],
    paints: SOFT,
    use: "I want to read alone in a soft seat with armrests.",
    look: "the small, padded, % piece with one cushion between two armrests",
    thor: ["ArmChair"],
    build: (color) => seat(0.9, color),
  },
  {
    name: "bed",
    size: [1.3, 1.95],
    paints: SOFT,
    use: "I am tired and want to lie down and sleep.",
    look: "the long, flat piece with a % cover and a white pillow",
    thor: ["Bed"],
    build: (color) => [
      block(0, 0.05, 0, 1.3, 0.25, 1.95, WOOD),
      block(0, 0.3, 0.02, 1.24, 0.2, 1.85, [236, 234, 228]),
      block(0, 0.5, 0.3, 1.28, 0.05, 1.3, color),
      block(0, 0.5, -0.68, 0.8, 0.1, 0.38, [250, 250, 248]),
      block(0, 0, -0.94, 1.3, 0.95, 0.07, darker(WOOD)),
    ],
  },
  {
    name: "dining table",
    size: [1.3, 0.85],
    paints: HARD,
    use: "Dinner is ready; find where we put the plates to eat together.",
    look: "the broad, flat, % board on four legs",
    thor: ["DiningTable"],
    build: (color) => [block(0, 0.7, 0, 1.3, 0.06, 0.85, color), ...legs(1.3, 0.85, 0.7, darker(color))],
  },
  {
    name: "desk",
    size: [1.2, 0.6],
    paints: HARD,
    use: "I have to work at the computer; find where its screen stands.",
    look: "the % table with a black screen standing on it",
    thor: ["Desk"],
    build: (color) => [
      block(0, 0.7, 0, 1.2, 0.05, 0.6, color),
      block(-0.45, 0, 0, 0.28, 0.7, 0.55, darker(color)),
      block(0.56, 0, 0, 0.05, 0.7, 0.55, darker(color)),
      block(0, 0.75, -0.1, 0.22, 0.04, 0.16, DARK),
      block(0, 0.79, -0.12, 0.06, 0.12, 0.04, DARK),
      block(0, 0.86, -0.1, 0.62, 0.38, 0.04, DARK),
      block(0, 0.89, -0.075, 0.56, 0.32, 0.01, [110, 170, 220]),
    ],
  },
  {
    name: "fridge",
    size: [0.72, 0.68],
    paints: ["white", "grey", "red", "blue"],
    use: "The milk must stay cold; find where it belongs.",
    look: "the tall, smooth, % box with two doors and metal handles",
    thor: ["Fridge"],
    build: (color) => [
      block(0, 0, 0, 0.72, 1.75, 0.66, color),
      block(0, 1.14, 0.332, 0.7, 0.015, 0.01, DARK),
      block(-0.27, 1.22, 0.36, 0.03, 0.4, 0.04, METAL),
      block(-0.27, 0.6, 0.36, 0.03, 0.45, 0.04, METAL),
    ],
  },
  {
    name: "bookcase",
    size: [0.95, 0.32],
    paints: HARD,
    use: "I am looking for a novel; find where they stand in rows.",
    look: "the tall, % frame with rows of many colours in it",
    thor: ["ShelvingUnit", "Shelf"],
    build: (color) => {
      const rows = [0.1, 0.5, 0.9, 1.3].flatMap((y, row) =>
        [0, 1, 2, 3, 4, 5, 6].map((i) => {
          const paint = Object.values(PAINTS)[(row * 3 + i * 2) % 8] as Vec3;
          return block(-0.38 + i * 0.125, y, 0, 0.1, 0.22 + ((row + i) % 3) * 0.04, 0.22, paint);
        }),
      );
      const boards = [0.06, 0.46, 0.86, 1.26, 1.68].map((y) => block(0, y, 0, 0.9, 0.035, 0.3, color));
      return [
        block(-0.46, 0, 0, 0.035, 1.72, 0.31, darker(color)),
        block(0.46, 0, 0, 0.035, 1.72, 0.31, darker(color)),
        block(0, 0, -0.145, 0.92, 1.72, 0.02, darker(color, 0.6)),
        ...boards,
        ...rows,
      ];
    },
  },
  {
    name: "television",
    size: [1.3, 0.42],
    paints: HARD,
    use: "The match starts soon and I want to watch it.",
    look: "the large black rectangle on a low % stand",
    thor: ["Television", "TVStand"],
    build: (color) => [
      block(0, 0, 0, 1.3, 0.45, 0.4, color),
      block(0, 0.45, 0, 0.4, 0.05, 0.2, DARK),
      block(0, 0.5, 0, 1.15, 0.66, 0.06, DARK),
      block(0, 0.53, 0.032, 1.08, 0.6, 0.005, [66, 74, 92]),
    ],
  },
  {
    name: "floor lamp",
    size: [0.4, 0.4],
    paints: ["yellow", "orange", "white", "pink"],
    use: "It is getting dark and I need more light.",
    look: "the thin pole with a % shade on top",
    thor: ["FloorLamp"],
    build: (color) => [
      post(0, 0, 0, 0.16, 0.04, DARK),
      post(0, 0.04, 0, 0.02, 1.35, METAL),
      post(0, 1.35, 0, 0.2, 0.3, color, 0.12),
    ],
  },
  {
    name: "house plant",
    size: [0.5, 0.5],
    paints: ["brown", "white", "orange", "blue"],
    use: "Something in here needs to be watered.",
    look: "the leafy, round, dark green thing in a % pot",
    thor: ["HousePlant"],
    build: (color) => [
      post(0, 0, 0, 0.14, 0.34, color, 0.2),
      post(0, 0.34, 0, 0.02, 0.3, WOOD),
      ...[
        [0, 0.78, 0, 0.24],
        [0.15, 0.62, 0.08, 0.17],
        [-0.14, 0.64, -0.06, 0.18],
        [0.02, 1, 0.02, 0.15],
      ].map(([x = 0, y = 0, z = 0, r = 0]) => painted(shifted(sphere(r, 10), x, y, z), [52, 112, 58])),
    ],
  },
  {
    name: "sink",
    size: [0.85, 0.52],
    paints: HARD,
    use: "My hands are dirty and I want to wash them.",
    look: "the % cupboard with a pale basin and a metal tap on top",
    thor: ["Sink", "SinkBasin"],
    build: (color) => [
      block(0, 0, 0, 0.85, 0.8, 0.5, color),
      block(0, 0.8, 0, 0.87, 0.05, 0.52, [222, 222, 218]),
      block(0, 0.85, 0.04, 0.52, 0.03, 0.34, [190, 206, 214]),
      post(0, 0.85, -0.18, 0.025, 0.26, METAL),
      block(0, 1.07, -0.09, 0.04, 0.04, 0.2, METAL),
    ],
  },
  {
    name: "stove",
    size: [0.62, 0.62],
    paints: ["white", "grey", "red", "brown"],
    use: "I want to fry an egg; find where pans get hot.",
    look: "the waist-high % block with four dark rings on top and a dark window in front",
    thor: ["StoveBurner", "Stove"],
    build: (color) => [
      block(0, 0, 0, 0.62, 0.86, 0.6, color),
      block(0, 0.25, 0.302, 0.46, 0.36, 0.01, DARK),
      ...[
        [0.15, 0.14],
        [-0.15, 0.14],
        [0.15, -0.14],
        [-0.15, -0.14],
      ].map(([x = 0, z = 0]) => post(x, 0.86, z, 0.1, 0.02, DARK)),
    ],
  },
  {
    name: "wardrobe",
    size: [1.1, 0.6],
    paints: ["brown", "white", "green", "blue"],
    use: "I need a clean shirt; find where clothes hang.",
    look: "the tall, broad, % cupboard that reaches nearly to the ceiling",
    thor: ["Dresser", "Cabinet"],
    build: (color) => [
      block(0, 0, 0, 1.1, 2.05, 0.58, color),
      block(0, 0.1, 0.292, 0.012, 1.85, 0.01, DARK),
      block(-0.08, 0.95, 0.31, 0.025, 0.2, 0.03, METAL),
      block(0.08, 0.95, 0.31, 0.025, 0.2, 0.03, METAL),
    ],
  },
  {
    name: "washing machine",
    size: [0.62, 0.62],
    paints: ["white", "grey", "blue", "pink"],
    use: "These socks are dirty; find the machine that cleans them.",
    look: "the % cube with a round dark window in its front",
    thor: ["LaundryHamper", "WashingMachine"],
    build: (color) => [
      block(0, 0, 0, 0.62, 0.86, 0.6, color),
      block(0, 0.72, 0.302, 0.56, 0.1, 0.01, darker(color, 0.85)),
      painted(
        moved(cylinder(0.2, 0.2, 0.03, 20), {
          rotation: [
            [1, 0, 0],
            [0, 0, -1],
            [0, 1, 0],
          ],
          shift: [0, 0.4, 0.31],
        }),
        [58, 66, 80],
      ),
    ],
  },
  {
    name: "rubbish bin",
    size: [0.38, 0.38],
    paints: ["grey", "green", "red", "blue", "yellow"],
    use: "This wrapper should be thrown away.",
    look: "the knee-high % tub with a dark lid",
    thor: ["GarbageCan"],
    build: (color) => [post(0, 0, 0, 0.14, 0.45, color, 0.18), post(0, 0.45, 0, 0.185, 0.05, DARK, 0.14)],
  },
];

/** Something with an unknown name in a task file: a pillar with a ball. */
const MARKER: Kind = {
  name: "marker",
  size: [0.4, 0.4],
  paints: ["purple"],
  use: "",
  look: "",
  thor: [],
  build: (color) => [post(0, 0, 0, 0.15, 0.8, [210, 210, 206]), painted(shifted(sphere(0.2, 14), 0, 1, 0), color)],
};

export type Piece = {
  readonly kind: Kind;
  readonly paint: Paint;
  readonly x: number;
  readonly z: number;
  /** Quarter turns clockwise from facing north. */
  readonly quarter: number;
};

export type Room = {
  readonly low: readonly [x: number, z: number];
  readonly high: readonly [x: number, z: number];
  readonly pieces: readonly Piece[];
  readonly look: number;
};

export const WALL_HEIGHT = 2.6;
/** How near the agent's middle comes to walls and furniture. */
export const ELBOW = 0.22;

/** Half of the room's floor that a piece takes, along x and z. */
export function halves({ kind, quarter }: Piece): readonly [number, number] {
  const [w, d] = kind.size;
  return quarter % 2 === 0 ? [w / 2, d / 2] : [d / 2, w / 2];
}

export function isFree({ low, high, pieces }: Room, x: number, z: number, room = ELBOW): boolean {
  if (x < low[0] + room || x > high[0] - room || z < low[1] + room || z > high[1] - room) return false;
  return pieces.every((piece) => {
    const [hx, hz] = halves(piece);
    const dx = Math.max(0, Math.abs(x - piece.x) - hx);
    const dz = Math.max(0, Math.abs(z - piece.z) - hz);
    return dx * dx + dz * dz >= room * room;
  });
}

function overlaps(piece: Piece, pieces: readonly Piece[], gap: number): boolean {
  const [hx, hz] = halves(piece);
  return pieces.some((other) => {
    const [ox, oz] = halves(other);
    return Math.abs(piece.x - other.x) < hx + ox + gap && Math.abs(piece.z - other.z) < hz + oz + gap;
  });
}

/** A piece with its back to one of the walls, or now and then in the open. */
function placed(kind: Kind, dice: Dice, low: readonly number[], high: readonly number[]): Piece {
  const paint = dice.pick(kind.paints);
  const quarter = dice.whole(0, 3);
  const [hx, hz] = halves({ kind, paint, x: 0, z: 0, quarter });
  const [x0 = 0, z0 = 0, x1 = 0, z1 = 0] = [...low, ...high];
  const open = kind.name === "dining table" && dice.chance(0.6);
  let x = dice.between(x0 + hx + 0.05, x1 - hx - 0.05);
  let z = dice.between(z0 + hz + 0.05, z1 - hz - 0.05);
  if (!open && quarter === 0) z = z0 + hz + 0.02;
  if (!open && quarter === 1) x = x0 + hx + 0.02;
  if (!open && quarter === 2) z = z1 - hz - 0.02;
  if (!open && quarter === 3) x = x1 - hx - 0.02;
  return { kind, paint, x: Math.round(x * 100) / 100, z: Math.round(z * 100) / 100, quarter };
}

/** A room of its own, every kind of furniture at most once. */
export function furnishedRoom(dice: Dice, least: number, most: number): Room {
  const low = [0, 0] as const;
  const high = [
    Math.round(dice.between(least, most) * 10) / 10,
    Math.round(dice.between(least, most) * 10) / 10,
  ] as const;
  const kinds = dice.shuffle(KINDS).slice(0, dice.whole(6, 9));
  return { low, high, pieces: furnish(dice, kinds, low, high, []), look: dice.whole(0, 1_000_000) };
}

function furnish(
  dice: Dice,
  kinds: readonly Kind[],
  low: readonly number[],
  high: readonly number[],
  first: readonly Piece[],
) {
  const pieces = [...first];
  for (const kind of kinds) {
    for (let attempt = 0; attempt < 30; attempt++) {
      const piece = placed(kind, dice, low, high);
      if (overlaps(piece, pieces, 0.12)) continue;
      pieces.push(piece);
      break;
    }
  }
  return pieces;
}

/** A room around two places that a task file gives: the named thing at the one, the agent at the other. */
export function roomAround(
  scene: string,
  type: string,
  target: readonly [number, number],
  start: readonly [number, number],
): Room {
  const dice = new Dice(0, `room ${scene}`);
  const edge = (k: 0 | 1, pick: (...values: number[]) => number, by: number) => pick(target[k], start[k]) + by;
  const low = [edge(0, Math.min, -1.6), edge(1, Math.min, -1.6)] as const;
  const high = [edge(0, Math.max, 1.6), edge(1, Math.max, 1.6)] as const;
  const kind = KINDS.find((known) => known.thor.includes(type) || known.name === type.toLowerCase()) ?? MARKER;
  const goal: Piece = { kind, paint: dice.pick(kind.paints), x: target[0], z: target[1], quarter: dice.whole(0, 3) };
  const others = dice.shuffle(KINDS.filter((known) => known !== kind)).slice(0, 5);
  const pieces = furnish(dice, others, low, high, [goal]);
  // Nothing stands where the agent starts, nor on the straight ways from there.
  const clear = pieces.filter((piece) => {
    if (piece === goal) return true;
    const [hx, hz] = halves(piece);
    const beside = (a: number, b: number, at: number, half: number) =>
      at + half < Math.min(a, b) - 0.5 || at - half > Math.max(a, b) + 0.5;
    return beside(start[0], target[0], piece.x, hx) || beside(start[1], target[1], piece.z, hz);
  });
  return { low, high, pieces: clear, look: dice.whole(0, 1_000_000) };
}

// What a room looks like.

const WALLS: readonly Vec3[] = [
  [222, 214, 200],
  [204, 216, 222],
  [214, 222, 204],
  [228, 212, 208],
  [210, 206, 222],
];
const FLOORS: readonly (readonly [Vec3, Vec3])[] = [
  [
    [176, 132, 88],
    [158, 116, 74],
  ],
  [
    [150, 112, 80],
    [134, 98, 68],
  ],
  [
    [200, 196, 188],
    [184, 180, 172],
  ],
  [
    [168, 172, 178],
    [152, 156, 162],
  ],
];

/** Planks or tiles, a metre of floor. */
function floorTexture([light, dark]: readonly [Vec3, Vec3], tiles: boolean): Texture {
  const side = 32;
  const data = new Uint8Array(side * side * 3);
  for (let y = 0; y < side; y++) {
    for (let x = 0; x < side; x++) {
      const joint = tiles ? x % 16 === 0 || y % 16 === 0 : x % 8 === 0 || (y + ((x >> 3) % 2) * 16) % 32 === 0;
      const even = tiles ? ((x >> 4) + (y >> 4)) % 2 === 0 : (x >> 3) % 2 === 0;
      const color = joint ? darker(dark, 0.8) : even ? light : dark;
      for (let k = 0 as 0 | 1 | 2; k < 3; k++) data[(y * side + x) * 3 + k] = color[k];
    }
  }
  return { width: side, height: side, data };
}

/**
 * Four walls, floor, ceiling, skirting, a door and a window, and all the furniture, for the renderer, whose z runs south: in a
 * image taken to the north, east is on the right.
 */
export function roomMeshes(room: Room): Mesh[] {
  const { low, high, pieces, look } = room;
  const [x0, z0, x1, z1] = [low[0], -high[1], high[0], -low[1]];
  const [w, d] = [x1 - x0, z1 - z0];
  const [cx, cz] = [(x0 + x1) / 2, (z0 + z1) / 2];
  const paint = WALLS[look % WALLS.length] as Vec3;
  const boards = FLOORS[(look >> 3) % FLOORS.length] as readonly [Vec3, Vec3];
  const floor = meshOf(
    [x0, 0, z0, x1, 0, z0, x1, 0, z1, x0, 0, z1],
    [0, 3, 2, 0, 2, 1],
    [0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0],
    [0, 0, w, 0, w, d, 0, d],
  );
  const thick = 0.1;
  const wall = (x: number, z: number, across: number, deep: number, color: Vec3): Mesh[] => [
    block(x, 0, z, across, WALL_HEIGHT, deep, color),
    block(x, 0, z, across + 0.03, 0.1, deep + 0.03, darker(paint, 0.55)),
  ];
  const door = (look >> 6) % 2 === 0 ? z0 : z1;
  const inward = door === z0 ? 1 : -1;
  const doorX = x0 + 0.7 + (((look >> 8) % 100) / 100) * (w - 1.4);
  const windowZ = z0 + 0.8 + (((look >> 10) % 100) / 100) * (d - 1.6);
  const [windowX, side] = (look >> 7) % 2 === 0 ? [x0, 1] : [x1, -1];
  return [
    {
      ...floor,
      surface: { color: [255, 255, 255], texture: floorTexture(boards, (look >> 5) % 2 === 0), unlit: true },
    },
    block(cx, WALL_HEIGHT, cz, w, 0.05, d, [240, 238, 232]),
    ...wall(cx, z0 - thick / 2, w, thick, paint),
    ...wall(cx, z1 + thick / 2, w, thick, darker(paint, 0.95)),
    ...wall(x0 - thick / 2, cz, thick, d, darker(paint, 0.9)),
    ...wall(x1 + thick / 2, cz, thick, d, darker(paint, 0.98)),
    block(doorX, 0, door + inward * 0.01, 0.95, 2.1, 0.03, [120, 84, 56]),
    block(doorX, 0, door + inward * 0.02, 0.8, 2, 0.035, [150, 108, 74]),
    block(doorX + 0.3, 0.98, door + inward * 0.05, 0.08, 0.04, 0.05, METAL),
    block(windowX + side * 0.01, 0.95, windowZ, 0.03, 1.15, 1.3, [244, 244, 240]),
    block(windowX + side * 0.02, 1.02, windowZ, 0.035, 1, 1.15, [156, 204, 240]),
    block(windowX + side * 0.03, 1.02, windowZ, 0.03, 1, 0.05, [244, 244, 240]),
    ...pieces.flatMap(pieceMeshes),
  ];
}

function pieceMeshes({ kind, paint, x, z, quarter }: Piece): Mesh[] {
  const pose = { rotation: turnY(Math.PI - (quarter * Math.PI) / 2), shift: [x, 0, -z] as const };
  return kind.build(PAINTS[paint]).map((mesh) => moved(mesh, pose));
}

/** Unit vector of a heading in degrees: east and north. */
export function heading(degrees: number): readonly [number, number] {
  const angle = (degrees * Math.PI) / 180;
  return [sin(angle), cos(angle)];
}
