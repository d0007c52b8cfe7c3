/**
 * matchstick_equation (VisGym): an equation of matches that is wrong; move matches, one per action and as many as it was
 * broken by, until it holds, then stop. A move takes the match on one segment of a symbol and lays it on a free segment
 * of another, and both must still be symbols. Only `stop` ends the episode and pays, for any equation that holds by
 * Python's arithmetic. Seeds give the same equations as VisGym's.
 */
import { z } from "zod";
import { EnvError, isJsonObject, type Json, NumpyRandom } from "../../src/core/index.ts";
import {
  type Action,
  type ActionSpec,
  act,
  bare,
  defineWorld,
  type Observation,
  type ObservationMode,
  type Outcome,
  type PromptStyle,
  stopAction,
  type World,
} from "../../src/envs/index.ts";
import {
  isSymbol,
  laying,
  MAX_SYMBOLS,
  SEGMENT_COUNT,
  SymbolPainter,
  segmentsOf,
  taking,
  writeSymbols,
} from "./glyphs.ts";
import { isEquationCorrect } from "./python-eval.ts";

const options = z.strictObject({
  breakMoves: z
    .int()
    .min(1)
    .max(3)
    .default(1)
    .describe(
      "Number of moves that break the equation. At most this many moves may stand when it is repaired; undone moves do not count.",
    ),
  enforceMinDistance: z.boolean().default(true).describe("Refuse equations that fewer than `breakMoves` moves repair."),
  width: z
    .int()
    .min(48)
    .max(1200)
    .default(300)
    .describe("Width of the frame, in pixels. Frames under 160 × 48 carry no index labels."),
  height: z.int().min(16).max(320).default(80).describe("Height of the frame, in pixels."),
  retryLimit: z
    .int()
    .min(0)
    .max(10_000)
    .default(300)
    .describe("Number of random equations to try before taking the first move that breaks one."),
});

type Symbols = readonly string[];
/** From symbol, its segment, to symbol, its segment. */
type Move = readonly [from: number, taken: number, to: number, laid: number];

export class MatchstickEquation implements World {
  readonly actions: readonly ActionSpec[] = [
    {
      name: "move",
      description:
        "take the match on segment from_segment of symbol from_symbol and lay it on segment to_segment of symbol to_symbol",
      arg: {
        type: "list",
        items: [
          { type: "int", name: "from_symbol", min: 0, max: MAX_SYMBOLS - 1 },
          { type: "int", name: "from_segment", min: 0, max: SEGMENT_COUNT - 1 },
          { type: "int", name: "to_symbol", min: 0, max: MAX_SYMBOLS - 1 },
          { type: "int", name: "to_segment", min: 0, max: SEGMENT_COUNT - 1 },
        ],
      },
      example: [0, 6, 2, 0],
    },
    bare("undo", "take back the last move", 4),
    stopAction("end the episode, once the equation holds"),
  ];

  readonly #options: z.output<typeof options>;
  readonly #painter: SymbolPainter;
  /** The equation before every move made, then as it is now. */
  #history: Symbols[] = [];
  #moves: Move[] = [];
  #stopped = false;

  constructor(given: z.output<typeof options>) {
    this.#options = given;
    this.#painter = new SymbolPainter(given.width, given.height);
    this.reset(0);
  }

  reset(seed: number): void {
    this.#history = [generate(new NumpyRandom(seed), this.#options)];
    this.#moves = [];
    this.#stopped = false;
  }

