/**
 * The figures and laws of the generated problems, by kind. Each template draws its numbers and puts its points where they truly are. Points have one letter, so `"AB"` names a segment,
 * `"AOC"` the angle at O, and `"AB OC"` two segments.
 */
import type { Point } from "../../src/images/index.ts";
import { adds, equals, type Law, type Measure, proportion, pythagoras, sumsTo, times } from "./check.ts";
import { type Exact, fraction, root, whole } from "./exact.ts";
import { distance, type Figure } from "./figure.ts";
import type { Dice, Draft, Kind } from "./problems.ts";

type Template = (dice: Dice) => Draft | undefined;

type Sketch = {
  readonly points: Figure["points"];
  readonly letters?: string;
  readonly segments: string;
  readonly dashed?: string;
  readonly arrows?: string;
  readonly ticks?: string;
  /** Its centre and a point that it goes through. */
  readonly circle?: string;
  /** Angles that have the small square of a right angle. */
  readonly right?: string;
  readonly shade?: Figure["shade"];
  /** What is labelled with a number, by name: a length or an angle. */
  readonly known: Readonly<Record<string, readonly [of: string, size: number]>>;
  readonly answer: Exact;
  readonly laws: readonly Law[];
  readonly steps: string;
  readonly told?: string;
};

const list = (names?: string) => names?.split(" ") ?? [];
const pair = (name: string) => [...name] as [string, string];
const arms = (name: string) => [...name] as [string, string, string];
const isAngle = (name: string) => name.length === 3;
const polygon = (corners: string): Measure => ({ area: [...corners] });

/** A problem that asks for the angle or the length labelled x. */
function findX(x: string, sketch: Sketch): Draft {
  return {
    ...draftOf({ letters: Object.keys(sketch.points).join(""), ...sketch }, "x", measureOf(x), [[x, "x"]]),
    question: "Find x.",
  };
}

/** A problem that asks for an area of its figure. */
function findArea(shape: string, { area, ...sketch }: Sketch & { readonly area: Measure }): Draft {
  return { ...draftOf(sketch, "area", area), question: `Find the area of the ${shape}.` };
}

function draftOf(
  sketch: Sketch,
  sought: string,
  what: Measure,
  unknown: readonly (readonly [of: string, label: string])[] = [],
): Omit<Draft, "question"> {
  const { points, letters = "", segments, dashed, arrows, ticks, circle, right, shade } = sketch;
  const { known, answer, laws, steps, told = "" } = sketch;
  const each = <T>(of: (name: string, size: number) => T) =>
    Object.fromEntries(Object.entries(known).map(([name, [place, size]]) => [name, of(place, size)]));
  const labels = [...Object.values(known).map(([of, size]) => [of, String(size)] as const), ...unknown];
  return {
    figure: {
      points,
      letters: [...letters],
      segments: list(segments).map(pair),
      dashed: list(dashed).map(pair),
      arrows: list(arrows).map(pair),
      ticks: list(ticks).map(pair),
      circles: list(circle).map(([center = "", through = ""]) => ({ center, through })),
      angles: [
        ...list(right).map((of) => ({ arms: arms(of), right: true })),
        ...labels.filter(([of]) => isAngle(of)).map(([of, label]) => ({ arms: arms(of), label })),
      ],
      lengths: labels.filter(([of]) => !isAngle(of)).map(([of, label]) => ({ of: pair(of), label })),
      ...(shade && { shade }),
    },
    quantities: { ...each(measureOf), [sought]: what },
    given: each((_, size) => size),
    laws,
    sought,
    answer,
    told,
    steps,
  };
}

function measureOf(name: string): Measure {
  return isAngle(name) ? { angle: arms(name) } : { length: pair(name) };
}

const ORIGIN: Point = [0, 0];
const SIDES = "AB BC CA";
/** The smallest angle that a label fits in. */
const MIN_ANGLE = 30;

const at = (degrees: number, radius = 1, [x, y] = ORIGIN): Point => [
  x + radius * Math.cos((degrees * Math.PI) / 180),
  y + radius * Math.sin((degrees * Math.PI) / 180),
];

const between = (a: Point, b: Point, t: number): Point => [a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t];

/** One of `parts`, which a problem asks for, and the others. */
function hideOne<T>(dice: Dice, parts: readonly T[]): { hidden: T; shown: T[] } {
  const hidden = parts[dice.integer(0, parts.length - 1)] as T;
  return { hidden, shown: parts.filter((part) => part !== hidden) };
}

