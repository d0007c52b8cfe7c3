/** What the walls, the floor and the ceiling of maze_3d look like, and the maze as triangles. A cell is 10 wide and high. */

import { type Mesh, meshOf, painted, type Texture } from "../shared/render3d/index.ts";
import { cloud, grain } from "../shared/scenes/noise.ts";
import type { Maze } from "../shared/wilson.ts";

export const CELL = 10;
const SIDE = 128;

type Color = readonly [number, number, number];
export type Textures = { readonly wall: Texture; readonly floor: Texture; readonly ceiling: Texture };

let drawn: Textures | undefined;
/** Drawn once: four courses of stone, earth below, pebbles above. */
export function ownTextures(): Textures {
  drawn ??= {
    wall: paint(stone),
    floor: paint((x, y) => shade([124, 92, 58], 0.16 * cloud(x, y) + 0.08 * grain(x * 3, y * 3))),
    ceiling: paint((x, y) => shade([128, 118, 146], 0.16 * cloud(x * 2, y * 2) + 0.08 * grain(x * 5, y * 5))),
  };
  return drawn;
}

function paint(color: (x: number, y: number) => Color): Texture {
  const data = new Uint8Array(SIDE * SIDE * 3);
  for (let y = 0; y < SIDE; y++) for (let x = 0; x < SIDE; x++) data.set(color(x, y), (y * SIDE + x) * 3);
  return { width: SIDE, height: SIDE, data };
}

function shade([red, green, blue]: Color, light: number): Color {
  const level = (value: number) => Math.max(0, Math.min(255, Math.round(value * (1 + light))));
  return [level(red), level(green), level(blue)];
}

const STONES: readonly Color[] = [
  [168, 158, 146],
  [150, 140, 124],
  [134, 128, 122],
  [158, 146, 128],
  [142, 134, 130],
];
const MORTAR: Color = [206, 186, 140];

/** Four courses, three stones each, every other course moved by half a stone. */
function stone(x: number, y: number): Color {
  const course = Math.floor((y * 4) / SIDE);
  const along = (x * 3) / SIDE + (course % 2) / 2;
  const [u, v] = [along - Math.floor(along), (y * 4) / SIDE - course];
  const edge = Math.min(u * 1.4, (1 - u) * 1.4, v, 1 - v);
  if (edge < 0.045) return shade(MORTAR, 0.05 * grain(x * 4, y * 4));
  const which = STONES[(course * 3 + (Math.floor(along) % 3)) % STONES.length] as Color;
  const bevel = edge < 0.1 ? (v > 0.5 ? -0.16 : 0.1) : 0;
  return shade(which, bevel + 0.1 * cloud(x * 2, y * 2) + 0.05 * grain(x * 4, y * 4));
}

/** Which way faces look: south, east, north, west, as [down, right]. */
export const HEADINGS: readonly (readonly [down: number, right: number])[] = [
  [1, 0],
  [0, 1],
  [-1, 0],
  [0, -1],
];

class Quads {
  readonly #positions: number[] = [];
  readonly #normals: number[] = [];
  readonly #uvs: number[] = [];
  readonly #triangles: number[] = [];

  /** Corners counter-clockwise seen from the front, from the lower left one. */
  add(
    corners: readonly (readonly [number, number, number])[],
    normal: readonly [number, number, number],
    u = 1,
    v = 1,
  ): void {
    const first = this.#positions.length / 3;
    for (const corner of corners) this.#positions.push(...corner);
    for (let i = 0; i < 4; i++) this.#normals.push(...normal);
    this.#uvs.push(0, v, u, v, u, 0, 0, 0);
    this.#triangles.push(first, first + 1, first + 2, first, first + 2, first + 3);
  }

  /** The side of the wall at (row, column) that looks towards a heading. */
  wall(row: number, column: number, heading: number): void {
    const [down, right] = HEADINGS[heading] as readonly [number, number];
    const [x, z] = [column * CELL + (right * CELL) / 2, row * CELL + (down * CELL) / 2];
    // Seen from the front, left to right.
    const [dx, dz] = [(down * CELL) / 2, (-right * CELL) / 2];
    const corners = [
      [x - dx, 0, z - dz],
      [x + dx, 0, z + dz],
      [x + dx, CELL, z + dz],
      [x - dx, CELL, z - dz],
    ] as const;
    this.add(corners, [right, 0, down]);
  }

  mesh(texture: Texture): Mesh {
    const mesh = meshOf(this.#positions, this.#triangles, this.#normals, this.#uvs);
    return painted(mesh, { color: [255, 255, 255], texture, unlit: true });
  }
}

/** Everything that stands still: walls as seen from free cells, floor and ceiling. */
export function mazeMeshes({ width, height, walls }: Maze, textures: Textures): Mesh[] {
  const sides = new Quads();
  walls.forEach((wall, cell) => {
    if (wall === 0) return;
    const [row, column] = [Math.floor(cell / width), cell % width];
    HEADINGS.forEach(([down, right], heading) => {
      const [r, c] = [row + down, column + right];
      if (r >= 0 && c >= 0 && r < height && c < width && walls[r * width + c] === 0) sides.wall(row, column, heading);
    });
  });
  const [left, top] = [-CELL / 2, -CELL / 2];
  const [right, bottom] = [left + width * CELL, top + height * CELL];
  const floor = new Quads();
  const flat = (y: number, up: boolean): [number, number, number][] =>
    up
      ? [
          [left, y, bottom],
          [right, y, bottom],
          [right, y, top],
          [left, y, top],
        ]
      : [
          [left, y, top],
          [right, y, top],
          [right, y, bottom],
          [left, y, bottom],
        ];
  floor.add(flat(0, true), [0, 1, 0], width, height);
  const ceiling = new Quads();
  ceiling.add(flat(CELL, false), [0, -1, 0], width, height);
  return [sides.mesh(textures.wall), floor.mesh(textures.floor), ceiling.mesh(textures.ceiling)];
}

/** The sides that can only be seen from inside a wall: those of the walls around the cell that the eye is in. */
export function innerSides({ width, height, walls }: Maze, cell: number, texture: Texture): Mesh | undefined {
  if (walls[cell] !== 1) return undefined;
  const [row, column] = [Math.floor(cell / width), cell % width];
  const sides = new Quads();
  let any = false;
  HEADINGS.forEach(([down, right], heading) => {
    const [r, c] = [row + down, column + right];
    if (r < 0 || c < 0 || r >= height || c >= width || walls[r * width + c] === 0) return;
    sides.wall(r, c, (heading + 2) % 4);
    any = true;
  });
  return any ? sides.mesh(texture) : undefined;
}
