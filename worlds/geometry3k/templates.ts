/** The figures and laws of the generated problems, by kind. Each template draws its numbers and puts its points where they truly are. */
import type { Point } from "../../src/images/index.ts";
import { adds, equals, type Law, proportion, pythagoras, sumsTo, times } from "./check.ts";
import { type Exact, fraction, root, whole } from "./exact.ts";
import { distance, type Figure } from "./figure.ts";
import type { Dice, Draft, Kind } from "./problems.ts";

type Template = (dice: Dice) => Draft | undefined;
type Angle = readonly [string, string, string];

const at = (degrees: number, radius = 1, [x, y]: Point = [0, 0]): Point => [
  x + radius * Math.cos((degrees * Math.PI) / 180),
  y + radius * Math.sin((degrees * Math.PI) / 180),
];
/** Lines between points, written `"AB OC"`. */
const pairs = (lines: string) => lines.split(" ").map(([a = "", b = ""]): readonly [string, string] => [a, b]);

const FIND_X = "Find x.";

/** The smallest angle that a label fits in. */
const MIN_ANGLE = 30;

type AngleProblem = {
  readonly figure: Omit<Figure, "angles" | "letters"> & { readonly letters?: readonly string[] };
  /** What is labelled with a number, by name; what is labelled x. */
  readonly known: Readonly<Record<string, readonly [arms: Angle, degrees: number]>>;
  readonly x: readonly [arms: Angle, degrees: number];
  readonly laws: readonly Law[];
  readonly steps: string;
  readonly told?: string;
  readonly right?: readonly Angle[];
};

/** A problem whose givens and answer are angles. */
function angleProblem({ figure, known, x, laws, steps, told = "", right = [] }: AngleProblem): Draft {
  const [arms, degrees] = x;
  return {
    figure: {
      ...figure,
      letters: figure.letters ?? Object.keys(figure.points),
      angles: [
        ...Object.values(known).map(([of, size]) => ({ arms: of, label: String(size) })),
        { arms, label: "x" },
        ...right.map((of) => ({ arms: of, right: true })),
      ],
    },
    quantities: {
      ...Object.fromEntries(Object.entries(known).map(([name, [of]]) => [name, { angle: of }])),
      x: { angle: arms },
    },
    given: Object.fromEntries(Object.entries(known).map(([name, [, size]]) => [name, size])),
    laws,
    sought: "x",
    answer: whole(degrees),
    told,
    question: FIND_X,
    steps,
  };
}

const linearPair: Template = (dice) => {
  const a = dice.angle(MIN_ANGLE, 180 - MIN_ANGLE);
  const points = { A: at(180), O: [0, 0] as Point, B: at(0), C: at(180 - a) };
  return angleProblem({
    figure: {
      points,
      segments: pairs("AB OC"),
    },
    known: { a: [["A", "O", "C"], a] },
    x: [["C", "O", "B"], 180 - a],
    laws: [sumsTo(180, "a", "x")],
    steps: `180-${a}=${180 - a}`,
    told: "AB is a straight line.",
  });
};

const crossing: Template = (dice) => {
  const a = dice.angle(40, 140);
  if (a === 90) return undefined;
  const points = { A: at(180), B: at(0), O: [0, 0] as Point, C: at(180 - a), D: at(-a) };
  const vertical = dice.pick([true, false]);
  return angleProblem({
    figure: {
      points,
      segments: pairs("AB CD"),
    },
    known: { a: [["A", "O", "C"], a] },
    x: vertical ? [["D", "O", "B"], a] : [["C", "O", "B"], 180 - a],
    laws: [vertical ? equals("a", "x") : sumsTo(180, "a", "x")],
    steps: vertical ? `x=${a}` : `180-${a}=${180 - a}`,
    told: "AB and CD cross at O.",
  });
};