const linearPair: Template = (dice) => {
  const a = dice.angle(MIN_ANGLE, 180 - MIN_ANGLE);
  return findX("COB", {
    points: { A: at(180), O: ORIGIN, B: at(0), C: at(180 - a) },
    segments: "AB OC",
    known: { a: ["AOC", a] },
    answer: whole(180 - a),
    laws: [sumsTo(180, "a", "x")],
    steps: `180-${a}=${180 - a}`,
    told: "AB is a straight line.",
  });
};

const crossing: Template = (dice) => {
  const a = dice.angle(40, 140);
  if (a === 90) return undefined;
  const vertical = dice.pick([true, false]);
  return findX(vertical ? "DOB" : "COB", {
    points: { A: at(180), B: at(0), O: ORIGIN, C: at(180 - a), D: at(-a) },
    segments: "AB CD",
    known: { a: ["AOC", a] },
    answer: whole(vertical ? a : 180 - a),
    laws: [vertical ? equals("a", "x") : sumsTo(180, "a", "x")],
    steps: vertical ? `x=${a}` : `180-${a}=${180 - a}`,
    told: "AB and CD cross at O.",
  });
};

/** Corners A at the origin, B to its right, C above, with these angles. */
function triangle(a: number, b: number): Figure["points"] {
  const c = 180 - a - b;
  const side = Math.sin((b * Math.PI) / 180) / Math.sin((c * Math.PI) / 180);
  return { A: ORIGIN, B: [1, 0], C: at(a, side) };
}

const triangleSum: Template = (dice) => {
  const [a, b] = [dice.angle(MIN_ANGLE + 5, 100), dice.angle(MIN_ANGLE + 5, 100)];
  const c = 180 - a - b;
  if (c < MIN_ANGLE + 5) return undefined;
  const corners: (readonly [string, number])[] = [
    ["CAB", a],
    ["ABC", b],
    ["BCA", c],
  ];
  const { hidden, shown } = hideOne(dice, corners);
  const [first, second] = shown as [(typeof shown)[number], (typeof shown)[number]];
  return findX(hidden[0], {
    points: triangle(a, b),
    segments: SIDES,
    known: { a: first, b: second },
    answer: whole(hidden[1]),
    laws: [sumsTo(180, "a", "b", "x")],
    steps: `180-${first[1]}-${second[1]}=${hidden[1]}`,
  });
};

const exterior: Template = (dice) => {
  const [a, b] = [dice.angle(MIN_ANGLE + 5, 90), dice.angle(MIN_ANGLE + 5, 110)];
  const c = 180 - a - b;
  if (c < MIN_ANGLE + 5) return undefined;
  return findX("CBD", {
    points: { ...triangle(a, b), D: [1.6, 0] },
    segments: "AD BC CA",
    known: { a: ["CAB", a], c: ["BCA", c] },
    answer: whole(180 - b),
    laws: [adds("x", "a", "c")],
    steps: `${a}+${c}=${a + c}`,
    told: "A, B and D lie on a line.",
  });
};

const isosceles: Template = (dice) => {
  const apex = dice.angle(MIN_ANGLE + 5, 110);
  if (apex % 2 === 1) return undefined;
  const base = (180 - apex) / 2;
  const upright = dice.pick([true, false]);
  return findX(upright ? "CBA" : "ACB", {
    points: triangle(base, base),
    segments: SIDES,
    ticks: "AC BC",
    known: upright ? { a: ["ACB", apex] } : { b: ["CAB", base] },
    answer: whole(upright ? base : apex),
    laws: [upright ? half("x", "a") : half("b", "x")],
    steps: upright ? `(180-${apex})/2=${base}` : `180-2*${base}=${apex}`,
    told: "Sides with a tick are equal.",
  });
};

/** Base angles of an isosceles triangle, of its apex. */
const half = (base: string, apex: string): Law => ({ of: [base, apex], zero: ([x = 0, a = 0]) => 2 * x + a - 180 });

const rightSplit: Template = (dice) => {
  const a = dice.angle(MIN_ANGLE, 90 - MIN_ANGLE);
  return findX("COB", {
    points: { O: ORIGIN, A: at(0), B: at(90), C: at(a) },
    segments: "OA OB OC",
    known: { a: ["AOC", a] },
    answer: whole(90 - a),
    laws: [sumsTo(90, "a", "x")],
    steps: `90-${a}=${90 - a}`,
    told: "OA and OB are perpendicular.",
  });
};

