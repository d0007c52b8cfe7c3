/**
 * What can be done blind: the best fixed list of moves for the quickstart's held-out lakes, found by trying all of them. `npx jiti bench/blind.ts`.
 * No agent that can't see does better on average; this one even chose its list with these very lakes in sight.
 */
import { makeWorld } from "./saccade.ts";

const [FIRST, LAKES, TURNS] = [1_000_000_000, 256, 8];
const MOVES = { left: [0, -1], down: [1, 0], right: [0, 1], up: [-1, 0] } as const;
type Move = keyof typeof MOVES;

const lakes = await Promise.all(
  Array.from({ length: LAKES }, async (_, i) => {
    const world = await makeWorld("frozen_lake", { minSteps: 3, cellSize: 16 });
    await world.reset(FIRST + i);
    const saved = (await world.save?.()) as { desc: string[] } | undefined;
    return saved?.desc ?? [];
  }),
);

let best = { solved: 0, moves: [] as readonly Move[] };

/** Tries every continuation; `places` are the cells of the lakes that are still being played. */
function search(
  places: ReadonlyMap<string[], readonly [number, number]>,
  solved: number,
  moves: readonly Move[],
): void {
  if (solved > best.solved) best = { solved, moves };
  if (moves.length === TURNS || solved + places.size <= best.solved) return;
  for (const move of Object.keys(MOVES) as Move[]) {
    const [down, right] = MOVES[move];
    const next = new Map<string[], readonly [number, number]>();
    let reached = solved;
    for (const [lake, [row, column]] of places) {
      const stay = (at: number) => Math.min(lake.length - 1, Math.max(0, at));
      const to = [stay(row + down), stay(column + right)] as const;
      const cell = lake[to[0]]?.[to[1]];
      if (cell === "G") reached += 1;
      else if (cell !== "H") next.set(lake, to);
    }
    search(next, reached, [...moves, move]);
  }
}

const starts = lakes.map((lake): [string[], readonly [number, number]] => {
  const row = lake.findIndex((line) => line.includes("S"));
  return [lake, [row, lake[row]?.indexOf("S") ?? 0]];
});
search(new Map(starts), 0, []);
console.log(`${(best.solved / LAKES).toFixed(3)} of ${LAKES} lakes: ${best.moves.join(", ")}`);