/** Corners A at the origin, B to its right, C above, with these angles. */
function triangle(a: number, b: number, base = 1): { A: Point; B: Point; C: Point } {
  const c = 180 - a - b;
  const side = (base * Math.sin((b * Math.PI) / 180)) / Math.sin((c * Math.PI) / 180);
  return { A: [0, 0], B: [base, 0], C: at(a, side) };
}

const SIDES = pairs("AB BC CA");

const triangleSum: Template = (dice) => {
  const [a, b] = [dice.angle(MIN_ANGLE + 5, 100), dice.angle(MIN_ANGLE + 5, 100)];
  const c = 180 - a - b;
  if (c < MIN_ANGLE + 5) return undefined;
  const corners: readonly (readonly [Angle, number])[] = [
    [["C", "A", "B"], a],
    [["A", "B", "C"], b],
    [["B", "C", "A"], c],
  ];
  const hidden = dice.integer(0, 2);
  const [first, second] = corners.filter((_, i) => i !== hidden) as [
    (typeof corners)[number],
    (typeof corners)[number],
  ];
  const x = corners[hidden] as (typeof corners)[number];
  return angleProblem({
    figure: { points: triangle(a, b), segments: SIDES },
    known: { a: first, b: second },
    x,
    laws: [sumsTo(180, "a", "b", "x")],
    steps: `180-${first[1]}-${second[1]}=${x[1]}`,
  });
};

const exterior: Template = (dice) => {
  const [a, b] = [dice.angle(MIN_ANGLE + 5, 90), dice.angle(MIN_ANGLE + 5, 110)];
  const c = 180 - a - b;
  if (c < MIN_ANGLE + 5) return undefined;
  const points = { ...triangle(a, b), D: [1.6, 0] as Point };
  return angleProblem({
    figure: {
      points,
      segments: pairs("AD BC CA"),
    },
    known: { a: [["C", "A", "B"], a], c: [["B", "C", "A"], c] },
    x: [["C", "B", "D"], 180 - b],
    laws: [adds("x", "a", "c")],
    steps: `${a}+${c}=${a + c}`,
    told: "A, B and D lie on a line.",
  });
};

const isosceles: Template = (dice) => {
  const apex = dice.angle(MIN_ANGLE + 5, 110);
  if (apex % 2 === 1) return undefined;
  const base = (180 - apex) / 2;
  const known: Readonly<Record<string, readonly [Angle, number]>> = { a: [["A", "C", "B"], apex] };
  const upright = dice.pick([true, false]);
  return angleProblem({
    figure: {
      points: triangle(base, base),
      segments: SIDES,
      ticks: pairs("AC BC"),
    },
    known: upright ? known : { b: [["C", "A", "B"], base] },
    x: upright ? [["C", "B", "A"], base] : [["A", "C", "B"], apex],
    laws: [upright ? half("x", "a") : half("b", "x")],
    steps: upright ? `(180-${apex})/2=${base}` : `180-2*${base}=${apex}`,
    told: "Sides with a tick are equal.",
  });
};

/** Base angles of an isosceles triangle, of its apex. */
const half = (base: string, apex: string): Law => ({ of: [base, apex], zero: ([x = 0, a = 0]) => 2 * x + a - 180 });

const rightSplit: Template = (dice) => {
  const a = dice.angle(MIN_ANGLE, 90 - MIN_ANGLE);
  const points = { O: [0, 0] as Point, A: at(0), B: at(90), C: at(a) };
  return angleProblem({
    figure: {
      points,
      segments: pairs("OA OB OC"),
    },
    known: { a: [["A", "O", "C"], a] },
    x: [["C", "O", "B"], 90 - a],
    laws: [sumsTo(90, "a", "x")],
    steps: `90-${a}=${90 - a}`,
    told: "OA and OB are perpendicular.",
  });
};