const parallels: Template = (dice) => {
  const a = dice.angle(45, 135);
  if (a === 90) return undefined;
  const gap = 0.9;
  const Q: Point = [gap / Math.tan((a * Math.PI) / 180), gap];
  const mid = Q[0] / 2;
  const [known, x, same] = dice.pick([
    // Corresponding, alternate, between the parallels, alternate outside.
    ["EQB", "QPD", true],
    ["AQP", "QPD", true],
    ["BQP", "QPD", false],
    ["EQB", "CPF", true],
  ] as const);
  const size = same ? a : 180 - a;
  return findX(x, {
    points: {
      P: ORIGIN,
      Q,
      A: [mid - 1.1, gap],
      B: [mid + 1.1, gap],
      C: [mid - 1.1, 0],
      D: [mid + 1.1, 0],
      E: at(a, 0.65, Q),
      F: at(a + 180, 0.65),
    },
    letters: "ABCD",
    segments: "AB CD EF",
    arrows: "AB CD",
    known: { a: [known, size] },
    answer: whole(a),
    laws: [same ? equals("a", "x") : sumsTo(180, "a", "x")],
    steps: same ? `x=${a}` : `180-${size}=${a}`,
    told: "AB and CD are parallel.",
  });
};

const sideSplitter: Template = (dice) => {
  const [m, n] = [dice.integer(1, 4), dice.integer(1, 4)];
  const [u, v] = [dice.integer(2, 6), dice.integer(2, 6)];
  const [left, right] = [(m + n) * u, (m + n) * v];
  if (m > 3 * n || n > 3 * m || left > 2 * right || right > 2 * left) return undefined;
  const apex = dice.integer(50, 80);
  const [A, B, C] = [ORIGIN, at(270 - apex / 2, left), at(270 + apex / 2, right)];
  const parts: (readonly [string, readonly [string, number]])[] = [
    ["p", ["AD", m * u]],
    ["q", ["DB", n * u]],
    ["r", ["AE", m * v]],
    ["s", ["EC", n * v]],
  ];
  const { hidden, shown } = hideOne(dice, parts);
  const [x, length] = hidden[1];
  const names = parts.map((part) => (part === hidden ? "x" : part[0])) as [string, string, string, string];
  return findX(x, {
    points: { A, B, C, D: between(A, B, m / (m + n)), E: between(A, C, m / (m + n)) },
    segments: "AB BC CA DE",
    arrows: "DE BC",
    known: Object.fromEntries(shown),
    answer: whole(length),
    laws: [proportion(...names)],
    steps: `${m * u}/${n * u}=${m * v}/${n * v}, x=${length}`,
    told: "DE is parallel to BC.",
  });
};

const nested: Template = (dice) => {
  const [p, q, r] = [dice.integer(3, 9), dice.integer(2, 9), dice.integer(4, 12)];
  const [top, ratio] = [r * (p + q), r / p];
  if (q > 2 * p || p > 3 * q || ratio < 0.6 || ratio > 1.6) return undefined;
  const slant = dice.integer(55, 75);
  const [A, B, C]: [Point, Point, Point] = [at(slant, p + q), ORIGIN, [top / p, 0]];
  return findX("BC", {
    points: { A, B, C, D: between(A, B, p / (p + q)), E: between(A, C, p / (p + q)) },
    segments: "AB BC CA DE",
    arrows: "DE BC",
    known: { p: ["AD", p], q: ["DB", q], r: ["DE", r] },
    answer: fraction(top, p),
    laws: [adds("whole", "p", "q"), proportion("p", "whole", "r", "x")],
    steps: `${r}*(${p}+${q})/${p}`,
    told: "DE is parallel to BC.",
  });
};

const altitude: Template = (dice) => {
  const [p, q] = [dice.integer(2, 9), dice.integer(2, 9)];
  if (p > 3 * q || q > 3 * p) return undefined;
  return findX("CD", {
    points: { A: [-p, 0], B: [q, 0], C: [0, Math.sqrt(p * q)], D: ORIGIN },
    segments: "AB BC CA CD",
    right: "ACB CDB",
    known: { p: ["AD", p], q: ["DB", q] },
    answer: root(p * q),
    laws: [proportion("p", "x", "x", "q")],
    steps: `x*x=${p}*${q}`,
    told: "The angles at C and D are right.",
  });
};

