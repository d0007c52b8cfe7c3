/** Animals, seen from the side, facing right. */
import { type Color, deepen, lift, mix } from "../brush.ts";
import { patches, tiles } from "../patterns.ts";
import type { Pen } from "../pen.ts";
import { DARK, LIGHT, plain, type Thing } from "../thing.ts";

function eye(pen: Pen, u: number, v: number, radius: number): void {
  pen.disc(u, v, radius, plain(LIGHT, 0));
  pen.disc(u + radius * 0.25, v, radius * 0.66, plain(DARK, 0));
  pen.disc(u + radius * 0.42, v + radius * 0.3, radius * 0.24, plain(LIGHT, 0));
}

function legs(pen: Pen, at: readonly number[], top: number, width: number, color: Color, hoof: Color = DARK): void {
  at.forEach((u, index) => {
    const far = index % 2 === 1;
    pen.limb(u, top, width, u, width * 0.45, width * 0.8, far ? deepen(color, 0.3) : color);
    pen.limb(u - width * 0.1, width * 0.3, width * 0.7, u + width * 0.25, width * 0.3, width * 0.6, hoof);
  });
}

const PINK: Color = [238, 166, 160];
const BEAK: Color = [242, 158, 46];

export const animals: readonly Thing[] = [
  {
    name: "sheep",
    plural: "sheep",
    width: 1.35,
    height: 0.75,
    habitat: ["ground"],
    colors: ["white", "black", "brown", "pink"],
    draw(pen, { color }) {
      legs(pen, [-0.36, -0.2, 0.22, 0.38], 0.42, 0.1, [70, 60, 62]);
      const wool = { color, grain: 0.14 };
      for (const [u, v, r] of [
        [-0.44, 0.5, 0.2],
        [-0.36, 0.72, 0.2],
        [-0.12, 0.82, 0.21],
        [0.14, 0.8, 0.2],
        [0.34, 0.66, 0.2],
        [0.36, 0.46, 0.18],
        [0.12, 0.4, 0.2],
        [-0.2, 0.38, 0.2],
      ] as const) {
        pen.disc(u, v, r, wool);
      }
      pen.oval(-0.04, 0.58, 0.42, 0.27, { color, to: deepen(color, 0.1), grain: 0.12 });
      pen.oval(0.56, 0.68, 0.15, 0.2, [84, 72, 74], 24);
      pen.oval(0.42, 0.76, 0.12, 0.05, [70, 60, 62], -24);
      pen.oval(0.5, 0.88, 0.15, 0.1, wool);
      eye(pen, 0.58, 0.74, 0.035);
    },
  },
  {
    name: "cow",
    plural: "cows",
    width: 1.6,
    height: 1,
    habitat: ["ground"],
    colors: ["white", "brown", "black", "orange"],
    draw(pen, { color, dice }) {
      const accent = color[0] > 200 ? DARK : LIGHT;
      pen.line("-.62,.78 ~-.78,.7 -.74,.32", 0.04, deepen(color, 0.2));
      pen.oval(-0.74, 0.3, 0.05, 0.09, DARK);
      legs(pen, [-0.46, -0.32, 0.3, 0.44], 0.5, 0.13, color);
      pen.oval(-0.1, 0.36, 0.14, 0.1, PINK);
      const hide = { color, pattern: patches(2.2, dice.whole(0, 9999)), accent };
      pen.shape("-.62,.8 ~-.3,.92 .1,.86 ~.5,.92 .56,.74 ~.6,.4 .4,.38 ~0,.3 -.42,.38 ~-.68,.42 -.62,.8", hide);
      pen.shape("0.4,.84 .62,.98 .8,.82 ~.72,.6 .5,.56 .4,.6", hide);
      pen.limb(0.52, 0.98, 0.05, 0.46, 1.06, 0.02, LIGHT);
      pen.limb(0.68, 0.98, 0.05, 0.74, 1.06, 0.02, LIGHT);
      pen.shape(".5,.94 ~.62,1.02 .74,.94 ~.84,.8 .82,.68 ~.84,.58 .72,.58 ~.6,.58 .58,.7", { color });
      pen.oval(0.76, 0.65, 0.11, 0.085, PINK);
      pen.disc(0.74, 0.65, 0.018, DARK);
      pen.disc(0.81, 0.65, 0.018, DARK);
      pen.oval(0.44, 0.9, 0.1, 0.05, color, 20);
      eye(pen, 0.68, 0.84, 0.034);
    },
  },
  {
    name: "pig",
    plural: "pigs",
    width: 1.4,
    height: 0.62,
    habitat: ["ground"],
    colors: ["pink", "brown", "black", "white"],
    draw(pen, { color, coat }) {
      pen.line("-.62,.6 ~-.78,.74 -.7,.8 ~-.62,.78 -.7,.66", 0.035, color);
      legs(pen, [-0.4, -0.24, 0.2, 0.36], 0.4, 0.15, color);
      pen.oval(-0.08, 0.56, 0.58, 0.36, coat);
      pen.shape(".28,.9 ~.3,1.04 .42,1 .52,.82", deepen(color, 0.08));
      pen.oval(0.44, 0.62, 0.27, 0.29, color);
      pen.shape(".4,.92 ~.46,1.06 .58,1 .6,.84", color);
      pen.oval(0.66, 0.56, 0.1, 0.13, lift(color, 0.18));
      pen.oval(0.65, 0.59, 0.02, 0.035, deepen(color, 0.45));
      pen.oval(0.7, 0.56, 0.02, 0.035, deepen(color, 0.45));
      eye(pen, 0.5, 0.74, 0.04);
    },
  },
  {
    name: "dog",
    plural: "dogs",
    width: 1.15,
    height: 0.6,
    habitat: ["ground"],
    colors: ["brown", "white", "black", "grey", "orange"],
    patterns: ["plain", "spotted"],
    draw(pen, { color, coat }) {
      pen.line("-.42,.56 ~-.66,.62 -.62,.88", 0.08, color);
      const fur = { ...coat, accent: color[0] > 200 ? DARK : LIGHT };
      legs(pen, [-0.34, -0.22, 0.2, 0.32], 0.42, 0.12, color, deepen(color, 0.1));
      pen.shape("-.46,.62 ~-.3,.7 0,.66 ~.3,.74 .38,.6 ~.42,.36 .24,.34 ~0,.38 -.26,.3 ~-.5,.34 -.46,.62", fur);
      pen.shape(".16,.62 .3,.86 .5,.8 .4,.5", fur);
      pen.shape(".24,.92 ~.28,1.02 .42,.98 ~.52,.96 .54,.86 .68,.8 ~.74,.72 .62,.68 ~.4,.6 .28,.72", color);
      pen.oval(0.68, 0.8, 0.045, 0.036, DARK);
      pen.oval(0.27, 0.84, 0.075, 0.16, deepen(color, 0.32), -14);
      pen.line(".16,.62 ~.3,.56 .42,.62", 0.05, [196, 54, 54]);
      eye(pen, 0.46, 0.87, 0.036);
    },
  },
  {
    name: "cat",
    plural: "cats",
    width: 0.8,
    height: 0.46,
    habitat: ["ground", "table"],
    colors: ["orange", "grey", "black", "white", "brown"],
    patterns: ["plain", "striped"],
    draw(pen, { color, coat }) {
      pen.line("-.24,.08 ~-.6,.06 -.48,.4 ~-.42,.56 -.54,.6", 0.1, color);
      pen.shape("-.3,0 ~-.42,.36 -.1,.58 ~.2,.66 .24,.4 .26,0", coat);
      pen.limb(0.1, 0.4, 0.13, 0.12, 0.06, 0.1, color);
      pen.limb(0.2, 0.4, 0.12, 0.26, 0.06, 0.1, lift(color, 0.06));
      pen.shape("-.04,.86 -.02,1.02 .12,.92", color);
      pen.shape(".22,.92 .38,1.02 .36,.84", color);
      pen.oval(0.17, 0.76, 0.25, 0.2, color);
      pen.shape("0,.9 .02,.97 .08,.91", plain(PINK));
      pen.shape(".28,.92 .34,.97 .34,.88", plain(PINK));
      eye(pen, 0.12, 0.78, 0.048);
      eye(pen, 0.28, 0.78, 0.048);
      pen.shape(".19,.7 .25,.7 .22,.665", plain(PINK));
      for (const dv of [0.05, -0.02]) {
        pen.line(`.3,${0.68 + dv / 2} .5,${0.7 + dv}`, 0.008, plain(LIGHT, 0));
        pen.line(`.12,${0.68 + dv / 2} -.08,${0.7 + dv}`, 0.008, plain(LIGHT, 0));
      }
    },
  },
  {
    name: "rabbit",
    plural: "rabbits",
    width: 0.85,
    height: 0.4,
    habitat: ["ground"],
    colors: ["white", "grey", "brown", "black"],
    draw(pen, { color, coat }) {
      pen.disc(-0.36, 0.2, 0.1, { color: LIGHT, grain: 0.14 });
      pen.oval(-0.08, 0.28, 0.32, 0.28, { ...coat, grain: 0.1 });
      pen.oval(-0.14, 0.14, 0.18, 0.13, lift(color, 0.06));
      pen.oval(0.08, 0.05, 0.16, 0.05, lift(color, 0.1));
      pen.oval(0.12, 0.82, 0.06, 0.19, deepen(color, 0.14), -14);
      pen.oval(0.24, 0.83, 0.06, 0.19, color, 6);
      pen.oval(0.24, 0.83, 0.03, 0.14, plain(PINK), 6);
      pen.oval(0.22, 0.54, 0.18, 0.16, color);
      pen.disc(0.38, 0.52, 0.024, PINK);
      eye(pen, 0.27, 0.58, 0.038);
    },
  },
  {
    name: "elephant",
    plural: "elephants",
    width: 1.4,
    height: 1.5,
    habitat: ["ground"],
    colors: ["grey", "pink", "blue", "brown"],
    draw(pen, { color, coat }) {
      pen.line("-.56,.68 ~-.66,.56 -.62,.4", 0.03, deepen(color, 0.2));
      legs(pen, [-0.38, -0.2, 0.1, 0.28], 0.44, 0.19, color, lift(color, 0.25));
      pen.oval(-0.1, 0.62, 0.5, 0.33, coat);
      pen.line(".5,.66 ~.74,.5 .62,.24 ~.6,.12 .72,.14", 0.1, color);
      pen.disc(0.4, 0.74, 0.23, color);
      pen.shape(".54,.58 ~.62,.44 .74,.48 ~.62,.5 .6,.62", plain(LIGHT));
      pen.shape(".3,.96 ~-.06,1.04 0,.68 ~.06,.46 .26,.56 ~.4,.7 .3,.96", deepen(color, 0.12));
      eye(pen, 0.48, 0.8, 0.032);
    },
  },
  {
    name: "duck",
    plural: "ducks",
    width: 1.2,
    height: 0.36,
    habitat: ["water", "ground"],
    colors: ["yellow", "white", "brown", "green"],
    draw(pen, { color, coat }) {
      pen.shape("-.6,.56 ~-.5,.2 -.1,.06 ~.4,0 .44,.34 ~.4,.5 .1,.48 ~-.3,.44 -.6,.56", coat);
      pen.shape("-.4,.44 ~-.1,.58 .14,.36 ~-.1,.14 -.34,.28", deepen(color, 0.14));
      pen.limb(0.28, 0.36, 0.22, 0.34, 0.7, 0.2, color);
      pen.disc(0.36, 0.76, 0.2, color);
      pen.shape(".5,.82 .76,.74 ~.74,.66 .52,.66", BEAK);
      pen.line(".56,.73 .72,.72", 0.012, plain(deepen(BEAK, 0.4), 0));
      eye(pen, 0.4, 0.82, 0.045);
    },
  },
  {
    name: "hen",
    plural: "hens",
    width: 0.95,
    height: 0.42,
    habitat: ["ground"],
    colors: ["white", "brown", "orange", "black"],
    draw(pen, { color, coat }) {
      pen.line("-.06,.2 -.08,.02 .04,.02", 0.035, BEAK);
      pen.line(".1,.2 .1,.02 .22,.02", 0.035, BEAK);
      pen.shape("-.5,.76 ~-.5,.4 -.2,.22 ~.2,.1 .34,.4 ~.4,.7 .34,.86 .16,.86 ~.06,.54 -.2,.58 ~-.36,.6 -.5,.76", {
        ...coat,
        grain: 0.12,
      });
      pen.shape("-.24,.5 ~0,.58 .14,.4 ~-.04,.24 -.22,.34", deepen(color, 0.16));
      for (const u of [0.16, 0.24, 0.32]) pen.disc(u, 0.98 - Math.abs(u - 0.24) * 0.5, 0.06, [206, 44, 44]);
      pen.disc(0.25, 0.86, 0.13, color);
      pen.shape(".36,.88 .5,.82 .36,.78", BEAK);
      pen.oval(0.37, 0.72, 0.035, 0.06, [206, 44, 44]);
      eye(pen, 0.28, 0.89, 0.032);
    },
  },
  {
    name: "penguin",
    plural: "penguins",
    width: 0.6,
    height: 0.55,
    habitat: ["ground"],
    colors: ["black", "blue", "purple"],
    draw(pen, { color, coat }) {
      pen.oval(-0.1, 0.03, 0.13, 0.035, BEAK);
      pen.oval(0.12, 0.03, 0.13, 0.035, BEAK);
      pen.oval(-0.27, 0.4, 0.07, 0.24, deepen(color, 0.2), 14);
      pen.shape("-.26,.06 ~-.34,.5 -.2,.84 ~0,1.1 .2,.84 ~.34,.5 .26,.06", coat);
      pen.shape("-.14,.06 ~-.2,.5 0,.68 ~.26,.62 .2,.06", { color: LIGHT });
      pen.oval(0.06, 0.8, 0.14, 0.11, LIGHT);
      pen.oval(0.25, 0.4, 0.07, 0.24, color, -14);
      pen.shape(".1,.8 .3,.75 .1,.71", BEAK);
      eye(pen, 0.05, 0.85, 0.036);
    },
  },
  {
    name: "turtle",
    plural: "turtles",
    width: 1.7,
    height: 0.3,
    habitat: ["ground"],
    colors: ["green", "brown", "teal", "orange"],
    draw(pen, { color }) {
      const skin = mix(color, [206, 190, 120], 0.6);
      for (const u of [-0.44, 0.3]) pen.limb(u, 0.3, 0.22, u + 0.08, 0.08, 0.18, skin);
      pen.limb(0.5, 0.36, 0.22, 0.72, 0.56, 0.22, skin);
      pen.oval(0.78, 0.6, 0.16, 0.14, skin);
      pen.limb(-0.6, 0.24, 0.1, -0.76, 0.16, 0.03, skin);
      pen.shape("-.66,.22 ~-.6,.98 0,.98 ~.6,.98 .62,.22 ~0,.12 -.66,.22", {
        color,
        pattern: tiles(3.4),
        accent: deepen(color, 0.5),
      });
      pen.shape("-.68,.26 ~0,.12 .64,.26 .62,.16 ~0,.02 -.66,.16", lift(color, 0.3));
      eye(pen, 0.82, 0.64, 0.045);
    },
  },
  {
    name: "snail",
    plural: "snails",
    width: 1.3,
    height: 0.22,
    habitat: ["ground"],
    colors: ["brown", "pink", "orange", "purple"],
    draw(pen, { color }) {
      const body: Color = [206, 180, 140];
      pen.shape("-.66,0 ~-.4,.2 0,.16 ~.4,.2 .44,.5 ~.5,.66 .62,.56 ~.7,.1 .5,0", body);
      pen.limb(0.54, 0.56, 0.05, 0.5, 0.84, 0.03, body);
      pen.limb(0.6, 0.56, 0.05, 0.66, 0.82, 0.03, body);
      pen.disc(0.5, 0.86, 0.04, DARK);
      pen.disc(0.66, 0.84, 0.04, DARK);
      pen.disc(-0.1, 0.5, 0.44, { color });
      for (const [r, shift] of [
        [0.32, 0.06],
        [0.21, 0.1],
        [0.11, 0.12],
      ] as const) {
        pen.disc(-0.1 + shift * 0.6, 0.5 - shift * 0.4, r, r === 0.21 ? color : deepen(color, 0.35));
      }
    },
  },
  {
    name: "owl",
    plural: "owls",
    width: 0.7,
    height: 0.45,
    habitat: ["table", "ground"],
    colors: ["brown", "white", "grey", "purple"],
    draw(pen, { color }) {
      pen.shape("-.32,.3 ~-.4,.8 -.3,1 -.16,.9 .16,.9 .3,1 ~.4,.8 .32,.3 ~.2,.02 0,.02 ~-.2,.02 -.32,.3", {
        color,
        grain: 0.12,
      });
      pen.oval(0, 0.3, 0.2, 0.26, { color: lift(color, 0.4), pattern: tiles(9), accent: color });
      pen.oval(-0.29, 0.4, 0.09, 0.25, deepen(color, 0.22), 8);
      pen.oval(0.29, 0.4, 0.09, 0.25, deepen(color, 0.22), -8);
      for (const u of [-0.13, 0.13]) {
        pen.disc(u, 0.74, 0.13, LIGHT);
        pen.disc(u, 0.74, 0.085, plain([240, 180, 40], 0));
        pen.disc(u, 0.74, 0.05, plain(DARK, 0));
        pen.disc(u + 0.02, 0.76, 0.018, plain(LIGHT, 0));
      }
      pen.shape("-.04,.68 .04,.68 0,.58", BEAK);
    },
  },
  {
    name: "fish",
    plural: "fish",
    width: 1.6,
    height: 0.34,
    habitat: ["water"],
    colors: ["orange", "blue", "yellow", "red", "purple", "teal"],
    patterns: ["plain", "striped", "spotted"],
    draw(pen, { color, coat }) {
      pen.shape("-.5,.5 ~-.7,.9 -.86,.86 ~-.74,.5 -.86,.14 ~-.7,.1 -.5,.5", deepen(color, 0.12));
      pen.shape("-.2,.84 ~.1,1.12 .24,.84", deepen(color, 0.2));
      pen.shape("-.56,.5 ~-.3,.98 .16,.92 ~.62,.88 .8,.5 ~.62,.1 .16,.08 ~-.3,.02 -.56,.5", coat);
      pen.shape(".02,.44 ~-.1,.2 -.2,.28 ~-.1,.44 .02,.5", deepen(color, 0.22));
      pen.line(".36,.84 ~.24,.5 .36,.16", 0.02, plain(deepen(color, 0.3), 0));
      eye(pen, 0.56, 0.6, 0.085);
    },
  },
  {
    name: "butterfly",
    plural: "butterflies",
    width: 1.1,
    height: 0.24,
    habitat: ["sky"],
    colors: ["orange", "blue", "yellow", "purple", "pink", "white"],
    patterns: ["plain", "spotted"],
    draw(pen, { color, coat }) {
      for (const side of [-1, 1]) {
        const wing = side < 0 ? coat : { ...coat, color: lift(color, 0.1) };
        pen.shape(`0,.5 ~${side * 0.2},1.04 ${side * 0.54},.98 ~${side * 0.62},.6 0,.46`, wing);
        pen.shape(`0,.48 ~${side * 0.54},.5 ${side * 0.44},.14 ~${side * 0.2},-.02 0,.42`, deepen(color, 0.16));
        pen.disc(side * 0.34, 0.76, 0.08, plain(LIGHT));
        pen.line(`0,.78 ~${side * 0.06},.96 ${side * 0.14},1`, 0.02, DARK);
      }
      pen.limb(0, 0.2, 0.05, 0, 0.78, 0.08, DARK);
    },
  },
  {
    name: "bird",
    plural: "birds",
    width: 1.3,
    height: 0.34,
    habitat: ["sky"],
    colors: ["blue", "red", "white", "yellow", "black", "teal"],
    draw(pen, { color, coat }) {
      pen.shape("-.3,.42 -.74,.52 -.7,.34 -.3,.32", deepen(color, 0.25));
      pen.shape("-.4,.4 ~-.1,.66 .26,.62 ~.5,.4 .2,.24 ~-.2,.16 -.4,.4", coat);
      pen.shape("-.06,.3 ~.2,.16 .34,.36 ~.1,.5 -.06,.3", lift(color, 0.5));
      pen.disc(0.34, 0.58, 0.17, color);
      pen.shape(".48,.62 .66,.55 .48,.5", BEAK);
      pen.shape("-.1,.5 ~-.34,.98 -.44,1 ~-.1,.98 .14,.54", deepen(color, 0.3));
      eye(pen, 0.38, 0.63, 0.042);
    },
  },
  {
    name: "frog",
    plural: "frogs",
    width: 1.15,
    height: 0.26,
    habitat: ["ground"],
    colors: ["green", "teal", "yellow", "orange"],
    patterns: ["plain", "spotted"],
    draw(pen, { color, coat }) {
      pen.shape("-.2,.1 ~-.62,.5 -.5,.16 ~-.66,-.02 -.3,0 .1,0", deepen(color, 0.14));
      pen.shape("-.44,.2 ~-.4,.62 .1,.74 ~.56,.8 .54,.5 ~.5,.1 .1,.06 ~-.36,0 -.44,.2", coat);
      pen.shape(".1,.1 ~.4,.14 .48,.42 ~.2,.36 .1,.1", lift(color, 0.4));
      pen.limb(0.2, 0.3, 0.12, 0.3, 0.04, 0.09, color);
      pen.limb(0.26, 0.04, 0.07, 0.44, 0.04, 0.05, color);
      pen.disc(0.22, 0.78, 0.12, color);
      pen.disc(0.42, 0.76, 0.12, color);
      eye(pen, 0.24, 0.82, 0.075);
      eye(pen, 0.44, 0.8, 0.075);
      pen.line(".2,.54 ~.4,.44 .54,.54", 0.02, plain(deepen(color, 0.5), 0));
    },
  },
];