const parallels: Template = (dice) => {
  const a = dice.angle(45, 135);
  if (a === 90) return undefined;
  const gap = 0.9;
  const [P, Q]: [Point, Point] = [
    [0, 0],
    [gap / Math.tan((a * Math.PI) / 180), gap],
  ];
  const mid = Q[0] / 2;
  const points: Record<string, Point> = {
    P,
    Q,
    A: [mid - 1.1, gap],
    B: [mid + 1.1, gap],
    C: [mid - 1.1, 0],
    D: [mid + 1.1, 0],
    E: at(a, 0.65, Q),
    F: at(a + 180, 0.65, P),
  };
  const corner: Record<string, readonly [Angle, number]> = {
    above: [["E", "Q", "B"], a],
    inner: [["A", "Q", "P"], a],
    beside: [["B", "Q", "P"], 180 - a],
    low: [["Q", "P", "D"], a],
    under: [["C", "P", "F"], a],
  };
  const [from, to, law, why] = dice.pick([
    ["above", "low", equals("a", "x"), "corresponding angles"],
    ["inner", "low", equals("a", "x"), "alternate angles"],
    ["beside", "low", sumsTo(180, "a", "x"), "angles between parallels"],
    ["above", "under", equals("a", "x"), "alternate angles"],
  ] as const);
  const [known, x] = [corner[from], corner[to]] as [readonly [Angle, number], readonly [Angle, number]];
  return angleProblem({
    figure: {
      points,
      letters: ["A", "B", "C", "D"],
      segments: pairs("AB CD EF"),
      arrows: pairs("AB CD"),
    },
    known: { a: known },
    x,
    laws: [law],
    steps: why === "angles between parallels" ? `180-${known[1]}=${x[1]}` : `x=${x[1]}`,
    told: "AB and CD are parallel.",
  });
};

type LengthProblem = {
  readonly figure: Omit<Figure, "lengths" | "letters"> & { readonly letters?: readonly string[] };
  readonly known: Readonly<Record<string, readonly [of: readonly [string, string], length: number]>>;
  readonly x: readonly [string, string];
  readonly answer: Exact;
  readonly laws: readonly Law[];
  readonly steps: string;
  readonly told?: string;
};

/** A problem whose givens and answer are lengths. */
function lengthProblem({ figure, known, x, answer, laws, steps, told = "" }: LengthProblem): Draft {
  return {
    figure: {
      ...figure,
      letters: figure.letters ?? Object.keys(figure.points),
      lengths: [...Object.values(known).map(([of, length]) => ({ of, label: String(length) })), { of: x, label: "x" }],
    },
    quantities: {
      ...Object.fromEntries(Object.entries(known).map(([name, [of]]) => [name, { length: of }])),
      x: { length: x },
    },
    given: Object.fromEntries(Object.entries(known).map(([name, [, length]]) => [name, length])),
    laws,
    sought: "x",
    answer,
    told,
    question: FIND_X,
    steps,
  };
}

const between = (a: Point, b: Point, t: number): Point => [a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t];

const sideSplitter: Template = (dice) => {
  const [m, n] = [dice.integer(1, 4), dice.integer(1, 4)];
  const [u, v] = [dice.integer(2, 6), dice.integer(2, 6)];
  const [left, right] = [(m + n) * u, (m + n) * v];
  if (m > 3 * n || n > 3 * m || left > 2 * right || right > 2 * left) return undefined;
  const apex = dice.integer(50, 80);
  const [A, B, C]: [Point, Point, Point] = [[0, 0], at(270 - apex / 2, left), at(270 + apex / 2, right)];
  const points = { A, B, C, D: between(A, B, m / (m + n)), E: between(A, C, m / (m + n)) };
  const parts: readonly (readonly [string, readonly [string, string], number])[] = [
    ["p", ["A", "D"], m * u],
    ["q", ["D", "B"], n * u],
    ["r", ["A", "E"], m * v],
    ["s", ["E", "C"], n * v],
  ];
  const hidden = dice.integer(0, 3);
  const names = parts.map(([name], i) => (i === hidden ? "x" : name)) as [string, string, string, string];
  const shown = parts.filter((_, i) => i !== hidden);
  const x = parts[hidden] as (typeof parts)[number];
  return lengthProblem({
    figure: {
      points,
      segments: pairs("AB BC CA DE"),
      arrows: pairs("DE BC"),
    },
    known: Object.fromEntries(shown.map(([name, of, length]) => [name, [of, length] as const])),
    x: x[1],
    answer: whole(x[2]),
    laws: [proportion(...names)],
    steps: `${m * u}/${n * u}=${m * v}/${n * v}, x=${x[2]}`,
    told: "DE is parallel to BC.",
  });
};

