/** Fruit and vegetables, lying on a table. */
import { type Color, deepen, lift, mix } from "../brush.ts";
import { dots, tiles } from "../patterns.ts";
import type { Pen } from "../pen.ts";
import { COLORS, LEAF, LIGHT, plain, type Thing } from "../thing.ts";

const STEM: Color = [104, 72, 42];

/** A round fruit's light: shade all around, and a soft highlight. */
function gleam(pen: Pen, u: number, v: number, radius: number, strength = 0.55): void {
  const { brush, size } = pen;
  const side = brush.light;
  const [x, y, r] = [pen.x(u, v) + side * radius * size * 0.36, pen.y(u, v) - radius * size * 0.4, radius * size];
  brush.glow(x, y, r * 0.5, r * 0.4, LIGHT, strength);
}

export const food: readonly Thing[] = [
  {
    name: "apple",
    plural: "apples",
    width: 0.95,
    height: 0.8,
    habitat: ["table"],
    colors: ["red", "green", "yellow"],
    draw(pen, { color }) {
      pen.shape(
        "-.02,.86 ~-.3,.96 -.42,.72 ~-.56,.36 -.28,.06 ~-.14,-.04 0,.02 ~.14,-.04 .28,.06 ~.56,.36 .42,.72 ~.3,.96 .02,.86",
        {
          color,
          to: deepen(color, 0.36),
          grain: 0.08,
        },
      );
      gleam(pen, 0, 0.5, 0.42);
      pen.oval(0, 0.83, 0.13, 0.035, deepen(color, 0.4));
      pen.line("0,.8 ~0,.96 .08,1", 0.045, STEM);
      pen.shape(".06,.9 ~.2,1.06 .36,.98 ~.26,.84 .06,.9", LEAF);
    },
  },
  {
    name: "pear",
    plural: "pears",
    width: 0.72,
    height: 1.05,
    habitat: ["table"],
    colors: ["green", "yellow", "brown", "red"],
    draw(pen, { color }) {
      pen.shape(
        "0,.92 ~-.16,.92 -.16,.68 ~-.36,.5 -.36,.3 ~-.34,.01 0,.01 ~.34,.01 .36,.3 ~.36,.5 .16,.68 ~.16,.92 0,.92",
        {
          color,
          to: deepen(color, 0.34),
          grain: 0.1,
        },
      );
      gleam(pen, 0, 0.36, 0.34);
      pen.line("0,.9 ~.01,.98 .07,1", 0.04, STEM);
      pen.shape("0,.92 ~-.12,1.04 -.24,.97 ~-.14,.88 0,.92", LEAF);
    },
  },
  {
    name: "orange",
    plural: "oranges",
    width: 1,
    height: 0.76,
    habitat: ["table"],
    colors: ["orange"],
    draw(pen, { color }) {
      pen.disc(0, 0.48, 0.48, { color, to: deepen(color, 0.34), pattern: dots(22), accent: deepen(color, 0.12) });
      gleam(pen, 0, 0.48, 0.46);
      pen.oval(0.02, 0.9, 0.07, 0.03, [94, 120, 50]);
      pen.shape(".04,.92 ~.2,1.06 .34,.96 ~.2,.88 .04,.92", LEAF);
    },
  },
  {
    name: "lemon",
    plural: "lemons",
    width: 1.4,
    height: 0.62,
    habitat: ["table"],
    colors: ["yellow", "green"],
    draw(pen, { color }) {
      pen.shape(
        "-.7,.5 ~-.6,.56 -.5,.64 ~-.3,.98 .02,.96 ~.4,.94 .54,.64 .7,.54 .66,.4 .54,.36 ~.36,.02 0,.02 ~-.34,.02 -.5,.38 ~-.66,.4 -.7,.5",
        {
          color,
          to: deepen(color, 0.26),
          grain: 0.1,
        },
      );
      gleam(pen, 0, 0.5, 0.46);
    },
  },
  {
    name: "banana",
    plural: "bananas",
    width: 1.7,
    height: 0.66,
    habitat: ["table"],
    colors: ["yellow", "green"],
    draw(pen, { color }) {
      pen.shape("-.8,.96 -.7,1 ~-.56,.5 0,.44 ~.54,.4 .74,.76 .84,.7 ~.7,.04 0,.02 ~-.72,.08 -.8,.96", { color });
      pen.shape("-.72,.92 ~-.56,.34 .02,.28 ~.5,.26 .78,.72 ~.54,.16 0,.14 ~-.62,.2 -.72,.92", {
        color: deepen(color, 0.16),
        flat: true,
      });
      pen.shape("-.82,.9 -.74,1.04 -.66,1 -.7,.86", STEM);
      pen.disc(0.8, 0.72, 0.055, STEM);
    },
  },
  {
    name: "strawberry",
    plural: "strawberries",
    width: 0.8,
    height: 0.56,
    habitat: ["table"],
    colors: ["red", "pink"],
    draw(pen, { color }) {
      pen.shape("0,.84 ~-.46,.9 -.4,.56 ~-.32,.2 0,0 ~.32,.2 .4,.56 ~.46,.9 0,.84", {
        color,
        to: deepen(color, 0.3),
        pattern: (u, v) => dots(8)(u, v) * 0.7,
        accent: [252, 214, 120],
      });
      gleam(pen, 0, 0.56, 0.34, 0.4);
      for (const [u, v] of [
        [-0.32, 0.78],
        [-0.16, 0.68],
        [0.06, 0.66],
        [0.26, 0.72],
        [0.34, 0.86],
      ] as const) {
        pen.shape(`-.06,.9 ${u},${v} .06,.92`, LEAF);
      }
      pen.line("0,.88 .04,1", 0.05, LEAF);
    },
  },
  {
    name: "cherry",
    plural: "cherries",
    width: 0.75,
    height: 0.5,
    habitat: ["table"],
    colors: ["red", "black", "purple"],
    draw(pen, { color }) {
      pen.line("0,.56 ~.06,.86 .24,.98", 0.04, LEAF);
      pen.disc(0, 0.34, 0.34, { color, to: deepen(color, 0.42) });
      gleam(pen, 0, 0.34, 0.32, 0.7);
      pen.oval(0, 0.62, 0.09, 0.03, deepen(color, 0.5));
      pen.shape(".2,.96 ~.34,1.06 .46,.92 ~.32,.84 .2,.96", LEAF);
    },
  },
  {
    name: "bunch of grapes",
    plural: "bunches of grapes",
    width: 0.85,
    height: 1.1,
    habitat: ["table"],
    colors: ["purple", "green", "black", "red"],
    draw(pen, { color }) {
      pen.line("0,.8 ~.02,.94 .1,1", 0.045, STEM);
      const rows = [
        [0.76, -0.28, 0.28, 4],
        [0.6, -0.32, 0.32, 4],
        [0.44, -0.24, 0.24, 3],
        [0.28, -0.13, 0.13, 2],
        [0.12, 0, 0, 1],
      ] as const;
      for (const [v, from, to, count] of rows) {
        for (let i = 0; i < count; i++) {
          const u = count === 1 ? 0 : from + ((to - from) * i) / (count - 1);
          pen.disc(u, v, 0.12, { color: mix(color, [210, 220, 240], (i % 2) * 0.08), to: deepen(color, 0.4) });
          gleam(pen, u, v, 0.11, 0.6);
        }
      }
      pen.shape("0,.84 ~.12,1.04 .36,.98 ~.44,.86 .3,.78 ~.14,.76 0,.84", LEAF);
    },
  },
  {
    name: "watermelon slice",
    plural: "watermelon slices",
    width: 1.7,
    height: 0.85,
    habitat: ["table"],
    colors: ["red", "yellow"],
    draw(pen, { color }) {
      pen.shape("-.82,.86 ~-.74,.02 0,.02 ~.74,.02 .82,.86", [56, 120, 60]);
      pen.shape("-.75,.86 ~-.66,.1 0,.1 ~.66,.1 .75,.86", plain([218, 236, 190]));
      pen.shape("-.68,.88 ~-.6,.17 0,.17 ~.6,.17 .68,.88", { color, grain: 0.1 });
      for (const [u, v] of [
        [-0.42, 0.66],
        [-0.2, 0.46],
        [0.04, 0.68],
        [0.24, 0.42],
        [0.44, 0.66],
        [0.02, 0.3],
      ] as const) {
        pen.oval(u, v, 0.035, 0.06, [48, 36, 36]);
      }
    },
  },
  {
    name: "pineapple",
    plural: "pineapples",
    width: 0.55,
    height: 1.5,
    habitat: ["table"],
    colors: ["yellow", "orange"],
    draw(pen, { color }) {
      for (const [u, v, w] of [
        [-0.22, 0.84, 0.1],
        [0.22, 0.84, 0.1],
        [-0.12, 0.96, 0.1],
        [0.12, 0.96, 0.1],
        [0, 1, 0.1],
      ] as const) {
        pen.shape(
          `${u * 0.3 - w / 2},.6 ~${u * 0.6},.8 ${u},${v} ~${u * 0.8 + w * 0.6},.74 ${u * 0.3 + w / 2},.6`,
          LEAF,
        );
      }
      pen.oval(0, 0.32, 0.25, 0.32, { color, pattern: tiles(9), accent: [150, 96, 34], grain: 0.12 });
    },
  },
  {
    name: "carrot",
    plural: "carrots",
    width: 0.5,
    height: 1.15,
    habitat: ["table"],
    colors: ["orange", "purple", "yellow"],
    draw(pen, { color }) {
      for (const u of [-0.14, -0.05, 0.06, 0.15]) pen.line(`0,.68 ~${u * 0.6},.84 ${u},${1 - Math.abs(u)}`, 0.05, LEAF);
      pen.shape("-.17,.64 ~-.16,.74 0,.74 ~.16,.74 .17,.64 ~.1,.2 0,0 ~-.1,.2 -.17,.64", { color, grain: 0.1 });
      for (const [u, v, w] of [
        [-0.12, 0.54, 0.1],
        [0.02, 0.4, 0.1],
        [-0.07, 0.3, 0.07],
        [0.03, 0.62, 0.08],
      ] as const) {
        pen.line(`${u},${v} ${u + w},${v - 0.015}`, 0.014, plain(deepen(color, 0.3), 0));
      }
    },
  },
  {
    name: "aubergine",
    plural: "aubergines",
    width: 0.62,
    height: 1.15,
    habitat: ["table"],
    colors: ["purple", "white", "black"],
    draw(pen, { color }) {
      pen.shape("-.12,.8 ~-.34,.42 -.3,.24 ~-.24,0 0,0 ~.26,0 .3,.24 ~.32,.44 .12,.8", {
        color,
        to: deepen(color, 0.42),
      });
      gleam(pen, -0.02, 0.34, 0.3);
      pen.shape("-.18,.84 -.2,.68 -.08,.76 0,.64 .08,.76 .2,.68 .18,.84 ~0,.92 -.18,.84", LEAF);
      pen.line("0,.86 .04,1", 0.06, LEAF);
    },
  },
  {
    name: "tomato",
    plural: "tomatoes",
    width: 1.15,
    height: 0.66,
    habitat: ["table"],
    colors: ["red", "yellow"],
    draw(pen, { color }) {
      pen.oval(0, 0.43, 0.54, 0.43, { color, to: deepen(color, 0.36) });
      gleam(pen, 0, 0.43, 0.46, 0.7);
      for (const u of [-0.24, -0.1, 0.08, 0.24])
        pen.shape(`-.05,.86 ${u},${0.7 + Math.abs(u) * 0.3} .05,.88`, COLORS.green);
      pen.line("0,.84 .03,1", 0.05, lift(LEAF, 0.1));
    },
  },
];
