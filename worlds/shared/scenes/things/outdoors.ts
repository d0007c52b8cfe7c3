/** Plants, buildings and other things that stand in the open. */
import { exact } from "../../../../src/core/index.ts";
import { type Color, deepen, lift, mix } from "../brush.ts";
import { bricks, planks, stripes, tiles } from "../patterns.ts";
import { COLORS, DARK, LEAF, LIGHT, plain, type Thing, WOOD } from "../thing.ts";

const { cos, sin } = exact;

const BARK: Color = [112, 78, 52];

export const outdoors: readonly Thing[] = [
  {
    name: "tree",
    plural: "trees",
    width: 0.8,
    height: 2.4,
    habitat: ["ground"],
    colors: ["green", "orange", "yellow", "red", "pink"],
    draw(pen, { color, dice }) {
      pen.limb(0, 0.5, 0.07, 0, 0.01, 0.12, { color: BARK, stretch: [3, 0.5], grain: 0.2 });
      pen.limb(0, 0.34, 0.05, -0.14, 0.52, 0.03, BARK);
      pen.limb(0, 0.38, 0.05, 0.15, 0.54, 0.03, BARK);
      const clumps: readonly (readonly [number, number, number])[] = [
        [-0.22, 0.56, 0.19],
        [0.22, 0.56, 0.19],
        [0, 0.5, 0.18],
        [-0.24, 0.72, 0.17],
        [0.24, 0.72, 0.17],
        [0, 0.66, 0.24],
        [-0.1, 0.84, 0.16],
        [0.11, 0.84, 0.15],
      ];
      for (const [u, v, r] of clumps) {
        const tone = deepen(lift(color, Math.max(0, v - 0.6) * 0.4), Math.max(0, 0.7 - v) * 0.9);
        pen.disc(u + dice.between(-0.02, 0.02), v, r * dice.between(0.92, 1.08), { color: tone, grain: 0.3 });
      }
      // Leaves catch the light singly.
      const count = Math.max(10, Math.min(60, Math.round(pen.size * 0.4)));
      for (let i = 0; i < count; i++) {
        const [a, r] = [dice.between(0, 6.28), dice.between(0.05, 0.36)];
        const [u, v] = [cos(a) * r, 0.68 + sin(a) * r * 0.8];
        pen.oval(u, v, 0.018, 0.012, plain(v > 0.66 ? lift(color, 0.3) : deepen(color, 0.35)), dice.between(-60, 60));
      }
    },
  },
  {
    name: "pine",
    plural: "pines",
    width: 0.6,
    height: 2.6,
    habitat: ["ground"],
    colors: ["green", "teal"],
    draw(pen, { color, dice }) {
      const dark = mix(color, [24, 62, 50], 0.55);
      pen.limb(0, 0.2, 0.06, 0, 0.01, 0.08, BARK);
      for (let layer = 0; layer < 5; layer++) {
        const [v, half] = [0.1 + layer * 0.165, 0.3 - layer * 0.05];
        const tip = v + 0.3;
        let path = `0,${tip}`;
        const teeth = 5;
        for (let i = 0; i <= teeth; i++) {
          const u = -half + (2 * half * i) / teeth;
          path += ` ${u},${v + 0.02 * dice.roll()} ${u + half / teeth},${v + 0.045}`;
        }
        pen.shape(path, { color: lift(dark, layer * 0.045), grain: 0.24, stretch: [1, 2] });
      }
    },
  },
  {
    name: "palm",
    plural: "palms",
    width: 0.8,
    height: 2.3,
    habitat: ["ground"],
    colors: ["green", "teal"],
    draw(pen, { color }) {
      for (let i = 0; i < 9; i++)
        pen.limb(
          0.012 * i * i * 0.3,
          i * 0.08,
          0.06 - i * 0.003,
          0.012 * (i + 1) * (i + 1) * 0.3,
          (i + 1) * 0.08,
          0.055 - i * 0.003,
          { color: i % 2 ? BARK : lift(BARK, 0.12) },
        );
      const [u, v] = [0.3, 0.75];
      for (const [du, dv, bend] of [
        [-0.42, -0.12, 0.16],
        [-0.36, 0.1, 0.16],
        [-0.12, 0.24, 0.06],
        [0.14, 0.24, 0.06],
        [0.36, 0.08, 0.16],
        [0.38, -0.14, 0.16],
      ] as const) {
        pen.shape(
          `${u},${v} ~${u + du * 0.5},${v + dv * 0.5 + bend} ${u + du},${v + dv} ~${u + du * 0.4},${v + dv * 0.4 + bend * 0.2} ${u},${v}`,
          { color: dv > 0 ? color : deepen(color, 0.2), grain: 0.2 },
        );
      }
      for (const du of [-0.03, 0.03]) pen.disc(u + du, v - 0.02, 0.035, [110, 72, 44]);
    },
  },
  {
    name: "cactus",
    plural: "cactuses",
    width: 0.75,
    height: 1.2,
    habitat: ["ground", "table"],
    colors: ["green", "teal"],
    draw(pen, { color }) {
      const skin = { color, pattern: stripes(14), accent: lift(color, 0.25), along: [1, 0.2] as const };
      pen.line("-.3,.66 ~-.34,.4 -.04,.42", 0.14, skin);
      pen.line(".3,.78 ~.36,.52 .04,.52", 0.13, skin);
      pen.limb(0, 0.9, 0.22, 0, 0.08, 0.24, skin);
      for (const [u, v] of [
        [0, 1.01],
        [0.3, 0.86],
        [-0.3, 0.74],
      ] as const)
        pen.disc(u, v, 0.045, [240, 110, 150]);
    },
  },
  {
    name: "mushroom",
    plural: "mushrooms",
    width: 1,
    height: 0.32,
    habitat: ["ground"],
    colors: ["red", "brown", "orange", "purple"],
    draw(pen, { color }) {
      pen.shape("-.16,.5 ~-.12,.2 -.2,.02 .2,.02 ~.12,.2 .16,.5", [240, 228, 206]);
      pen.oval(0, 0.5, 0.4, 0.08, [222, 204, 178]);
      pen.shape("-.5,.5 ~-.44,.98 0,1 ~.44,.98 .5,.5 ~0,.4 -.5,.5", color);
      for (const [u, v, r] of [
        [-0.26, 0.68, 0.07],
        [0.02, 0.84, 0.08],
        [0.26, 0.66, 0.08],
        [-0.02, 0.6, 0.05],
      ] as const)
        pen.oval(u, v, r, r * 0.8, LIGHT);
    },
  },
  {
    name: "tulip",
    plural: "tulips",
    width: 0.5,
    height: 0.5,
    habitat: ["ground"],
    colors: ["red", "yellow", "pink", "purple", "orange", "white"],
    draw(pen, { color }) {
      pen.line("0,.6 ~.02,.3 0,0", 0.05, LEAF);
      pen.shape("0,.06 ~-.26,.2 -.24,.5 ~-.1,.3 0,.06", LEAF);
      pen.shape("0,.06 ~.26,.16 .22,.42 ~.1,.26 0,.06", deepen(LEAF, 0.15));
      pen.shape("-.18,.94 ~-.26,.6 0,.56 ~.26,.6 .18,.94 .09,.8 0,1 -.09,.8", color);
      pen.shape("0,.98 ~-.1,.78 0,.58 ~.1,.78 0,.98", lift(color, 0.16));
    },
  },
  {
    name: "sunflower",
    plural: "sunflowers",
    width: 0.6,
    height: 1,
    habitat: ["ground"],
    colors: ["yellow", "orange"],
    draw(pen, { color }) {
      pen.line("0,.7 ~.03,.4 0,0", 0.04, LEAF);
      pen.shape("0,.3 ~-.26,.44 -.28,.22 ~-.1,.16 0,.3", LEAF);
      pen.shape("0,.4 ~.26,.54 .27,.32 ~.1,.28 0,.4", deepen(LEAF, 0.12));
      for (let i = 0; i < 14; i++) {
        const angle = (i * 2 * Math.PI) / 14;
        pen.oval(
          cos(angle) * 0.2,
          0.75 + sin(angle) * 0.2,
          0.1,
          0.042,
          i % 2 ? color : deepen(color, 0.1),
          (-angle * 180) / Math.PI,
        );
      }
      pen.disc(0, 0.75, 0.13, { color: [110, 68, 36], pattern: tiles(24), accent: [70, 42, 24] });
    },
  },
  {
    name: "potted plant",
    plural: "potted plants",
    width: 0.8,
    height: 1.4,
    habitat: ["table"],
    colors: ["green", "teal"],
    draw(pen, { color }) {
      for (const [u, v] of [
        [-0.36, 0.7],
        [0.36, 0.72],
        [-0.24, 0.9],
        [0.24, 0.92],
        [0, 1],
      ] as const) {
        pen.shape(`0,.36 ~${u * 0.4 - 0.1},${v * 0.72} ${u},${v} ~${u * 0.8 + 0.1},${v * 0.66} 0,.36`, {
          color: v > 0.85 ? lift(color, 0.08) : color,
        });
        pen.line(`0,.36 ~${u * 0.5},${v * 0.68} ${u * 0.95},${v * 0.97}`, 0.01, plain(lift(color, 0.35), 0));
      }
      pen.shape("-.24,.36 -.17,.02 .17,.02 .24,.36", [196, 106, 66]);
      pen.rect(-0.26, 0.34, 0.52, 0.08, [208, 120, 78], 0.02);
    },
  },
  {
    name: "house",
    plural: "houses",
    width: 1.15,
    height: 2.4,
    habitat: ["ground"],
    colors: ["white", "yellow", "red", "blue", "pink", "orange", "teal"],
    draw(pen, { color, dice }) {
      const roof: Color = dice.pick([
        [168, 72, 54],
        [98, 84, 92],
        [124, 92, 60],
      ]);
      const wall = dice.chance(0.4)
        ? { pattern: bricks(7, 22), accent: lift(color, 0.35) }
        : { pattern: planks(16), accent: deepen(color, 0.14) };
      pen.rect(0.22, 0.72, 0.12, 0.28, { color: [150, 84, 68], pattern: bricks(14, 26), accent: LIGHT });
      pen.rect(-0.46, 0, 0.92, 0.6, { color, ...wall });
      pen.shape("-.56,.58 -.3,.94 .3,.94 .56,.58", { color: roof, pattern: tiles(15), accent: deepen(roof, 0.45) });
      pen.rect(-0.57, 0.555, 1.14, 0.035, plain(lift(roof, 0.2)));
      for (const [u, v] of [
        [-0.36, 0.24],
        [0.16, 0.24],
      ] as const) {
        pen.rect(u - 0.02, v - 0.02, 0.26, 0.26, plain(LIGHT));
        pen.rect(u, v, 0.22, 0.22, { color: [120, 168, 196], to: [250, 226, 160], along: [1, 1] });
        pen.rect(u + 0.1, v, 0.02, 0.22, plain(LIGHT));
        pen.rect(u, v + 0.1, 0.22, 0.02, plain(LIGHT));
        pen.rect(u - 0.03, v - 0.05, 0.28, 0.04, { color: [150, 96, 60] });
        for (let i = 0; i < 4; i++) pen.disc(u + i * 0.073, v, 0.026, i % 2 ? COLORS.red : COLORS.pink);
      }
      pen.rect(-0.09, 0, 0.18, 0.42, { color: [112, 66, 44], pattern: planks(18, true), accent: [70, 40, 28] }, 0.03);
      pen.disc(0.06, 0.2, 0.014, plain([240, 206, 110]));
    },
  },
  {
    name: "tent",
    plural: "tents",
    width: 1.5,
    height: 0.95,
    habitat: ["ground"],
    colors: ["orange", "red", "blue", "green", "yellow", "purple"],
    patterns: ["plain", "striped"],
    draw(pen, { color, coat }) {
      pen.shape("-.3,1 .34,.96 .74,.06 .2,0", deepen(color, 0.22));
      pen.shape("-.3,1 -.74,0 .2,0", coat);
      pen.shape("-.3,.9 ~-.36,.4 -.42,0 -.1,0 ~-.2,.4 -.3,.9", plain([60, 44, 50]));
      pen.line("-.3,1 -.9,.02", 0.014, plain(LIGHT, 0));
      pen.line(".34,.96 .92,.04", 0.014, plain(LIGHT, 0));
    },
  },
  {
    name: "windmill",
    plural: "windmills",
    width: 0.8,
    height: 3,
    habitat: ["ground"],
    colors: ["white", "brown", "red", "yellow"],
    draw(pen, { color, dice }) {
      pen.shape("-.13,.62 -.2,0 .2,0 .13,.62", { color, pattern: bricks(8, 30), accent: deepen(color, 0.2) });
      pen.shape("-.16,.6 ~-.14,.76 0,.77 ~.14,.76 .16,.6", [110, 72, 52]);
      pen.rect(-0.05, 0, 0.1, 0.17, [96, 60, 42], 0.03);
      pen.rect(-0.045, 0.34, 0.09, 0.1, plain([70, 90, 110]));
      const start = dice.between(0, 90);
      for (let i = 0; i < 4; i++) {
        const arm = pen.part(0, 0.64, 1, start + i * 90);
        arm.rect(-0.01, 0, 0.02, 0.36, WOOD);
        arm.rect(0.012, 0.06, 0.085, 0.29, { color: LIGHT, pattern: planks(18), accent: WOOD });
      }
      pen.disc(0, 0.64, 0.025, DARK);
    },
  },
  {
    name: "lighthouse",
    plural: "lighthouses",
    width: 0.4,
    height: 3,
    habitat: ["ground"],
    colors: ["red", "blue", "black"],
    draw(pen, { color }) {
      pen.shape("-.1,.74 -.18,0 .18,0 .1,.74", {
        color: LIGHT,
        pattern: (_, v) => (Math.floor(v * 7) % 2 === 1 ? 1 : 0),
        accent: color,
      });
      pen.rect(-0.14, 0.73, 0.28, 0.03, DARK);
      pen.rect(-0.08, 0.76, 0.16, 0.11, { color: [255, 236, 160], along: [1, 0] });
      pen.shape("-.12,.87 0,.99 .12,.87", color);
      for (const v of [0.22, 0.46]) pen.rect(-0.025, v, 0.05, 0.07, plain([70, 90, 110]));
      pen.rect(-0.045, 0, 0.09, 0.12, [96, 60, 42], 0.03);
    },
  },
  {
    name: "snowman",
    plural: "snowmen",
    width: 0.75,
    height: 0.95,
    habitat: ["ground"],
    colors: ["red", "blue", "green", "yellow", "purple"],
    wears: "scarf",
    draw(pen, { color }) {
      const snow: Color = [244, 248, 255];
      pen.line("-.2,.5 -.46,.66", 0.025, BARK);
      pen.line(".2,.5 .46,.66", 0.025, BARK);
      pen.disc(0, 0.24, 0.26, snow);
      pen.disc(0, 0.54, 0.2, snow);
      pen.disc(0, 0.78, 0.145, snow);
      pen.shape("-.15,.7 ~0,.6 .15,.7 .14,.64 ~0,.54 -.14,.64", color);
      pen.limb(0.1, 0.66, 0.07, 0.14, 0.46, 0.06, color);
      pen.shape("0,.8 .16,.765 0,.75", [240, 140, 50]);
      for (const u of [-0.05, 0.06]) pen.disc(u, 0.83, 0.02, plain(DARK, 0));
      for (const v of [0.5, 0.42]) pen.disc(-0.02, v, 0.02, plain(DARK, 0));
      pen.rect(-0.16, 0.88, 0.32, 0.03, DARK);
      pen.rect(-0.1, 0.9, 0.2, 0.13, DARK);
    },
  },
];