const nested: Template = (dice) => {
  const [p, q, r] = [dice.integer(3, 9), dice.integer(2, 9), dice.integer(4, 12)];
  const [top, ratio] = [r * (p + q), r / p];
  if (q > 2 * p || p > 3 * q || ratio < 0.6 || ratio > 1.6) return undefined;
  const slant = dice.integer(55, 75);
  const [B, A, C]: [Point, Point, Point] = [[0, 0], at(slant, p + q), [top / p, 0]];
  const points = { A, B, C, D: between(A, B, p / (p + q)), E: between(A, C, p / (p + q)) };
  return lengthProblem({
    figure: {
      points,
      segments: pairs("AB BC CA DE"),
      arrows: pairs("DE BC"),
    },
    known: { p: [["A", "D"], p], q: [["D", "B"], q], r: [["D", "E"], r] },
    x: ["B", "C"],
    answer: fraction(top, p),
    laws: [adds("whole", "p", "q"), proportion("p", "whole", "r", "x")],
    steps: `${r}*(${p}+${q})/${p}`,
    told: "DE is parallel to BC.",
  });
};

const altitude: Template = (dice) => {
  const [p, q] = [dice.integer(2, 9), dice.integer(2, 9)];
  if (p > 3 * q || q > 3 * p) return undefined;
  const h = Math.sqrt(p * q);
  const points: Record<string, Point> = { A: [-p, 0], B: [q, 0], C: [0, h], D: [0, 0] };
  return lengthProblem({
    figure: {
      points,
      segments: pairs("AB BC CA CD"),
      angles: [
        { arms: ["A", "C", "B"], right: true },
        { arms: ["C", "D", "B"], right: true },
      ],
    },
    known: { p: [["A", "D"], p], q: [["D", "B"], q] },
    x: ["C", "D"],
    answer: root(p * q),
    laws: [proportion("p", "x", "x", "q")],
    steps: `x*x=${p}*${q}`,
    told: "The angles at C and D are right.",
  });
};

/** A right triangle, its right angle at C. */
function rightTriangle(a: number, b: number): Pick<Figure, "points" | "segments" | "angles"> {
  return {
    points: { A: [b, 0], B: [0, a], C: [0, 0] },
    segments: SIDES,
    angles: [{ arms: ["A", "C", "B"], right: true }],
  };
}

const hypotenuse: Template = (dice) => {
  const [a, b] = [dice.integer(2, 15), dice.integer(2, 15)];
  if (a > 2.5 * b || b > 2.5 * a) return undefined;
  return lengthProblem({
    figure: rightTriangle(a, b),
    known: { a: [["B", "C"], a], b: [["C", "A"], b] },
    x: ["A", "B"],
    answer: root(a * a + b * b),
    laws: [pythagoras("a", "b", "x")],
    steps: `x*x=${a * a}+${b * b}`,
  });
};

const leg: Template = (dice) => {
  const [a, c] = [dice.integer(3, 14), dice.integer(5, 20)];
  const b = Math.sqrt(c * c - a * a);
  if (!(b > 0) || a > 2.5 * b || b > 2.5 * a) return undefined;
  return lengthProblem({
    figure: rightTriangle(a, b),
    known: { a: [["B", "C"], a], c: [["A", "B"], c] },
    x: ["C", "A"],
    answer: root(c * c - a * a),
    laws: [pythagoras("a", "x", "c")],
    steps: `x*x=${c * c}-${a * a}`,
  });
};

