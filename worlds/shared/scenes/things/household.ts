/** Things of the house and of play. */
import { exact } from "../../../../src/core/index.ts";
import { type Color, deepen, lift, mix } from "../brush.ts";
import { planks, stripes } from "../patterns.ts";
import type { Pen } from "../pen.ts";
import { DARK, GLASS, LEAF, LIGHT, plain, STEEL, type Thing, WOOD } from "../thing.ts";

const { cos, sin } = exact;

const BRASS: Color = [214, 172, 84];

function highlight(pen: Pen, path: string, strength = 0.4): void {
  pen.shape(path, { color: LIGHT, flat: true, alpha: strength, grain: 0 });
}

export const household: readonly Thing[] = [
  {
    name: "mug",
    plural: "mugs",
    width: 1.1,
    height: 0.95,
    habitat: ["table"],
    colors: ["blue", "red", "yellow", "green", "white", "pink", "teal", "purple", "black"],
    patterns: ["plain", "striped", "spotted"],
    draw(pen, { color, coat }) {
      pen.line(".38,.74 ~.72,.74 .66,.44 ~.6,.22 .36,.24", 0.1, deepen(color, 0.12));
      pen.shape("-.42,.92 ~-.42,.2 -.34,.06 ~0,-.02 .34,.06 ~.42,.2 .42,.92", { ...coat, along: [1, 0.3] });
      pen.oval(0, 0.92, 0.42, 0.08, lift(color, 0.3));
      pen.oval(0, 0.91, 0.36, 0.06, plain([92, 58, 40]));
      highlight(pen, "-.3,.8 -.22,.8 -.2,.2 -.27,.2");
    },
  },
  {
    name: "teapot",
    plural: "teapots",
    width: 1.75,
    height: 1,
    habitat: ["table"],
    colors: ["white", "blue", "red", "green", "yellow", "pink", "teal"],
    patterns: ["plain", "spotted", "striped"],
    draw(pen, { color, coat }) {
      pen.line("-.44,.66 ~-.92,.72 -.84,.4 ~-.76,.16 -.46,.22", 0.09, deepen(color, 0.12));
      pen.shape(".4,.42 ~.66,.4 .7,.72 .86,.78 .84,.68 ~.8,.2 .38,.12", color);
      pen.shape("-.3,.74 ~-.58,.6 -.56,.36 ~-.5,.04 0,.02 ~.5,.04 .56,.36 ~.58,.6 .3,.74", coat);
      pen.oval(0, 0.74, 0.32, 0.07, deepen(color, 0.1));
      pen.shape("-.28,.76 ~0,1 .28,.76", color);
      pen.disc(0, 0.93, 0.07, deepen(color, 0.1));
      highlight(pen, "-.4,.5 ~-.36,.64 -.24,.66 ~-.34,.5 -.32,.3 ~-.4,.36 -.4,.5");
    },
  },
  {
    name: "vase",
    plural: "vases",
    width: 0.6,
    height: 1.6,
    habitat: ["table"],
    colors: ["blue", "white", "red", "green", "yellow", "purple", "teal"],
    patterns: ["plain", "striped", "spotted"],
    draw(pen, { color, coat, dice }) {
      const petals: readonly Color[] = [
        [236, 92, 110],
        [250, 206, 80],
        [240, 240, 250],
        [150, 110, 210],
      ];
      for (let i = 0; i < 5; i++) {
        const u = -0.24 + i * 0.12;
        const v = 0.84 + dice.between(-0.06, 0.1);
        pen.line(`${u * 0.2},.5 ~${u * 0.5},.7 ${u},${v}`, 0.018, LEAF);
        const petal = dice.pick(petals);
        for (let k = 0; k < 5; k++) {
          pen.disc(u + 0.05 * cos(k * 1.2566), v + 0.05 * sin(k * 1.2566), 0.036, petal);
        }
        pen.disc(u, v, 0.026, [252, 220, 90]);
      }
      pen.shape(
        "-.1,.54 ~-.06,.44 -.16,.36 ~-.3,.24 -.2,.06 ~-.14,.01 0,.01 ~.14,.01 .2,.06 ~.3,.24 .16,.36 ~.06,.44 .1,.54",
        { ...coat, along: [1, 0.3] },
      );
      pen.oval(0, 0.54, 0.1, 0.022, deepen(color, 0.4));
      highlight(pen, "-.17,.28 ~-.14,.34 -.1,.36 ~-.12,.2 -.1,.1 ~-.18,.14 -.17,.28");
    },
  },
  {
    name: "book",
    plural: "books",
    width: 0.34,
    height: 1.25,
    habitat: ["table"],
    colors: ["red", "blue", "green", "brown", "purple", "yellow", "black", "teal", "orange"],
    draw(pen, { color, dice }) {
      pen.rect(-0.15, 0, 0.3, 1, { color, along: [1, 0.1] }, 0.02);
      const bands = dice.chance(0.5) ? [0.12, 0.84] : [0.2, 0.7, 0.76];
      for (const v of bands) pen.rect(-0.15, v, 0.3, 0.035, plain(BRASS));
      if (dice.chance(0.6)) pen.oval(0, 0.48, 0.07, 0.11, plain(lift(color, 0.45)));
    },
  },
  {
    name: "lamp",
    plural: "lamps",
    width: 0.72,
    height: 1.7,
    habitat: ["table"],
    colors: ["yellow", "white", "red", "green", "blue", "pink"],
    patterns: ["plain", "striped", "spotted"],
    draw(pen, { color, coat }) {
      const { brush } = pen;
      pen.oval(0, 0.03, 0.2, 0.035, BRASS);
      pen.shape("-.04,.04 ~-.14,.16 -.03,.28 ~-.06,.4 -.02,.54 .02,.54 ~.06,.4 .03,.28 ~.14,.16 .04,.04", BRASS);
      brush.glow(pen.x(0, 0.6), pen.y(0, 0.6), pen.size * 0.6, pen.size * 0.5, [255, 236, 170], 0.35);
      pen.shape("-.2,.98 .2,.98 .36,.5 ~0,.44 -.36,.5", { ...coat, color: lift(color, 0.2), along: [1, 0.2] });
      pen.oval(0, 0.98, 0.2, 0.02, deepen(color, 0.2));
    },
  },
  {
    name: "clock",
    plural: "clocks",
    width: 0.9,
    height: 0.9,
    habitat: ["table"],
    colors: ["red", "blue", "yellow", "green", "black", "white", "teal"],
    draw(pen, { color, dice }) {
      pen.limb(-0.2, 0.2, 0.08, -0.3, 0.02, 0.06, deepen(color, 0.3));
      pen.limb(0.2, 0.2, 0.08, 0.3, 0.02, 0.06, deepen(color, 0.3));
      pen.oval(-0.22, 0.9, 0.14, 0.11, BRASS, -30);
      pen.oval(0.22, 0.9, 0.14, 0.11, BRASS, 30);
      pen.disc(0, 0.5, 0.42, { color });
      pen.disc(0, 0.5, 0.34, plain(LIGHT));
      for (let i = 0; i < 12; i++) {
        const [c, s] = [cos((i * Math.PI) / 6), sin((i * Math.PI) / 6)];
        pen.limb(c * 0.27, 0.5 + s * 0.27, 0.024, c * 0.31, 0.5 + s * 0.31, 0.024, plain(DARK, 0));
      }
      const hour = dice.between(0, 6.28);
      pen.limb(0, 0.5, 0.045, cos(hour) * 0.17, 0.5 + sin(hour) * 0.17, 0.03, plain(DARK, 0));
      const minute = dice.between(0, 6.28);
      pen.limb(0, 0.5, 0.034, cos(minute) * 0.25, 0.5 + sin(minute) * 0.25, 0.022, plain(DARK, 0));
      pen.disc(0, 0.5, 0.03, plain([206, 60, 50], 0));
    },
  },
  {
    name: "candle",
    plural: "candles",
    width: 0.5,
    height: 1,
    habitat: ["table"],
    colors: ["white", "red", "green", "purple", "blue", "yellow"],
    patterns: ["plain", "striped"],
    draw(pen, { color, coat }) {
      pen.oval(0, 0.06, 0.26, 0.06, BRASS);
      pen.line(".2,.08 ~.36,.12 .3,.2", 0.03, BRASS);
      pen.rect(-0.1, 0.06, 0.2, 0.6, { ...coat, along: [1, 0.2] }, 0.02);
      pen.oval(0, 0.66, 0.1, 0.024, lift(color, 0.3));
      pen.line("0,.66 .01,.74", 0.018, DARK);
      pen.brush.glow(pen.x(0, 0.82), pen.y(0, 0.82), pen.size * 0.32, pen.size * 0.32, [255, 224, 130], 0.6);
      pen.shape("0,.98 ~-.12,.8 0,.71 ~.12,.8 0,.98", { color: [255, 236, 150], to: [250, 150, 40], grain: 0 });
    },
  },
  {
    name: "bottle",
    plural: "bottles",
    width: 0.42,
    height: 1.6,
    habitat: ["table"],
    colors: ["green", "brown", "blue", "teal", "purple"],
    draw(pen, { color }) {
      pen.shape(
        "-.18,.02 -.18,.52 ~-.18,.64 -.06,.7 -.06,.94 .06,.94 .06,.7 ~.18,.64 .18,.52 .18,.02 ~0,-.02 -.18,.02",
        { color, to: deepen(color, 0.5), along: [1, 0.1] },
      );
      pen.rect(-0.07, 0.9, 0.14, 0.08, [196, 150, 100], 0.02);
      pen.rect(-0.18, 0.18, 0.36, 0.22, { color: [240, 228, 200], along: [1, 0] });
      pen.oval(0, 0.29, 0.09, 0.07, plain([190, 80, 60]));
      highlight(pen, "-.14,.5 -.1,.54 -.1,.42 -.14,.42", 0.5);
    },
  },
  {
    name: "jar",
    plural: "jars",
    width: 0.75,
    height: 0.95,
    habitat: ["table"],
    colors: ["red", "orange", "yellow", "purple", "green"],
    draw(pen, { color }) {
      pen.rect(-0.34, 0, 0.68, 0.84, { color: mix(GLASS, LIGHT, 0.3), along: [1, 0] }, 0.12);
      pen.rect(-0.3, 0.04, 0.6, 0.62, { color, to: deepen(color, 0.3), along: [1, 0.3], grain: 0.14 }, 0.1);
      pen.rect(-0.3, 0.82, 0.6, 0.14, { color: [200, 60, 60], pattern: stripes(9), accent: LIGHT }, 0.03);
      highlight(pen, "-.26,.7 -.2,.7 -.2,.16 -.26,.16", 0.45);
    },
  },
  {
    name: "ball",
    plural: "balls",
    width: 1,
    height: 0.4,
    habitat: ["ground", "table"],
    colors: ["red", "blue", "yellow", "green", "orange", "purple", "pink", "white"],
    patterns: ["plain", "striped", "spotted"],
    draw(pen, { coat }) {
      pen.disc(0, 0.5, 0.5, coat);
      const { brush, size } = pen;
      brush.glow(pen.x(0, 0.5) + brush.light * size * 0.18, pen.y(0, 0.72), size * 0.24, size * 0.2, LIGHT, 0.6);
    },
  },
  {
    name: "gift",
    plural: "gifts",
    width: 1,
    height: 0.6,
    habitat: ["ground", "table"],
    colors: ["red", "blue", "green", "purple", "yellow", "pink", "teal"],
    patterns: ["plain", "spotted", "striped", "checked"],
    draw(pen, { color, coat }) {
      const ribbon: Color = color[0] > 225 && color[1] > 180 ? [206, 60, 60] : [252, 214, 96];
      pen.rect(-0.46, 0, 0.92, 0.66, coat);
      pen.rect(-0.5, 0.62, 1, 0.16, lift(color, 0.08));
      pen.rect(-0.08, 0, 0.16, 0.78, ribbon);
      pen.shape("0,.76 ~-.36,1.1 -.34,.84 ~-.2,.74 0,.76", ribbon);
      pen.shape("0,.76 ~.36,1.1 .34,.84 ~.2,.74 0,.76", deepen(ribbon, 0.1));
      pen.oval(0, 0.8, 0.07, 0.055, deepen(ribbon, 0.15));
    },
  },
  {
    name: "umbrella",
    plural: "umbrellas",
    width: 1.15,
    height: 1.35,
    habitat: ["ground"],
    colors: ["red", "blue", "yellow", "green", "purple", "pink", "orange"],
    patterns: ["plain", "striped", "spotted"],
    draw(pen, { color, coat }) {
      pen.rect(-0.02, 0, 0.04, 0.96, LIGHT);
      pen.shape(
        "-.56,.5 ~-.44,.94 0,.95 ~.44,.94 .56,.5 ~.46,.58 .37,.5 ~.28,.58 .19,.5 ~.1,.58 0,.5 ~-.1,.58 -.19,.5 ~-.28,.58 -.37,.5 ~-.46,.58 -.56,.5",
        coat,
      );
      pen.line("-.19,.51 ~-.12,.84 0,.95", 0.012, plain(deepen(color, 0.3), 0));
      pen.line(".19,.51 ~.12,.84 0,.95", 0.012, plain(deepen(color, 0.3), 0));
      pen.disc(0, 0.97, 0.03, LIGHT);
    },
  },
  {
    name: "chair",
    plural: "chairs",
    width: 0.65,
    height: 0.95,
    habitat: ["ground"],
    colors: ["brown", "red", "blue", "white", "green", "yellow"],
    draw(pen, { color }) {
      const dark = deepen(color, 0.25);
      pen.limb(-0.14, 0.4, 0.05, -0.12, 0.06, 0.045, dark);
      pen.limb(0.26, 0.4, 0.05, 0.26, 0.06, 0.045, dark);
      pen.limb(-0.24, 0.98, 0.055, -0.26, 0.02, 0.05, color);
      pen.limb(0.16, 0.4, 0.055, 0.16, 0.02, 0.05, color);
      pen.shape("-.26,.42 .16,.42 .28,.48 -.14,.48", lift(color, 0.15));
      pen.rect(-0.26, 0.38, 0.44, 0.05, color);
      for (const v of [0.62, 0.76, 0.9]) pen.limb(-0.25, v, 0.06, -0.12, v + 0.04, 0.055, color);
      pen.limb(-0.12, 0.98, 0.045, -0.12, 0.48, 0.045, dark);
    },
  },
  {
    name: "bucket",
    plural: "buckets",
    width: 0.95,
    height: 0.42,
    habitat: ["ground", "table"],
    colors: ["red", "blue", "yellow", "green", "grey", "pink"],
    patterns: ["plain", "striped"],
    draw(pen, { color, coat }) {
      pen.line("-.42,.76 ~0,1.3 .42,.76", 0.035, STEEL);
      pen.shape("-.44,.76 -.3,.04 ~0,-.02 .3,.04 .44,.76", { ...coat, along: [1, 0.2] });
      pen.oval(0, 0.76, 0.44, 0.1, lift(color, 0.25));
      pen.oval(0, 0.75, 0.38, 0.075, plain(deepen(color, 0.5)));
    },
  },
  {
    name: "hat",
    plural: "hats",
    width: 1.7,
    height: 0.5,
    habitat: ["table"],
    colors: ["brown", "black", "yellow", "red", "blue", "white"],
    draw(pen, { color, coat }) {
      pen.shape("-.8,.24 ~-.4,.06 0,.06 ~.4,.06 .8,.24 ~.4,.4 0,.4 ~-.4,.4 -.8,.24", deepen(color, 0.08));
      pen.shape("-.42,.26 ~-.42,.9 -.2,.96 ~0,.88 .2,.96 ~.42,.9 .42,.26 ~0,.12 -.42,.26", coat);
      pen.shape(
        "-.43,.26 ~0,.12 .43,.26 .42,.42 ~0,.28 -.42,.42",
        plain(color[0] > 180 && color[1] < 120 ? DARK : [178, 52, 52]),
      );
    },
  },
  {
    name: "guitar",
    plural: "guitars",
    width: 0.42,
    height: 1.6,
    habitat: ["table"],
    colors: ["brown", "red", "blue", "yellow", "black"],
    draw(pen, { color }) {
      pen.rect(-0.03, 0.4, 0.06, 0.5, [96, 64, 40]);
      pen.rect(-0.045, 0.88, 0.09, 0.12, [80, 54, 36], 0.02);
      pen.shape(
        "0,.56 ~-.16,.58 -.15,.44 ~-.1,.36 -.18,.28 ~-.26,.02 0,.01 ~.26,.02 .18,.28 ~.1,.36 .15,.44 ~.16,.58 0,.56",
        color,
      );
      pen.disc(0, 0.32, 0.06, plain(DARK));
      pen.rect(-0.07, 0.13, 0.14, 0.03, DARK);
      for (const u of [-0.014, 0.014]) pen.line(`${u},.15 ${u},.9`, 0.006, plain(LIGHT, 0));
    },
  },
  {
    name: "crate",
    plural: "crates",
    width: 1.15,
    height: 0.6,
    habitat: ["ground", "table"],
    colors: ["brown", "yellow", "blue", "red"],
    draw(pen, { color }) {
      pen.rect(-0.55, 0, 1.1, 0.96, {
        color: mix(color, WOOD, 0.35),
        pattern: planks(4),
        accent: [70, 46, 28],
        stretch: [0.4, 2],
        grain: 0.14,
      });
      pen.limb(-0.46, 0.1, 0.1, 0.46, 0.86, 0.1, { color: mix(color, WOOD, 0.2), stretch: [0.4, 2] });
      pen.rect(-0.55, 0, 0.11, 0.96, mix(color, WOOD, 0.15));
      pen.rect(0.44, 0, 0.11, 0.96, mix(color, WOOD, 0.15));
    },
  },
  {
    name: "kite",
    plural: "kites",
    width: 0.7,
    height: 0.9,
    habitat: ["sky"],
    colors: ["red", "blue", "yellow", "green", "purple", "orange"],
    patterns: ["plain", "striped"],
    draw(pen, { color, coat }) {
      pen.line("0,.3 ~.2,.2 .06,.12 ~-.1,.04 .06,0", 0.016, plain(DARK, 0));
      for (const [u, v] of [
        [0.1, 0.2],
        [0, 0.06],
      ] as const) {
        pen.shape(`${u},${v} ${u + 0.08},${v + 0.04} ${u + 0.08},${v - 0.04}`, deepen(color, 0.2));
        pen.shape(`${u},${v} ${u - 0.08},${v + 0.04} ${u - 0.08},${v - 0.04}`, color);
      }
      pen.shape("0,1 -.32,.7 0,.28 .32,.7", coat);
      pen.shape("0,1 .32,.7 0,.7", { color: LIGHT, flat: true, alpha: 0.3 });
      pen.shape("0,.28 -.32,.7 0,.7", { color: DARK, flat: true, alpha: 0.18 });
    },
  },
];
