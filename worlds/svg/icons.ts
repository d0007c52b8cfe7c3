/**
 * Icons to copy: SVG documents on a canvas of 64 by 64, drawn from a seed. Each is one of two dozen small images in
 * shapes, sizes and colours of its own, on a ground that is white, tinted or a badge. Flat fills and plain strokes only, so
 * that what is seen can be written down.
 */
import { exact } from "../../src/core/index.ts";
import { Dice } from "../shared/scenes/dice.ts";

const { cos, sin } = exact;

const STRONG = ["#d7263d", "#f46036", "#e0a100", "#2e933c", "#1b998b", "#1f6fb2", "#5b3a9e", "#c2418f", "#7a4a24"];
const PALE = ["#fde2e4", "#fff1c9", "#dff3e3", "#dcecfb", "#ece3f8", "#f3ede4", "#d9f2f2"];
const DARK = ["#22223b", "#3b2a20", "#1d3557", "#2f3e33"];

type Brush = { readonly dice: Dice; readonly main: string; readonly second: string; readonly dark: string };
type Attributes = Readonly<Record<string, string | number>>;

const number = (value: number) => String(Math.round(value * 10) / 10);

function tag(name: string, attributes: Attributes): string {
  const words = Object.entries(attributes).map(
    ([key, value]) => `${key}="${typeof value === "number" ? number(value) : value}"`,
  );
  return `<${name} ${words.join(" ")}/>`;
}

const rect = (x: number, y: number, width: number, height: number, fill: string, rx = 0) =>
  tag("rect", { x, y, width, height, ...(rx > 0 ? { rx } : {}), fill });
const circle = (cx: number, cy: number, r: number, fill: string) => tag("circle", { cx, cy, r, fill });
const ellipse = (cx: number, cy: number, rx: number, ry: number, fill: string) =>
  tag("ellipse", { cx, cy, rx, ry, fill });
const polygon = (points: readonly (readonly [number, number])[], fill: string) =>
  tag("polygon", { points: points.map(([x, y]) => `${number(x)},${number(y)}`).join(" "), fill });
const stroke = (d: string, color: string, width: number) =>
  tag("path", { d, fill: "none", stroke: color, "stroke-width": width, "stroke-linecap": "round" });
/** A path of letters and numbers, rounded. */
const d = (...parts: readonly (string | number)[]) =>
  parts.map((part) => (typeof part === "number" ? number(part) : part)).join(" ");

function around(x: number, y: number, radius: number, turn: number): [number, number] {
  const angle = turn * 2 * Math.PI;
  return [x + radius * cos(angle), y + radius * sin(angle)];
}