const special: Template = (dice) => {
  const a = dice.integer(2, 12);
  const equal = dice.pick([true, false]);
  const figure = equal ? rightTriangle(a, a) : rightTriangle(a, a * Math.sqrt(3));
  const label = equal ? "45" : "30";
  return lengthProblem({
    figure: { ...figure, angles: [...(figure.angles ?? []), { arms: ["B", "A", "C"], label }] },
    known: { a: [["B", "C"], a] },
    x: equal ? ["A", "B"] : ["C", "A"],
    answer: [{ p: a, root: equal ? 2 : 3 }],
    laws: [times("x", Math.sqrt(equal ? 2 : 3), "a")],
    steps: `${a}*sqrt(${equal ? 2 : 3})`,
  });
};

const inscribed: Template = (dice) => {
  const central = 2 * dice.angle(35, 75);
  const [low, high] = [270 - central / 2, 270 + central / 2];
  const points = { O: [0, 0] as Point, A: at(low), B: at(high), C: at(90 + dice.integer(-20, 20)) };
  const toCentre = dice.pick([true, false]);
  const [outer, inner]: [Angle, Angle] = [
    ["A", "O", "B"],
    ["A", "C", "B"],
  ];
  return angleProblem({
    figure: {
      points,
      segments: pairs("OA OB CA CB"),
      circles: [{ center: "O", through: "A" }],
    },
    known: toCentre ? { a: [inner, central / 2] } : { a: [outer, central] },
    x: toCentre ? [outer, central] : [inner, central / 2],
    laws: [toCentre ? times("x", 2, "a") : times("a", 2, "x")],
    steps: toCentre ? `2*${central / 2}=${central}` : `${central}/2=${central / 2}`,
    told: "O is the centre of the circle.",
  });
};

const thales: Template = (dice) => {
  const a = dice.angle(MIN_ANGLE, 90 - MIN_ANGLE);
  const points = { A: at(180), B: at(0), O: [0, 0] as Point, C: at(2 * a) };
  return angleProblem({
    figure: { points, letters: ["A", "B", "C"], segments: SIDES, circles: [{ center: "O", through: "A" }] },
    known: { a: [["C", "A", "B"], a] },
    x: [["A", "B", "C"], 90 - a],
    laws: [sumsTo(90, "c"), sumsTo(180, "a", "x", "c")],
    steps: `90-${a}=${90 - a}`,
    told: "AB is a diameter of the circle.",
  });
};

const tangentAngle: Template = (dice) => {
  const a = dice.angle(40, 60);
  const points = { O: [0, 0] as Point, T: at(90), P: [Math.tan((a * Math.PI) / 180), 1] as Point };
  return angleProblem({
    figure: {
      points,
      segments: pairs("OT TP PO"),
      circles: [{ center: "O", through: "T" }],
    },
    known: { a: [["T", "O", "P"], a] },
    x: [["T", "P", "O"], 90 - a],
    laws: [sumsTo(90, "t"), sumsTo(180, "a", "x", "t")],
    steps: `90-${a}=${90 - a}`,
    told: "O is the centre, and PT touches the circle at T.",
  });
};

const tangentLength: Template = (dice) => {
  const [r, t] = [dice.integer(3, 9), dice.integer(4, 16)];
  if (t > 2.2 * r || t < 0.9 * r) return undefined;
  const points: Record<string, Point> = { O: [0, 0], T: [0, r], P: [t, r] };
  return lengthProblem({
    figure: {
      points,
      segments: pairs("OT TP PO"),
      circles: [{ center: "O", through: "T" }],
    },
    known: { r: [["O", "T"], r], t: [["T", "P"], t] },
    x: ["O", "P"],
    answer: root(r * r + t * t),
    laws: [pythagoras("r", "t", "x")],
    steps: `x*x=${r * r}+${t * t}`,
    told: "O is the centre, and PT touches the circle at T.",
  });
};