/** A right triangle, its right angle at C. */
function rightTriangle(a: number, b: number): Pick<Sketch, "points" | "segments" | "right"> {
  return { points: { A: [b, 0], B: [0, a], C: ORIGIN }, segments: SIDES, right: "ACB" };
}

const hypotenuse: Template = (dice) => {
  const [a, b] = [dice.integer(2, 15), dice.integer(2, 15)];
  if (a > 2.5 * b || b > 2.5 * a) return undefined;
  return findX("AB", {
    ...rightTriangle(a, b),
    known: { a: ["BC", a], b: ["CA", b] },
    answer: root(a * a + b * b),
    laws: [pythagoras("a", "b", "x")],
    steps: `x*x=${a * a}+${b * b}`,
  });
};

const leg: Template = (dice) => {
  const [a, c] = [dice.integer(3, 14), dice.integer(5, 20)];
  const b = Math.sqrt(c * c - a * a);
  if (!(b > 0) || a > 2.5 * b || b > 2.5 * a) return undefined;
  return findX("CA", {
    ...rightTriangle(a, b),
    known: { a: ["BC", a], c: ["AB", c] },
    answer: root(c * c - a * a),
    laws: [pythagoras("a", "x", "c")],
    steps: `x*x=${c * c}-${a * a}`,
  });
};

const special: Template = (dice) => {
  const a = dice.integer(2, 12);
  const equal = dice.pick([true, false]);
  const square = equal ? 2 : 3;
  return findX(equal ? "AB" : "CA", {
    ...rightTriangle(a, equal ? a : a * Math.sqrt(3)),
    known: { a: ["BC", a], angle: ["BAC", equal ? 45 : 30] },
    answer: [{ p: a, root: square }],
    laws: [times("x", Math.sqrt(square), "a")],
    steps: `${a}*sqrt(${square})`,
  });
};

const inscribed: Template = (dice) => {
  const central = 2 * dice.angle(35, 75);
  const [low, high] = [270 - central / 2, 270 + central / 2];
  const points = { O: ORIGIN, A: at(low), B: at(high), C: at(90 + dice.integer(-20, 20)) };
  const toCentre = dice.pick([true, false]);
  return findX(toCentre ? "AOB" : "ACB", {
    points,
    segments: "OA OB CA CB",
    circle: "OA",
    known: { a: toCentre ? ["ACB", central / 2] : ["AOB", central] },
    answer: whole(toCentre ? central : central / 2),
    laws: [toCentre ? times("x", 2, "a") : times("a", 2, "x")],
    steps: toCentre ? `2*${central / 2}=${central}` : `${central}/2=${central / 2}`,
    told: "O is the centre of the circle.",
  });
};

const thales: Template = (dice) => {
  const a = dice.angle(MIN_ANGLE, 90 - MIN_ANGLE);
  return findX("ABC", {
    points: { A: at(180), B: at(0), O: ORIGIN, C: at(2 * a) },
    letters: "ABC",
    segments: SIDES,
    circle: "OA",
    known: { a: ["CAB", a] },
    answer: whole(90 - a),
    laws: [sumsTo(90, "c"), sumsTo(180, "a", "x", "c")],
    steps: `90-${a}=${90 - a}`,
    told: "AB is a diameter of the circle.",
  });
};

const tangentAngle: Template = (dice) => {
  const a = dice.angle(40, 60);
  return findX("TPO", {
    points: { O: ORIGIN, T: at(90), P: [Math.tan((a * Math.PI) / 180), 1] },
    segments: "OT TP PO",
    circle: "OT",
    known: { a: ["TOP", a] },
    answer: whole(90 - a),
    laws: [sumsTo(90, "t"), sumsTo(180, "a", "x", "t")],
    steps: `90-${a}=${90 - a}`,
    told: "O is the centre, and PT touches the circle at T.",
  });
};

