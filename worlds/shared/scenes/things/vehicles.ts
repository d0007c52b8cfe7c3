/** Vehicles, seen from the side, facing right. */
import { exact } from "../../../../src/core/index.ts";
import { type Color, deepen, lift } from "../brush.ts";
import { planks, stripes } from "../patterns.ts";
import type { Pen } from "../pen.ts";
import { COLORS, DARK, GLASS, LIGHT, plain, STEEL, type Thing, WOOD } from "../thing.ts";

const { cos, sin } = exact;

const TYRE: Color = [46, 46, 52];
const pane = { color: GLASS, to: [92, 138, 170], along: [1, 0.6] } as const;

function wheel(pen: Pen, u: number, radius: number): void {
  pen.disc(u, radius, radius, TYRE);
  pen.disc(u, radius, radius * 0.62, STEEL);
  pen.disc(u, radius, radius * 0.5, plain([120, 124, 134]));
  pen.disc(u, radius, radius * 0.2, LIGHT);
}

export const vehicles: readonly Thing[] = [
  {
    name: "car",
    plural: "cars",
    width: 2.5,
    height: 0.95,
    habitat: ["ground"],
    colors: ["red", "blue", "yellow", "green", "white", "black", "orange", "teal", "purple"],
    draw(pen, { color, coat }) {
      pen.shape("-.8,.52 ~-.62,.98 -.36,1 .14,1 ~.44,.98 .7,.54", { ...coat, color: deepen(color, 0.08) });
      pen.shape("-.66,.56 ~-.52,.9 -.34,.91 -.1,.91 -.1,.56", pane);
      pen.shape("0,.56 0,.91 .14,.91 ~.36,.88 .56,.56", pane);
      pen.shape(
        "-1.2,.24 ~-1.26,.58 -.98,.6 ~-.7,.6 -.6,.6 .66,.6 ~1.1,.58 1.22,.4 ~1.26,.3 1.22,.2 ~0,.12 -1.18,.2",
        coat,
      );
      pen.rect(-1.18, 0.27, 2.4, 0.045, plain(deepen(color, 0.35)));
      pen.line("-.05,.24 -.05,.58", 0.016, plain(deepen(color, 0.45), 0));
      pen.rect(-0.3, 0.48, 0.14, 0.03, plain(deepen(color, 0.4)));
      pen.oval(1.13, 0.43, 0.075, 0.06, plain([255, 240, 180]));
      pen.oval(-1.17, 0.45, 0.045, 0.07, plain([220, 60, 50]));
      wheel(pen, -0.7, 0.24);
      wheel(pen, 0.72, 0.24);
    },
  },
  {
    name: "bus",
    plural: "buses",
    width: 2.5,
    height: 1.7,
    habitat: ["ground"],
    colors: ["red", "yellow", "blue", "green", "orange", "white"],
    draw(pen, { color, coat }) {
      pen.rect(-1.22, 0.14, 2.44, 0.84, coat, 0.12);
      pen.rect(-1.22, 0.4, 2.44, 0.06, plain(lift(color, 0.6)));
      for (let i = 0; i < 5; i++) pen.rect(-1.1 + i * 0.38, 0.56, 0.31, 0.28, pane, 0.04);
      pen.rect(0.84, 0.2, 0.2, 0.64, { color: [126, 164, 186], to: [70, 96, 120] }, 0.03);
      pen.rect(1.08, 0.52, 0.13, 0.32, pane, 0.04);
      pen.oval(1.16, 0.3, 0.05, 0.05, plain([255, 240, 180]));
      pen.rect(-1.1, 0.9, 2.1, 0.04, plain(deepen(color, 0.3)));
      wheel(pen, -0.7, 0.17);
      wheel(pen, 0.6, 0.17);
    },
  },
  {
    name: "lorry",
    plural: "lorries",
    width: 2.2,
    height: 1.55,
    habitat: ["ground"],
    colors: ["orange", "blue", "green", "red", "white", "purple"],
    patterns: ["plain", "striped"],
    draw(pen, { color, coat }) {
      pen.rect(-1.08, 0.2, 2.1, 0.1, TYRE);
      pen.rect(
        -1.1,
        0.28,
        1.44,
        0.72,
        { ...coat, pattern: coat.pattern ?? planks(7, true), accent: coat.accent ?? deepen(color, 0.25) },
        0.03,
      );
      pen.shape(".4,.24 .4,.86 ~.42,.9 .5,.9 .78,.9 ~.86,.9 .9,.8 1.02,.54 ~1.1,.52 1.1,.4 1.1,.24", {
        color: deepen(color, 0.12),
      });
      pen.shape(".56,.54 .56,.82 .78,.82 .92,.54", pane);
      pen.oval(1.07, 0.36, 0.035, 0.05, plain([255, 240, 180]));
      for (const u of [-0.8, -0.42, 0.72]) wheel(pen, u, 0.17);
    },
  },
  {
    name: "tractor",
    plural: "tractors",
    width: 1.5,
    height: 1.2,
    habitat: ["ground"],
    colors: ["green", "red", "blue", "orange"],
    draw(pen, { color, coat }) {
      pen.rect(-0.5, 0.9, 0.66, 0.07, deepen(color, 0.1), 0.03);
      pen.rect(-0.42, 0.5, 0.5, 0.42, pane);
      pen.line("-.42,.5 -.42,.92", 0.04, DARK);
      pen.line(".08,.5 .08,.92", 0.04, DARK);
      pen.rect(0.36, 0.62, 0.06, 0.3, DARK);
      pen.shape("-.5,.26 -.5,.54 .02,.54 .1,.62 .6,.6 ~.7,.58 .7,.44 .7,.26", coat);
      for (let i = 0; i < 4; i++) pen.rect(0.28 + i * 0.09, 0.34, 0.05, 0.18, plain(deepen(color, 0.4)));
      pen.disc(-0.32, 0.34, 0.34, TYRE);
      pen.disc(-0.32, 0.34, 0.2, [236, 196, 60]);
      pen.disc(-0.32, 0.34, 0.07, TYRE);
      pen.disc(0.48, 0.2, 0.2, TYRE);
      pen.disc(0.48, 0.2, 0.11, [236, 196, 60]);
    },
  },
  {
    name: "bicycle",
    plural: "bicycles",
    width: 1.6,
    height: 0.85,
    habitat: ["ground"],
    colors: ["red", "blue", "green", "yellow", "black", "pink"],
    draw(pen, { color }) {
      for (const u of [-0.48, 0.48]) {
        for (let i = 0; i < 24; i++) {
          const [a, b] = [RIM[i] as readonly [number, number], RIM[(i + 1) % 24] as readonly [number, number]];
          pen.limb(u + a[0] * 0.3, 0.33 + a[1] * 0.3, 0.055, u + b[0] * 0.3, 0.33 + b[1] * 0.3, 0.055, plain(TYRE));
          if (i % 3 === 0) pen.limb(u, 0.33, 0.012, u + a[0] * 0.29, 0.33 + a[1] * 0.29, 0.012, plain(STEEL, 0));
        }
      }
      const tube = { color };
      pen.line("-.48,.33 -.16,.72 .34,.72 .02,.32 -.48,.33", 0.05, tube);
      pen.line("-.2,.8 .02,.32", 0.05, tube);
      pen.line(".3,.88 .48,.33", 0.05, tube);
      pen.line(".2,.92 .32,.9 .44,.96", 0.04, DARK);
      pen.oval(-0.22, 0.84, 0.14, 0.045, DARK);
      pen.disc(0.02, 0.32, 0.07, STEEL);
    },
  },
  {
    name: "sailing boat",
    plural: "sailing boats",
    width: 1,
    height: 1.4,
    habitat: ["water"],
    colors: ["white", "red", "blue", "yellow", "green", "orange"],
    patterns: ["plain", "striped"],
    draw(pen, { coat }) {
      pen.rect(-0.02, 0.2, 0.035, 0.8, WOOD);
      pen.shape(".04,.26 .04,.96 ~.44,.6 .46,.26", coat);
      pen.shape("-.06,.28 -.06,.86 ~-.2,.6 -.42,.28", { color: LIGHT });
      pen.shape("-.5,.22 .54,.22 ~.46,.02 .3,0 -.34,0 ~-.46,.06 -.5,.22", {
        color: WOOD,
        pattern: planks(14),
        accent: [96, 62, 36],
      });
      pen.rect(-0.5, 0.2, 1.04, 0.035, plain(LIGHT));
      pen.shape("-.02,.98 -.02,1.06 -.16,1.02", plain(COLORS.red));
    },
  },
  {
    name: "steamboat",
    plural: "steamboats",
    width: 1.9,
    height: 1.3,
    habitat: ["water"],
    colors: ["red", "blue", "black", "green"],
    draw(pen, { color, coat }) {
      pen.rect(-0.26, 0.6, 0.2, 0.36, { color: [226, 96, 56] }, 0.02);
      pen.rect(-0.26, 0.84, 0.2, 0.06, plain(DARK));
      pen.rect(0.08, 0.6, 0.17, 0.3, { color: [226, 96, 56] }, 0.02);
      pen.rect(0.08, 0.8, 0.17, 0.05, plain(DARK));
      pen.rect(-0.6, 0.34, 1.1, 0.2, LIGHT, 0.03);
      pen.rect(-0.42, 0.52, 0.8, 0.14, LIGHT, 0.03);
      for (let i = 0; i < 5; i++) pen.disc(-0.44 + i * 0.2, 0.44, 0.05, plain([70, 110, 150]));
      pen.shape("-.9,.36 .98,.4 ~.86,.06 .7,0 -.7,0 ~-.86,.1 -.9,.36", coat);
      pen.shape("-.88,.28 .94,.3 .9,.22 -.86,.2", plain(lift(color, 0.6)));
    },
  },
  {
    name: "balloon",
    plural: "balloons",
    width: 0.72,
    height: 1.5,
    habitat: ["sky"],
    colors: ["red", "yellow", "blue", "green", "purple", "orange", "pink", "white"],
    patterns: ["plain", "striped", "checked", "spotted"],
    draw(pen, { color, coat }) {
      pen.line("-.12,.36 -.07,.16", 0.012, plain(DARK, 0));
      pen.line(".12,.36 .07,.16", 0.012, plain(DARK, 0));
      pen.shape("-.14,.34 ~-.36,.52 -.36,.68 ~-.34,1 0,1 ~.34,1 .36,.68 ~.36,.52 .14,.34", {
        ...coat,
        along: [1, 0.5],
      });
      pen.shape("-.14,.34 ~-.02,.6 0,1 ~-.2,.7 -.14,.34", { color: lift(color, 0.5), flat: true, alpha: 0.35 });
      pen.shape("-.14,.34 .14,.34 .11,.3 -.11,.3", deepen(color, 0.3));
      pen.rect(-0.08, 0, 0.16, 0.16, { color: WOOD, pattern: stripes(22, false), accent: [110, 72, 40] }, 0.02);
    },
  },
  {
    name: "plane",
    plural: "planes",
    width: 2.6,
    height: 0.6,
    habitat: ["sky"],
    colors: ["white", "red", "yellow", "blue", "orange"],
    draw(pen, { color, coat }) {
      pen.shape("-1.1,.5 -1.32,1 -1.06,1 -.72,.6", deepen(color, 0.1));
      pen.shape("-1.24,.5 ~-.4,.74 .7,.72 ~1.2,.68 1.24,.5 ~1.2,.3 .6,.28 ~-.6,.28 -1.24,.5", coat);
      for (let i = 0; i < 7; i++) pen.oval(-0.5 + i * 0.19, 0.56, 0.045, 0.06, plain([70, 110, 150]));
      pen.shape(".88,.64 ~1.06,.62 1.14,.54 .92,.52", pane);
      pen.shape("-.1,.44 -.66,.02 -.36,.02 .4,.42", { color: deepen(color, 0.18) });
      pen.shape("-1.06,.5 -1.3,.34 -1.1,.34 -.8,.48", deepen(color, 0.2));
    },
  },
];

const RIM = Array.from({ length: 24 }, (_, i) => [cos((i * Math.PI) / 12), sin((i * Math.PI) / 12)] as const);
