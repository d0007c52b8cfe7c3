/**
 * The board of `sliding_block`: ten blocks on five rows of four cells, one-cell slides, and shortest plans between two
 * layouts. Blocks keep their identity (two blocks of one shape are not interchangeable), so a layout is the cell of
 * each block's top-left corner, `row * 4 + column`, 5 bits each: 50 bits in two whole numbers.
 * Slides can be undone, so the search runs from both ends and meets in the middle; without that, a plan of 25 slides
 * would visit some hundred times as many layouts.
 */

export const ROWS = 5;
export const COLUMNS = 4;
const CELLS = ROWS * COLUMNS;

export type Block = {
  readonly id: number;
  readonly rows: number;
  readonly columns: number;
  readonly color: "red" | "green" | "blue" | "yellow";
  /** Where an episode starts. */
  readonly start: readonly [row: number, column: number];
};

function block(id: number, rows: number, columns: number, color: Block["color"], row: number, column: number): Block {
  return { id, rows, columns, color, start: [row, column] };
}

export const BLOCKS: readonly Block[] = [
  block(1, 2, 2, "red", 0, 1),
  block(2, 1, 2, "green", 2, 1),
  block(3, 2, 1, "blue", 0, 0),
  block(4, 2, 1, "blue", 0, 3),
  block(5, 2, 1, "blue", 2, 0),
  block(6, 2, 1, "blue", 2, 3),
  block(7, 1, 1, "yellow", 4, 0),
  block(8, 1, 1, "yellow", 4, 3),
  block(9, 1, 1, "yellow", 3, 1),
  block(10, 1, 1, "yellow", 3, 2),
];

/** Top-left cell of each block, in the order of `BLOCKS`. */
export type Layout = Uint8Array;

/** A slide of `BLOCKS[index]` by one cell; directions are 0 up, 1 right, 2 down, 3 left. */
export type Slide = { readonly index: number; readonly direction: number };

const DIRECTIONS = [
  [-1, 0],
  [0, 1],
  [1, 0],
  [0, -1],
] as const;

/** `MASKS[index * 20 + cell]`: the cells the block covers there, one bit each; 0 where it would stick out. */
const MASKS = new Int32Array(BLOCKS.length * CELLS);
/** `STEPS[(index * 20 + cell) * 4 + direction]`: the cell a slide leads to, -1 off the board. */
const STEPS = new Int8Array(BLOCKS.length * CELLS * 4).fill(-1);

for (const [index, { rows, columns }] of BLOCKS.entries()) {
  const fits = (row: number, column: number) =>
    row >= 0 && column >= 0 && row + rows <= ROWS && column + columns <= COLUMNS;
  for (let cell = 0; cell < CELLS; cell++) {
    const row = Math.floor(cell / COLUMNS);
    const column = cell % COLUMNS;
    if (!fits(row, column)) continue;
    let mask = 0;
    for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) mask |= 1 << (cell + r * COLUMNS + c);
    MASKS[index * CELLS + cell] = mask;
    for (const [direction, [dr, dc]] of DIRECTIONS.entries()) {
      if (fits(row + dr, column + dc)) {
        STEPS[(index * CELLS + cell) * 4 + direction] = cell + dr * COLUMNS + dc;
      }
    }
  }
}

/** The cells that a block covers at `cell`, one bit each; 0 when it does not fit there. */
export function cellsCovered(index: number, cell: number): number {
  return MASKS[index * CELLS + cell] ?? 0;
}

function occupied(layout: Layout): number {
  let mask = 0;
  for (let i = 0; i < layout.length; i++) mask |= MASKS[i * CELLS + (layout[i] as number)] as number;
  return mask;
}

/** Where a slide takes the block, or what stops it: the edge of the board, or taken cells, one bit each. */
export function trySlide(layout: Layout, { index, direction }: Slide): { cell: number } | { blocked: number | "edge" } {
  const from = layout[index] as number;
  const cell = STEPS[(index * CELLS + from) * 4 + direction] as number;
  if (cell < 0) return { blocked: "edge" };
  const blocked = occupied(layout) & ~cellsCovered(index, from) & cellsCovered(index, cell);
  return blocked === 0 ? { cell } : { blocked };
}

export function slides(layout: Layout): Slide[] {
  const found: Slide[] = [];
  for (let index = 0; index < layout.length; index++) {
    for (let direction = 0; direction < 4; direction++) {
      if ("cell" in trySlide(layout, { index, direction })) found.push({ index, direction });
    }
  }
  return found;
}

/** One end of the search: layouts in the order they were reached, with a hash table to find them again. */
class Tree {
  size = 0;
  /** Nodes `[frontier, size)` are the last level. */
  frontier = 0;
  high = new Int32Array(4096);
  low = new Int32Array(4096);
  parent = new Int32Array(4096);
  /** `index * 4 + direction` of the slide that led here. */
  slide = new Uint8Array(4096);
  /** Node + 1 by hash, open addressing, at most half full. */
  #table = new Int32Array(8192);

