/**
 * A Sokoban room and its one rule. Rooms are never changed: a move gives a new one. Cells are numbered row by row, and
 * a cell's kind follows gym-sokoban's numbering (0 wall … 5 player), which is also the order of `SYMBOLS`.
 * As text a room is one string per row, one symbol per cell; saved episodes, the `room` option and the text view share it.
 */
export const WALL = 0;
export const FLOOR = 1;
export const TARGET = 2;
export const BOX_ON_TARGET = 3;
export const BOX = 4;
export const PLAYER = 5;
export const PLAYER_ON_TARGET = 6;

export const SYMBOLS = ["#", "_", "O", "√", "X", "P", "S"] as const;

/** Upper limits that keep a packed state (player and boxes, see `stateKey`) within 2^53. */
export const MAX_SIDE = 16;
export const MAX_BOXES = 5;

export type Room = {
  readonly width: number;
  readonly height: number;
  /** WALL, FLOOR or TARGET per cell; the outermost cells are walls, so a step never leaves the array. */
  readonly fixed: Uint8Array;
  readonly targets: readonly number[];
  /** As many as targets, ascending. */
  readonly boxes: readonly number[];
  readonly player: number;
};

export const DIRECTIONS = ["up", "down", "left", "right"] as const;
export type Direction = (typeof DIRECTIONS)[number];

/** What one step in a direction adds to a cell's number. */
export function stepOf(direction: Direction, width: number): number {
  switch (direction) {
    case "up":
      return -width;
    case "down":
      return width;
    case "left":
      return -1;
    case "right":
      return 1;
  }
}

export function cellKind(room: Room, cell: number): number {
  const fixed = room.fixed[cell] ?? WALL;
  if (cell === room.player) return fixed === TARGET ? PLAYER_ON_TARGET : PLAYER;
  if (room.boxes.includes(cell)) return fixed === TARGET ? BOX_ON_TARGET : BOX;
  return fixed;
}

/** The room after a walk or a push; undefined when a wall or a box that can't move is in the way. */
export function move(room: Room, direction: Direction): Room | undefined {
  const step = stepOf(direction, room.width);
  const player = room.player + step;
  if (room.fixed[player] === WALL) return undefined;
  if (!room.boxes.includes(player)) return { ...room, player };
  const beyond = player + step;
  if (room.fixed[beyond] === WALL || room.boxes.includes(beyond)) return undefined;
  return { ...room, player, boxes: moveBox(room.boxes, player, beyond) };
}

export function moveBox(boxes: readonly number[], from: number, to: number): number[] {
  return boxes.map((box) => (box === from ? to : box)).sort((a, b) => a - b);
}

export function isSolved(room: Room): boolean {
  return room.boxes.every((box) => room.fixed[box] === TARGET);
}

/** Names a state of the moving parts among all states of a room. `boxes` ascend. */
export function stateKey(player: number, boxes: readonly number[]): number {
  let key = player;
  for (const box of boxes) key = key * (MAX_SIDE * MAX_SIDE) + box;
  return key;
}

export function roomRows(room: Room): string[] {
  return Array.from({ length: room.height }, (_, row) =>
    Array.from({ length: room.width }, (_, column) => SYMBOLS[cellKind(room, row * room.width + column)]).join(""),
  );
}

/** Reads a room; `fail` makes the error for the sentence that says what is wrong with the text. */
export function parseRoom(rows: readonly string[], fail: (problem: string) => Error): Room {
  const height = rows.length;
  const width = rows[0]?.length ?? 0;
  if (Math.min(width, height) < 3 || Math.max(width, height) > MAX_SIDE) {
    throw fail(`a room has 3 to ${MAX_SIDE} rows of 3 to ${MAX_SIDE} symbols, got ${height} rows of ${width}`);
  }
  const fixed = new Uint8Array(width * height);
  const targets: number[] = [];
  const boxes: number[] = [];
  const players: number[] = [];
  for (const [row, symbols] of rows.entries()) {
    if (symbols.length !== width) {
      throw fail(`row ${row + 1} has ${symbols.length} symbols where the first has ${width}; make them equally long`);
    }
    for (let column = 0; column < width; column++) {
      const cell = row * width + column;
      const kind = (SYMBOLS as readonly string[]).indexOf(symbols[column] ?? "");
      if (kind < 0) {
        throw fail(`row ${row + 1} holds "${symbols[column]}", but a cell is one of ${SYMBOLS.join(" ")}`);
      }
      if (kind !== WALL && (row === 0 || column === 0 || row === height - 1 || column === width - 1)) {
        throw fail(`row ${row + 1}, column ${column + 1} is on the border and must be a wall (#)`);
      }
      const onTarget = kind === TARGET || kind === BOX_ON_TARGET || kind === PLAYER_ON_TARGET;
      fixed[cell] = kind === WALL ? WALL : onTarget ? TARGET : FLOOR;
      if (onTarget) targets.push(cell);
      if (kind === BOX || kind === BOX_ON_TARGET) boxes.push(cell);
      if (kind === PLAYER || kind === PLAYER_ON_TARGET) players.push(cell);
    }
  }
  const player = players[0];
  if (player === undefined || players.length > 1) {
    throw fail(`a room has one player (P, or S on a target), got ${players.length}`);
  }
  if (boxes.length < 1 || boxes.length > MAX_BOXES || boxes.length !== targets.length) {
    throw fail(`a room has 1 to ${MAX_BOXES} boxes and as many targets, got ${boxes.length} and ${targets.length}`);
  }
  return { width, height, fixed, targets, boxes, player };
}