const RECIPES: Readonly<Record<string, (brush: Brush) => string[]>> = {
  house({ dice, main, second, dark }) {
    const [w, top] = [dice.between(26, 36), dice.between(26, 32)];
    const left = 32 - w / 2;
    const chimney = dice.chance(0.5);
    const roof = top - dice.between(12, 17);
    // The window is on the other side.
    const door = dice.chance(0.5) ? left + 4 : left + w - 12;
    return [
      ...(chimney ? [rect(32 + w / 4, top - 14, 5, 14, dark)] : []),
      rect(left, top, w, 54 - top, second),
      polygon(
        [
          [left - 5, top],
          [32, roof],
          [left + w + 5, top],
        ],
        main,
      ),
      rect(door, 40, 8, 14, dark),
      rect(64 - door - 8, top + 5, 8, 8, "#fff6bf"),
    ];
  },
  tree({ dice, main, dark }) {
    const trunk = rect(29, 38, dice.between(5, 8), 18, dark);
    if (dice.chance(0.5)) return [trunk, circle(32, dice.between(22, 27), dice.between(14, 18), main)];
    const tier = (y: number, half: number) =>
      polygon(
        [
          [32 - half, y + 14],
          [32, y],
          [32 + half, y + 14],
        ],
        main,
      );
    return [trunk, tier(26, 18), tier(16, 14), tier(8, 10)];
  },
  sun({ dice, main }) {
    const rays = dice.whole(6, 10);
    const radius = dice.between(10, 14);
    return [
      ...Array.from({ length: rays }, (_, i) => {
        const [from, to] = [around(32, 32, radius + 4, i / rays), around(32, 32, radius + 13, i / rays)];
        return stroke(d("M", ...from, "L", ...to), main, 3.5);
      }),
      circle(32, 32, radius, main),
    ];
  },
  boat({ dice, main, second, dark }) {
    const mast = dice.between(26, 36);
    return [
      rect(mast - 1, 10, 2.5, 32, dark),
      polygon(
        [
          [mast + 3, 12],
          [mast + 3, 38],
          [mast + dice.between(16, 22), 38],
        ],
        second,
      ),
      polygon(
        [
          [8, 42],
          [56, 42],
          [47, 54],
          [17, 54],
        ],
        main,
      ),
    ];
  },
  fish({ dice, main, second, dark }) {
    const [rx, ry] = [dice.between(16, 20), dice.between(9, 13)];
    return [
      polygon(
        [
          [28 + rx - 4, 32],
          [58, 20],
          [58, 44],
        ],
        second,
      ),
      ellipse(28, 32, rx, ry, main),
      circle(28 - rx * 0.55, 29, 2.5, dark),
    ];
  },
  mug({ dice, main, second }) {
    const w = dice.between(22, 28);
    const handle = dice.chance(0.5) ? 1 : -1;
    const edge = 32 + (handle * w) / 2;
    return [
      tag("circle", { cx: edge, cy: 38, r: 8, fill: "none", stroke: main, "stroke-width": 4 }),
      rect(32 - w / 2, 24, w, 30, main, 3),
      rect(32 - w / 2, dice.between(32, 38), w, 7, second),
      stroke(d("M", 28, 18, "Q", 24, 13, 28, 8), second, 2.5),
      stroke(d("M", 37, 18, "Q", 33, 13, 37, 8), second, 2.5),
    ];
  },
  flower({ dice, main, second }) {
    const petals = dice.whole(5, 8);
    const reach = dice.between(9, 12);
    return [
      stroke(d("M", 32, 30, "L", 32, 60), "#2e933c", 3),
      ellipse(40, 50, 8, 3.5, "#2e933c"),
      ...Array.from({ length: petals }, (_, i) => circle(...around(32, 24, reach, i / petals), 6, main)),
      circle(32, 24, 6, second),
    ];
  },
  rocket({ dice, main, second, dark }) {
    const half = dice.between(7, 10);
    return [
      polygon(
        [
          [32 - half, 38],
          [32 - half - 9, 54],
          [32 - half, 50],
        ],
        second,
      ),
      polygon(
        [
          [32 + half, 38],
          [32 + half + 9, 54],
          [32 + half, 50],
        ],
        second,
      ),
      tag("path", {
        d: d("M", 32, 6, "Q", 32 + half * 2, 28, 32 + half, 50, "L", 32 - half, 50, "Q", 32 - half * 2, 28, 32, 6, "Z"),
        fill: main,
      }),
      circle(32, 28, dice.between(3.5, 5.5), dark),
      polygon(
        [
          [28, 52],
          [36, 52],
          [32, 62],
        ],
        "#e0a100",
      ),
    ];
  },
  mushroom({ dice, main, second }) {
    const dots = dice.whole(2, 4);
    return [
      rect(26, 34, 12, 20, "#f3ede4", 4),
      tag("path", { d: d("M", 10, 36, "Q", 12, 10, 32, 10, "Q", 52, 10, 54, 36, "Z"), fill: main }),
      ...Array.from({ length: dots }, (_, i) => circle(18 + (28 * (i + 0.5)) / dots, 22 + (i % 2) * 6, 3, second)),
    ];
  },
  cloud({ dice, main, second }) {
    const drops = dice.whole(0, 4);
    return [
      circle(20, 32, 10, main),
      circle(33, 25, 13, main),
      circle(46, 32, 9, main),
      rect(20, 30, 26, 12, main),
      ...Array.from({ length: drops }, (_, i) => stroke(d("M", 20 + i * 8, 46, "L", 17 + i * 8, 55), second, 3)),
    ];
  },
  heart({ dice, main, second }) {
    const body = tag("path", {
      d: d("M", 32, 54, "Q", 6, 34, 12, 20, "Q", 20, 6, 32, 22, "Q", 44, 6, 52, 20, "Q", 58, 34, 32, 54, "Z"),
      fill: main,
    });
    return dice.chance(0.5)
      ? [body, circle(22, 23, 4, second)]
      : [body, stroke(d("M", 10, 50, "L", 54, 14), second, 3)];
  },
  star({ dice, main, second }) {
    const points = dice.whole(5, 8);
    const inner = dice.between(9, 13);
    const outline = Array.from({ length: points * 2 }, (_, i) =>
      around(32, 33, i % 2 === 0 ? 24 : inner, i / (points * 2) - 0.25),
    );
    return [polygon(outline, main), ...(dice.chance(0.5) ? [circle(32, 33, 6, second)] : [])];
  },
  clock({ dice, main, second, dark }) {
    const hour = dice.whole(0, 11);
    const minute = dice.whole(0, 11);
    return [
      circle(32, 32, 25, main),
      circle(32, 32, 20, "#fffdf5"),
      stroke(d("M", 32, 32, "L", ...around(32, 32, 10, hour / 12 - 0.25)), dark, 4),
      stroke(d("M", 32, 32, "L", ...around(32, 32, 16, minute / 12 - 0.25)), second, 2.5),
      circle(32, 32, 2.5, dark),
    ];
  },
  umbrella({ dice, main, second, dark }) {
    return [
      stroke(d("M", 32, 30, "L", 32, 52, "Q", 32, 58, 26 + dice.whole(0, 1) * 12, 56), dark, 3),
      tag("path", { d: d("M", 8, 32, "Q", 10, 8, 32, 8, "Q", 54, 8, 56, 32, "Z"), fill: main }),
      polygon(
        [
          [32, 8],
          [24, 32],
          [40, 32],
        ],
        second,
      ),
    ];
  },
  icecream({ dice, main, second }) {
    const scoops = dice.whole(1, 3);
    return [
      polygon(
        [
          [20, 34],
          [44, 34],
          [32, 61],
        ],
        "#d9a066",
      ),
      ...Array.from({ length: scoops }, (_, i) =>
        circle(
          scoops === 1 ? 32 : scoops === 2 ? 25 + i * 14 : 24 + i * 8,
          i === 1 && scoops === 3 ? 16 : 27,
          10,
          i % 2 === 0 ? main : second,
        ),
      ),
    ];
  },
  cactus({ dice, main, second }) {
    const side = dice.sign();
    return [
      stroke(d("M", 32, 34, "L", 32 + side * 14, 34, "L", 32 + side * 14, 20), "#2e933c", 6),
      stroke(d("M", 32, 28, "L", 32 - side * 12, 28, "L", 32 - side * 12, 18), "#2e933c", 6),
      rect(27, 10, 10, 36, "#2e933c", 5),
      polygon(
        [
          [18, 44],
          [46, 44],
          [42, 58],
          [22, 58],
        ],
        main,
      ),
      circle(32, 10, 3.5, second),
    ];
  },
  robot({ dice, main, second, dark }) {
    const eye = dice.between(3, 4.5);
    return [
      stroke(d("M", 32, 18, "L", 32, 9), dark, 2.5),
      circle(32, 8, 3, second),
      rect(14, 18, 36, 28, main, 5),
      circle(24, 29, eye, "#ffffff"),
      circle(40, 29, eye, "#ffffff"),
      rect(23, 37, 18, 4, dark),
      rect(22, 48, 20, 10, second, 2),
    ];
  },
  cat({ dice, main, second, dark }) {
    const r = dice.between(15, 18);
    const ear = (side: number) =>
      polygon(
        [
          [32 + side * (r - 1), 36 - r + 6],
          [32 + side * (r + 1), 36 - r - 9],
          [32 + side * 4, 36 - r + 1],
        ],
        main,
      );
    return [
      ear(-1),
      ear(1),
      circle(32, 36, r, main),
      circle(26, 33, 2.5, dark),
      circle(38, 33, 2.5, dark),
      polygon(
        [
          [29.5, 39],
          [34.5, 39],
          [32, 42],
        ],
        second,
      ),
    ];
  },
  lights({ dice, dark }) {
    const on = dice.whole(0, 2);
    const lamp = (i: number, color: string) => circle(32, 16 + i * 16, 6, i === on ? color : "#6b6b76");
    return [rect(21, 6, 22, 52, dark, 5), lamp(0, "#d7263d"), lamp(1, "#e0a100"), lamp(2, "#2e933c")];
  },
  balloon({ dice, main, second, dark }) {
    const x = dice.between(26, 38);
    return [
      stroke(d("M", x, 42, "Q", x + 8, 50, x - 2, 61), dark, 1.8),
      ellipse(x, 24, 14, 17, main),
      polygon(
        [
          [x - 4, 44],
          [x + 4, 44],
          [x, 39],
        ],
        main,
      ),
      ellipse(x - 5, 18, 3, 5, second),
    ];
  },
  apple({ dice, main, dark }) {
    return [
      stroke(d("M", 32, 22, "Q", 32, 13, 36, 9), dark, 3),
      ellipse(dice.chance(0.5) ? 41 : 24, 14, 7, 3.5, "#2e933c"),
      circle(25, 36, 15, main),
      circle(39, 36, 15, main),
      ellipse(32, 46, 13, 9, main),
    ];
  },
  letter({ dice, main, second }) {
    const h = dice.between(26, 34);
    const top = 32 - h / 2;
    return [
      rect(8, top, 48, h, main, 2),
      stroke(d("M", 9, top + 1, "L", 32, top + h * 0.55, "L", 55, top + 1), second, 3),
      ...(dice.chance(0.5) ? [circle(32, top + h * 0.55, 5, second)] : []),
    ];
  },
  flag({ dice, main, second, dark }) {
    const across = dice.chance(0.5);
    return [
      rect(12, 8, 3, 52, dark),
      rect(15, 10, 40, 27, main),
      across ? rect(15, 19, 40, 9, second) : rect(28, 10, 13, 27, second),
    ];
  },
  planet({ dice, main, second }) {
    return [
      circle(32, 32, dice.between(14, 18), main),
      tag("ellipse", {
        cx: 32,
        cy: 33,
        rx: 28,
        ry: dice.between(6, 9),
        fill: "none",
        stroke: second,
        "stroke-width": 3.5,
      }),
      ...Array.from({ length: 3 }, () => circle(dice.whole(5, 59), dice.pick([6, 10, 54, 58]), 1.8, second)),
    ];
  },
};

const NAMES = Object.keys(RECIPES);

function ground(dice: Dice): string[] {
  const kind = dice.whole(0, 3);
  if (kind === 0) return [];
  const color = dice.pick(PALE);
  if (kind === 1) return [rect(0, 0, 64, 64, color)];
  return kind === 2 ? [rect(1, 1, 62, 62, color, 12)] : [circle(32, 32, 31, color)];
}

/** The icon of a seed, one line of SVG. */
export function icon(seed: number): string {
  const dice = new Dice(seed, "icon");
  const [main, second] = dice.shuffle(STRONG) as [string, string];
  const brush = { dice: dice.fork("shape"), main, second, dark: dice.pick(DARK) };
  const recipe = RECIPES[NAMES[dice.whole(0, NAMES.length - 1)] as string];
  const shapes = [...ground(dice.fork("ground")), ...(recipe?.(brush) ?? [])];
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64">${shapes.join("")}</svg>`;
}