const chord: Template = (dice) => {
  const [r, d] = [dice.integer(4, 15), dice.integer(2, 12)];
  const b = Math.sqrt(r * r - d * d);
  if (!(b > 0.45 * r) || d < 0.35 * r) return undefined;
  const points: Record<string, Point> = { O: [0, 0], M: [0, -d], A: [-b, -d], B: [b, -d] };
  return lengthProblem({
    figure: {
      points,
      segments: pairs("AB OA OM"),
      circles: [{ center: "O", through: "A" }],
      angles: [{ arms: ["O", "M", "B"], right: true }],
    },
    known: { r: [["O", "A"], r], d: [["O", "M"], d] },
    x: ["M", "B"],
    answer: root(r * r - d * d),
    laws: [pythagoras("d", "half", "r"), equals("x", "half")],
    steps: `x*x=${r * r}-${d * d}`,
    told: "O is the centre of the circle.",
  });
};

/** A problem that asks for an area of its figure. */
function areaProblem(
  shape: string,
  problem: Omit<LengthProblem, "x"> & { readonly area: Draft["quantities"][string] },
): Draft {
  const { figure, known, answer, laws, steps, told = "", area } = problem;
  return {
    figure: {
      ...figure,
      letters: figure.letters ?? [],
      lengths: Object.values(known).map(([of, length]) => ({ of, label: String(length) })),
    },
    quantities: { ...Object.fromEntries(Object.entries(known).map(([name, [of]]) => [name, { length: of }])), area },
    given: Object.fromEntries(Object.entries(known).map(([name, [, length]]) => [name, length])),
    laws,
    sought: "area",
    answer,
    told,
    question: `Find the area of the ${shape}.`,
    steps,
  };
}

const discArea: Template = (dice) => {
  const r = dice.integer(2, 15);
  return areaProblem("circle", {
    figure: {
      points: { O: [0, 0], A: [r, 0] },
      letters: ["O"],
      segments: pairs("OA"),
      circles: [{ center: "O", through: "A" }],
    },
    known: { r: [["O", "A"], r] },
    answer: [{ p: r * r, pi: true }],
    laws: [times("area", Math.PI, "r", "r")],
    steps: `pi*${r}*${r}`,
    told: "O is the centre.",
    area: { disc: ["O", "A"] },
  });
};

const triangleArea: Template = (dice) => {
  const [b, h] = [dice.integer(4, 18), dice.integer(3, 14)];
  const foot = b * dice.pick([0.3, 0.4, 0.6, 0.7]);
  if (h > 1.4 * b || b > 2.2 * h) return undefined;
  const points: Record<string, Point> = { A: [0, 0], B: [b, 0], C: [foot, h], D: [foot, 0] };
  return areaProblem("triangle", {
    figure: { points, segments: SIDES, dashed: pairs("CD"), angles: [{ arms: ["C", "D", "B"], right: true }] },
    known: { b: [["A", "B"], b], h: [["C", "D"], h] },
    answer: fraction(b * h, 2),
    laws: [times("area", 0.5, "b", "h")],
    steps: `${b}*${h}/2`,
    area: { area: ["A", "B", "C"] },
  });
};

const parallelogramArea: Template = (dice) => {
  const [b, h, lean] = [dice.integer(5, 18), dice.integer(3, 12), dice.integer(1, 5)];
  if (h > 1.2 * b || b > 2.5 * h || lean > 0.4 * b) return undefined;
  const points: Record<string, Point> = { A: [0, 0], B: [b, 0], C: [b + lean, h], D: [lean, h], H: [lean, 0] };
  return areaProblem("parallelogram", {
    figure: {
      points,
      segments: pairs("AB BC CD DA"),
      dashed: pairs("DH"),
      angles: [{ arms: ["D", "H", "B"], right: true }],
      arrows: pairs("AB DC"),
    },
    known: { b: [["A", "B"], b], h: [["D", "H"], h] },
    answer: whole(b * h),
    laws: [times("area", 1, "b", "h")],
    steps: `${b}*${h}`,
    area: { area: ["A", "B", "C", "D"] },
  });
};