  constructor(root: Layout) {
    let high = 0;
    let low = 0;
    for (let i = 0; i < 5; i++) {
      high |= (root[i] as number) << (5 * i);
      low |= (root[i + 5] as number) << (5 * i);
    }
    this.add(high, low, -1, 0);
  }

  #slot(high: number, low: number): number {
    const mask = this.#table.length - 1;
    let hash = Math.imul(high, 0x9e3779b1) ^ Math.imul(low, 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
    let slot = (hash ^ (hash >>> 13)) & mask;
    for (;;) {
      const node = (this.#table[slot] as number) - 1;
      if (node < 0 || (this.high[node] === high && this.low[node] === low)) return slot;
      slot = (slot + 1) & mask;
    }
  }

  /** The node of a layout, -1 when it was not reached. */
  find(high: number, low: number): number {
    return (this.#table[this.#slot(high, low)] as number) - 1;
  }

  /** The new node, -1 when the layout is already known. */
  add(high: number, low: number, parent: number, slide: number): number {
    const slot = this.#slot(high, low);
    if (this.#table[slot] !== 0) return -1;
    const node = this.size++;
    this.high[node] = high;
    this.low[node] = low;
    this.parent[node] = parent;
    this.slide[node] = slide;
    this.#table[slot] = node + 1;
    if (this.size === this.high.length) this.#grow();
    return node;
  }

  #grow(): void {
    const length = this.size * 2;
    const wider = (old: Int32Array) => {
      const grown = new Int32Array(length);
      grown.set(old);
      return grown;
    };
    this.high = wider(this.high);
    this.low = wider(this.low);
    this.parent = wider(this.parent);
    const slide = new Uint8Array(length);
    slide.set(this.slide);
    this.slide = slide;
    this.#table = new Int32Array(length * 2);
    for (let node = 0; node < this.size; node++) {
      this.#table[this.#slot(this.high[node] as number, this.low[node] as number)] = node + 1;
    }
  }

  /** Reaches one level further. Returns the node where it meets the other tree, -1 when it does not. */
  deepen(other: Tree): number {
    const end = this.size;
    const cells = new Uint8Array(BLOCKS.length);
    for (let node = this.frontier; node < end; node++) {
      const high = this.high[node] as number;
      const low = this.low[node] as number;
      for (let i = 0; i < 5; i++) {
        cells[i] = (high >> (5 * i)) & 31;
        cells[i + 5] = (low >> (5 * i)) & 31;
      }
      const taken = occupied(cells);
      for (let index = 0; index < cells.length; index++) {
        const at = index * CELLS + (cells[index] as number);
        const others = taken & ~(MASKS[at] as number);
        for (let direction = 0; direction < 4; direction++) {
          const to = STEPS[at * 4 + direction] as number;
          if (to < 0 || (others & (MASKS[index * CELLS + to] as number)) !== 0) continue;
          const shift = 5 * (index % 5);
          const change = (to - (cells[index] as number)) * (1 << shift);
          const nextHigh = index < 5 ? high + change : high;
          const nextLow = index < 5 ? low : low + change;
          const added = this.add(nextHigh, nextLow, node, index * 4 + direction);
          if (added >= 0 && other.find(nextHigh, nextLow) >= 0) return added;
        }
      }
    }
    this.frontier = end;
    return -1;
  }

  /** Slides from `node` back to the root, last first. */
  path(node: number): Slide[] {
    const found: Slide[] = [];
    for (let at = node; (this.parent[at] as number) >= 0; at = this.parent[at] as number) {
      const slide = this.slide[at] as number;
      found.push({ index: slide >> 2, direction: slide & 3 });
    }
    return found;
  }
}

/**
 * A shortest plan, or undefined when `to` cannot be reached or is too far. `limit` bounds the layouts that are visited:
 * two million take a second or two and are enough for 120 slides; play stays within some 60, a few milliseconds.
 */
export function shortestSlides(from: Layout, to: Layout, limit = 2_000_000): Slide[] | undefined {
  if (from.every((cell, i) => cell === to[i])) return [];
  const forward = new Tree(from);
  const backward = new Tree(to);
  while (forward.size + backward.size < limit) {
    const fromStart = forward.size - forward.frontier <= backward.size - backward.frontier;
    const [tree, other] = fromStart ? [forward, backward] : [backward, forward];
    if (tree.frontier === tree.size) return undefined;
    const node = tree.deepen(other);
    if (node < 0) continue;
    const high = tree.high[node] as number;
    const low = tree.low[node] as number;
    const undo = backward.path(backward.find(high, low));
    return [
      ...forward.path(forward.find(high, low)).reverse(),
      ...undo.map(({ index, direction }) => ({ index, direction: (direction + 2) % 4 })),
    ];
  }
  return undefined;
}