  get #symbols(): Symbols {
    return this.#history[this.#history.length - 1] as Symbols;
  }

  success(): boolean {
    return this.#stopped && holds(this.#symbols);
  }

  act(action: Action): Outcome {
    if (this.#stopped) return { valid: false, feedback: "The episode is over.", reward: 0, ended: true };
    switch (action.name) {
      case "stop":
        this.#stopped = true;
        return this.success()
          ? { valid: true, feedback: "You stopped, and the equation holds.", reward: 1, ended: true }
          : { valid: true, feedback: "You stopped, but the equation does not hold.", reward: 0, ended: true };
      case "undo":
        if (this.#moves.length === 0) return refused("There is no move to undo.");
        this.#history.pop();
        this.#moves.pop();
        return { valid: true, reward: 0, ended: false };
      default: {
        if (this.#moves.length >= this.#options.breakMoves) {
          return refused(`You have used ${moveCount(this.#options.breakMoves)}, which is all you have; undo first.`);
        }
        const move = action.payload as unknown as Move;
        const next = moved(this.#symbols, move);
        if (next === undefined) return refused(whyIllegal(this.#symbols, move));
        this.#history.push(next);
        this.#moves.push(move);
        return { valid: true, reward: 0, ended: false };
      }
    }
  }

  observe(mode: ObservationMode): Observation {
    return mode === "text" ? writeSymbols(this.#symbols) : this.#painter.paint(this.#symbols);
  }

  task(style: PromptStyle, mode: ObservationMode): string {
    const { breakMoves } = this.#options;
    if (style === "brief")
      return `Move ${breakMoves === 1 ? "one match" : `${breakMoves} matches`} so the equation holds, then stop.`;
    const view =
      mode === "text"
        ? "You see an equation laid out in matches, drawn in characters"
        : "You see an equation laid out in matches";
    return (
      `${view}; the number under each symbol is its index, counted from 0. The equation is wrong. Repair it with at most ` +
      `${moveCount(breakMoves)}, then stop. A move takes one match from a symbol and lays it on a free place of another ` +
      "symbol, and both must be digits or signs afterwards. An undone move does not count. Places are numbered by segment: " +
      "0 top, 1 upper right, 2 lower right, 3 bottom, 4 lower left, 5 upper left, 6 middle (also the bar of + and -), " +
      "7 the upright of +, 8 the stroke \\ and 9 the stroke / (the sign / is 9 alone, the sign * is 8 and 9), " +
      "11 and 12 the bars of =. You succeed if both sides have the same value when you stop; any equation that holds " +
      "will do, with * and / before + and -, and without numbers such as 07."
    );
  }

  /** The fewest undos and moves that make the equation hold, undos first, within the moves that are left then. */
  solve(): Action[] {
    if (this.#stopped) return [];
    let best: Action[] | undefined;
    for (let undos = 0; undos < this.#history.length; undos++) {
      const made = this.#moves.length - undos;
      const depth = Math.max(0, this.#options.breakMoves - made);
      const toBeat = best === undefined ? Infinity : best.length - 1 - undos;
      if (toBeat < 0) break;
      const repair = shortestRepair(this.#history[made] as Symbols, Math.min(depth, toBeat));
      if (repair === undefined) continue;
      best = [...new Array<Action>(undos).fill(act("undo")), ...repair.map((move) => act("move", move))];
    }
    return best === undefined ? [] : [...best, act("stop")];
  }

  /** VisGym's `init_state`, and the moves made since. */
  save(): Json {
    return { broken: this.#history[0] as Symbols, moves: this.#moves, stopped: this.#stopped };
  }

  load(state: Json): void {
    if (!isJsonObject(state)) throw new EnvError("A matchstick_equation state must be an object with a list `broken`.");
    const { broken, moves = [], stopped = false } = state;
    if (!Array.isArray(broken) || broken.length < 1 || broken.length > MAX_SYMBOLS || !broken.every(isSymbol)) {
      throw new EnvError(`broken must be a list of 1 to ${MAX_SYMBOLS} symbols, each one of 0123456789+-*/=.`);
    }
    if (!Array.isArray(moves)) throw new EnvError("moves must be a list of moves.");
    if (typeof stopped !== "boolean") throw new EnvError("stopped must be true or false.");
    const history: Symbols[] = [[...broken]];
    for (const [at, move] of moves.entries()) {
      const next = isMove(move) ? moved(history[at] as Symbols, move) : undefined;
      if (next === undefined) throw new EnvError(`moves[${at}] must be a legal [from, segment, to, segment].`);
      history.push(next);
    }
    this.#history = history;
    this.#moves = moves.map((move) => [...move] as unknown as Move);
    this.#stopped = stopped;
  }
}

function refused(feedback: string): Outcome {
  return { valid: false, feedback, reward: 0, ended: false };
}

function moveCount(count: number): string {
  return count === 1 ? "1 move" : `${count} moves`;
}

function isMove(value: Json): value is Move {
  return Array.isArray(value) && value.length === 4 && value.every((part) => Number.isInteger(part));
}

function holds(symbols: Symbols): boolean {
  return isEquationCorrect(symbols.join(""));
}

/** The row after a move; undefined when it is not legal. */
function moved(symbols: Symbols, [from, taken, to, laid]: Move): Symbols | undefined {
  if (from === to) return undefined;
  const left = taking(symbols[from] ?? "").get(taken);
  const right = laying(symbols[to] ?? "").get(laid);
  if (left === undefined || right === undefined) return undefined;
  return symbols.map((symbol, index) => (index === from ? left : index === to ? right : symbol));
}

function whyIllegal(symbols: Symbols, [from, taken, to, laid]: Move): string {
  const [source, target] = [symbols[from], symbols[to]];
  if (source === undefined || target === undefined) {
    return `There is no symbol ${source === undefined ? from : to}; they are numbered 0 to ${symbols.length - 1}.`;
  }
  if (from === to) return "A match must move from one symbol to another.";
  if (!segmentsOf(source).includes(taken)) return `Symbol ${from} has no match on segment ${taken}.`;
  if (segmentsOf(target).includes(laid)) return `Symbol ${to} already has a match on segment ${laid}.`;
  return taking(source).has(taken)
    ? `With a match on segment ${laid}, symbol ${to} would be no digit or sign.`
    : `Without the match on segment ${taken}, symbol ${from} would be no digit or sign.`;
}

/** Every legal move, in ascending order of its numbers. */
function* legalMoves(symbols: Symbols): Generator<Move> {
  for (const [from, source] of symbols.entries()) {
    for (const taken of taking(source).keys()) {
      for (const [to, target] of symbols.entries()) {
        if (to === from) continue;
        for (const laid of laying(target).keys()) yield [from, taken, to, laid];
      }
    }
  }
}

/** Breadth-first: the fewest moves, at most `depth`, after which the equation holds. */
function shortestRepair(symbols: Symbols, depth: number): Move[] | undefined {
  if (holds(symbols)) return [];
  let frontier: { symbols: Symbols; path: Move[] }[] = [{ symbols, path: [] }];
  const seen = new Set([symbols.join("")]);
  for (let level = 1; level <= depth; level++) {
    const next: typeof frontier = [];
    for (const { symbols: current, path } of frontier) {
      for (const move of legalMoves(current)) {
        const after = moved(current, move) as Symbols;
        const key = after.join("");
        if (seen.has(key)) continue;
        seen.add(key);
        if (isEquationCorrect(key)) return [...path, move];
        next.push({ symbols: after, path: [...path, move] });
      }
    }
    frontier = next;
  }
  return undefined;
}

/** VisGym's recipe, draw for draw. */
function generate(random: NumpyRandom, given: z.output<typeof options>): Symbols {
  let whole: Symbols = [];
  for (let attempt = 0; attempt < given.retryLimit; attempt++) {
    whole = [...drawEquation(random)];
    const broken = breakEquation(random, whole, given.breakMoves);
    if (broken === undefined || holds(broken)) continue;
    if (given.enforceMinDistance && shortestRepair(broken, given.breakMoves - 1) !== undefined) continue;
    return broken;
  }
  for (const equation of [whole, [..."1+1=2"]]) {
    for (const move of legalMoves(equation)) {
      const broken = moved(equation, move);
      if (broken !== undefined && !holds(broken)) return broken;
    }
  }
  throw new EnvError("No equation could be broken.");
}

function drawEquation(random: NumpyRandom): string {
  const upTo = (high: number) => random.integers(0, high + 1);
  switch (random.integers(0, 5)) {
    case 0: {
      const [a, b] = [upTo(99), upTo(99)];
      return `${a}+${b}=${a + b}`;
    }
    case 1: {
      const a = upTo(99);
      const b = upTo(a);
      return `${a}-${b}=${a - b}`;
    }
    case 2: {
      const [a, b] = [upTo(20), upTo(20)];
      return `${a}*${b}=${a * b}`;
    }
    case 3: {
      const [b, c] = [random.integers(1, 21), upTo(20)];
      return `${b * c}/${b}=${c}`;
    }
    default: {
      const [a, b, c] = [upTo(20), upTo(20), upTo(10)];
      return `${a}+${b}*${c}=${a + b * c}`;
    }
  }
}

const BREAK_TRIES = 200;

function breakEquation(random: NumpyRandom, whole: Symbols, count: number): Symbols | undefined {
  let symbols: Symbols | undefined = whole;
  for (let move = 0; move < count && symbols !== undefined; move++) symbols = randomMove(random, symbols);
  return symbols;
}

function randomMove(random: NumpyRandom, symbols: Symbols): Symbols | undefined {
  for (let tries = 0; tries < BREAK_TRIES; tries++) {
    const from = random.integers(0, symbols.length);
    const to = random.integers(0, symbols.length);
    if (from === to) continue;
    const source = segmentsOf(symbols[from] as string);
    const target = segmentsOf(symbols[to] as string);
    // Shuffled whole, legal or not, because VisGym does and the draws must stay in step.
    const present = [...source];
    const absent = Array.from({ length: SEGMENT_COUNT }, (_, segment) => segment).filter((s) => !target.includes(s));
    random.shuffle(present);
    random.shuffle(absent);
    const taken = present.find((segment) => taking(symbols[from] as string).has(segment));
    const laid = absent.find((segment) => laying(symbols[to] as string).has(segment));
    if (taken !== undefined && laid !== undefined) return moved(symbols, [from, taken, to, laid]);
  }
  return undefined;
}

export const matchstickEquation = defineWorld({
  id: "matchstick_equation",
  summary: "move matches until an equation holds, then stop",
  options,
  difficulties: { easy: { breakMoves: 1 }, hard: { breakMoves: 2 } },
  variants: {
    eval: { easy: { enforceMinDistance: true }, hard: { enforceMinDistance: true } },
    registered: { easy: {}, hard: {} },
  },
  protocol: "tuple",
  maxTurns: { easy: 20, hard: 30 },
  create: (given) => new MatchstickEquation(given),
});