const trapezoidArea: Template = (dice) => {
  const [a, b, h, lean] = [dice.integer(4, 12), dice.integer(6, 18), dice.integer(4, 12), dice.integer(1, 4)];
  if (b < a + lean + 1 || h > b || b > 2.5 * h) return undefined;
  const points: Record<string, Point> = { A: [0, 0], B: [b, 0], C: [lean + a, h], D: [lean, h], H: [lean, 0] };
  return areaProblem("trapezoid", {
    figure: {
      points,
      segments: pairs("AB BC CD DA"),
      dashed: pairs("DH"),
      angles: [{ arms: ["D", "H", "B"], right: true }],
      arrows: pairs("AB DC"),
    },
    known: { a: [["D", "C"], a], b: [["A", "B"], b], h: [["D", "H"], h] },
    answer: fraction((a + b) * h, 2),
    laws: [adds("both", "a", "b"), times("area", 0.5, "both", "h")],
    steps: `(${a}+${b})*${h}/2`,
    area: { area: ["A", "B", "C", "D"] },
  });
};

const shadedArea: Template = (dice) => {
  const s = dice.integer(2, 12);
  const r = s / 2;
  const points: Record<string, Point> = { A: [0, 0], B: [s, 0], C: [s, s], D: [0, s], O: [r, r], M: [r, 0] };
  return areaProblem("shaded region", {
    figure: {
      points,
      segments: pairs("AB BC CD DA"),
      circles: [{ center: "O", through: "M" }],
      shade: { polygon: ["A", "B", "C", "D"], less: 0 },
    },
    known: { s: [["A", "B"], s] },
    answer: [{ p: s * s }, { p: -s * s, q: 4, pi: true }],
    laws: [times("square", 1, "s", "s"), times("disc", Math.PI / 4, "s", "s"), adds("square", "disc", "area")],
    steps: `${s}*${s}-pi*${s}*${s}/4`,
    told: "A circle touches all sides of a square.",
    area: { less: [{ area: ["A", "B", "C", "D"] }, { disc: ["O", "M"] }] },
  });
};

const rectangleArea: Template = (dice) => {
  const [a, b] = dice.pick([
    [3, 4],
    [6, 8],
    [5, 12],
    [9, 12],
    [8, 15],
    [12, 16],
    [4, 7],
    [5, 8],
    [6, 10],
    [7, 9],
  ] as const);
  const points: Record<string, Point> = { A: [0, 0], B: [b, 0], C: [b, a], D: [0, a] };
  const diagonal = distance(points.A as Point, points.C as Point);
  const even = Number.isInteger(diagonal);
  return areaProblem("rectangle", {
    figure: {
      points,
      segments: pairs(even ? "AB BC CD DA AC" : "AB BC CD DA"),
      angles: [
        { arms: ["D", "A", "B"], right: true },
        { arms: ["B", "C", "D"], right: true },
      ],
    },
    known: even ? { b: [["A", "B"], b], d: [["A", "C"], diagonal] } : { a: [["B", "C"], a], b: [["A", "B"], b] },
    answer: whole(a * b),
    laws: [...(even ? [pythagoras("a", "b", "d")] : []), times("area", 1, "a", "b")],
    steps: even ? `x*x=${diagonal * diagonal}-${b * b}, ${a}*${b}` : `${a}*${b}`,
    area: { area: ["A", "B", "C", "D"] },
  });
};

export const TEMPLATES: Readonly<Record<Kind, readonly Template[]>> = {
  angles: [linearPair, crossing, triangleSum, exterior, isosceles, rightSplit],
  parallels: [parallels],
  similar: [sideSplitter, nested, altitude],
  right: [hypotenuse, leg, special],
  circles: [inscribed, thales, tangentAngle, tangentLength, chord, discArea],
  areas: [triangleArea, parallelogramArea, trapezoidArea, shadedArea, rectangleArea],
};