const tangentLength: Template = (dice) => {
  const [r, t] = [dice.integer(3, 9), dice.integer(4, 16)];
  if (t > 2.2 * r || t < 0.9 * r) return undefined;
  return findX("OP", {
    points: { O: ORIGIN, T: [0, r], P: [t, r] },
    segments: "OT TP PO",
    circle: "OT",
    known: { r: ["OT", r], t: ["TP", t] },
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
  return findX("MB", {
    points: { O: ORIGIN, M: [0, -d], A: [-b, -d], B: [b, -d] },
    segments: "AB OA OM",
    circle: "OA",
    right: "OMB",
    known: { r: ["OA", r], d: ["OM", d] },
    answer: root(r * r - d * d),
    laws: [pythagoras("d", "half", "r"), equals("x", "half")],
    steps: `x*x=${r * r}-${d * d}`,
    told: "O is the centre of the circle.",
  });
};

const discArea: Template = (dice) => {
  const r = dice.integer(2, 15);
  return findArea("circle", {
    points: { O: ORIGIN, A: [r, 0] },
    letters: "O",
    segments: "OA",
    circle: "OA",
    known: { r: ["OA", r] },
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
  return findArea("triangle", {
    points: { A: ORIGIN, B: [b, 0], C: [foot, h], D: [foot, 0] },
    segments: SIDES,
    dashed: "CD",
    right: "CDB",
    known: { b: ["AB", b], h: ["CD", h] },
    answer: fraction(b * h, 2),
    laws: [times("area", 0.5, "b", "h")],
    steps: `${b}*${h}/2`,
    area: polygon("ABC"),
  });
};

/** Parallel sides of `bottom` and `top`, and the height at D, which leans to the right of A. */
function slanted(bottom: number, top: number, h: number, lean: number) {
  return {
    points: { A: ORIGIN, B: [bottom, 0], C: [lean + top, h], D: [lean, h], H: [lean, 0] },
    segments: "AB BC CD DA",
    dashed: "DH",
    right: "DHB",
    arrows: "AB DC",
  } satisfies Partial<Sketch>;
}

const parallelogramArea: Template = (dice) => {
  const [b, h, lean] = [dice.integer(5, 18), dice.integer(3, 12), dice.integer(1, 5)];
  if (h > 1.2 * b || b > 2.5 * h || lean > 0.4 * b) return undefined;
  return findArea("parallelogram", {
    ...slanted(b, b, h, lean),
    known: { b: ["AB", b], h: ["DH", h] },
    answer: whole(b * h),
    laws: [times("area", 1, "b", "h")],
    steps: `${b}*${h}`,
    area: polygon("ABCD"),
  });
};

const trapezoidArea: Template = (dice) => {
  const [a, b, h, lean] = [dice.integer(4, 12), dice.integer(6, 18), dice.integer(4, 12), dice.integer(1, 4)];
  if (b < a + lean + 1 || h > b || b > 2.5 * h) return undefined;
  return findArea("trapezoid", {
    ...slanted(b, a, h, lean),
    known: { a: ["DC", a], b: ["AB", b], h: ["DH", h] },
    answer: fraction((a + b) * h, 2),
    laws: [adds("both", "a", "b"), times("area", 0.5, "both", "h")],
    steps: `(${a}+${b})*${h}/2`,
    area: polygon("ABCD"),
  });
};

const shadedArea: Template = (dice) => {
  const s = dice.integer(2, 12);
  const r = s / 2;
  return findArea("shaded region", {
    points: { A: ORIGIN, B: [s, 0], C: [s, s], D: [0, s], O: [r, r], M: [r, 0] },
    segments: "AB BC CD DA",
    circle: "OM",
    shade: { polygon: ["A", "B", "C", "D"], less: 0 },
    known: { s: ["AB", s] },
    answer: [{ p: s * s }, { p: -s * s, q: 4, pi: true }],
    laws: [times("square", 1, "s", "s"), times("disc", Math.PI / 4, "s", "s"), adds("square", "disc", "area")],
    steps: `${s}*${s}-pi*${s}*${s}/4`,
    told: "A circle touches all sides of a square.",
    area: { less: [polygon("ABCD"), { disc: ["O", "M"] }] },
  });
};

/** Heights and widths of rectangles; those with a whole diagonal show it instead of the height. */
const RECTANGLES = [
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
] as const;

const rectangleArea: Template = (dice) => {
  const [a, b] = dice.pick(RECTANGLES);
  const diagonal = distance(ORIGIN, [b, a]);
  const even = Number.isInteger(diagonal);
  return findArea("rectangle", {
    points: { A: ORIGIN, B: [b, 0], C: [b, a], D: [0, a] },
    segments: even ? "AB BC CD DA AC" : "AB BC CD DA",
    right: "DAB BCD",
    known: even ? { b: ["AB", b], d: ["AC", diagonal] } : { a: ["BC", a], b: ["AB", b] },
    answer: whole(a * b),
    laws: [...(even ? [pythagoras("a", "b", "d")] : []), times("area", 1, "a", "b")],
    steps: even ? `x*x=${diagonal * diagonal}-${b * b}, ${a}*${b}` : `${a}*${b}`,
    area: polygon("ABCD"),
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
