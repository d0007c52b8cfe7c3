/**
 * Small models out of simple solids, for looking at from all sides: a chair, a plane, a mug, a dog. Sizes and colours come
 * from a seed. None looks the same after a turn by a right angle, so that "turned back" means one thing.
 */
import {
  bounds,
  box,
  cylinder,
  extrude,
  lathe,
  type Mesh,
  painted,
  scale,
  shifted,
  sphere,
  stretched,
  torus,
  turned,
  turnX,
  turnY,
  turnZ,
  type Vec3,
} from "../render3d/index.ts";
import { Dice } from "./dice.ts";
import { COLORS } from "./thing.ts";

type Build = (dice: Dice) => readonly Mesh[];

const QUARTER = Math.PI / 2;
const DARK: Vec3 = [58, 58, 66];
const WOOD: Vec3 = [164, 112, 68];
const STEEL: Vec3 = [186, 192, 200];
const GLASS: Vec3 = [150, 196, 216];

const bright = (dice: Dice): Vec3 =>
  COLORS[dice.pick(["red", "orange", "yellow", "green", "teal", "blue", "purple", "pink"])];
const at = (mesh: Mesh, color: Vec3, x: number, y: number, z: number): Mesh => shifted(painted(mesh, color), x, y, z);
const ball = (rx: number, ry: number, rz: number): Mesh => stretched(sphere(1, 18), rx, ry, rz);
/** A rod along x. */
const rod = (radius: number, length: number): Mesh => turned(cylinder(radius, radius, length, 14), turnZ(QUARTER));
/** A wheel that rolls along x. */
const wheel = (x: number, y: number, z: number, radius: number, width = 0.12): readonly Mesh[] => [
  at(turned(cylinder(radius, radius, width, 20), turnX(QUARTER)), DARK, x, y, z),
  at(turned(cylinder(radius * 0.55, radius * 0.55, width + 0.02, 14), turnX(QUARTER)), STEEL, x, y, z),
];

export const toys: Readonly<Record<string, Build>> = {
  chair(dice) {
    const color = bright(dice);
    const high = dice.between(0.7, 1.1);
    const legs = [-0.4, 0.4].flatMap((x) => [-0.4, 0.4].map((z) => at(box(0.1, 0.7, 0.1), WOOD, x, 0.35, z)));
    const back = [0.2, 0.5, 0.8].map((v) => at(box(0.06, 0.12, 0.8), color, -0.42, 0.8 + v * high, 0));
    const posts = [-0.4, 0.4].map((z) => at(box(0.1, high, 0.1), WOOD, -0.42, 0.75 + high / 2, z));
    return [
      ...legs,
      at(box(1, 0.1, 0.95), color, 0, 0.74, 0),
      ...posts,
      ...back,
      at(box(0.5, 0.06, 0.08), WOOD, 0.05, 1.1, 0.44),
      at(box(0.08, 0.34, 0.08), WOOD, 0.26, 0.94, 0.44),
    ];
  },
  teapot(dice) {
    const color = bright(dice);
    const body = lathe(
      [
        [0, 0],
        [0.42, 0.02],
        [0.62, 0.25],
        [0.66, 0.5],
        [0.5, 0.78],
        [0.3, 0.86],
        [0, 0.88],
      ],
      24,
    );
    const lid = lathe(
      [
        [0.32, 0],
        [0.24, 0.12],
        [0.08, 0.18],
        [0, 0.19],
      ],
      20,
    );
    const spout = turned(cylinder(0.16, 0.08, 0.7, 14), turnZ(-0.9));
    const handle = turned(torus(0.3, 0.07, 20, 8), turnX(QUARTER));
    return [
      at(body, color, 0, 0, 0),
      at(lid, scale(color, 0.8), 0, 0.84, 0),
      at(sphere(0.09, 12), DARK, 0, 1.06, 0),
      at(spout, color, 0.78, 0.55, 0),
      at(handle, scale(color, 0.85), -0.66, 0.48, 0),
    ];
  },
  mug(dice) {
    const color = bright(dice);
    const cup = lathe(
      [
        [0, 0],
        [0.42, 0],
        [0.44, 0.05],
        [0.46, 0.95],
        [0.4, 0.95],
        [0.38, 0.08],
        [0, 0.08],
      ],
      24,
      true,
    );
    const handle = turned(torus(0.28, 0.07, 20, 8), turnX(QUARTER));
    return [
      at(cup, color, 0, 0, 0),
      at(handle, scale(color, 0.85), 0.5, 0.48, 0),
      at(box(0.02, 0.3, 0.3), [250, 246, 230], -0.45, 0.5, 0.05),
    ];
  },
  lamp(dice) {
    const color = bright(dice);
    return [
      at(cylinder(0.4, 0.34, 0.1, 20), DARK, 0, 0.05, 0),
      at(turned(cylinder(0.05, 0.05, 0.9, 10), turnZ(-0.5)), STEEL, 0.2, 0.46, 0),
      at(turned(cylinder(0.05, 0.05, 0.8, 10), turnZ(0.8)), STEEL, 0.14, 1.08, 0),
      at(sphere(0.08, 10), DARK, 0.42, 0.84, 0),
      at(turned(cylinder(0.34, 0.14, 0.36, 18), turnZ(-0.5)), color, -0.26, 1.32, 0),
      at(sphere(0.13, 10), [255, 240, 190], -0.32, 1.2, 0),
    ];
  },
  car(dice) {
    const color = bright(dice);
    const cabin = extrude(
      [
        [-0.5, 0],
        [0.55, 0],
        [0.2, 0.42],
        [-0.42, 0.42],
      ],
      0.78,
    );
    const wheels = [-0.55, 0.6].flatMap((x) => [-0.42, 0.42].flatMap((z) => wheel(x, 0.2, z, 0.22)));
    return [
      at(box(1.9, 0.36, 0.86), color, 0, 0.4, 0),
      at(cabin, GLASS, -0.1, 0.58, 0),
      at(box(0.7, 0.05, 0.8), color, -0.2, 1.0, 0),
      ...wheels,
      ...[-0.28, 0.28].map((z) => at(sphere(0.09, 10), [255, 244, 190], 0.95, 0.45, z)),
      at(box(0.05, 0.12, 0.7), [210, 50, 50], -0.96, 0.48, 0),
    ];
  },
  lorry(dice) {
    const [color, cab] = [bright(dice), bright(dice)];
    const wheels = [-0.7, -0.3, 0.75].flatMap((x) => [-0.38, 0.38].flatMap((z) => wheel(x, 0.18, z, 0.2)));
    return [
      at(box(1.4, 0.8, 0.84), color, -0.38, 0.74, 0),
      at(box(0.5, 0.66, 0.8), cab, 0.68, 0.6, 0),
      at(box(0.06, 0.24, 0.66), GLASS, 0.94, 0.74, 0),
      at(box(2, 0.12, 0.7), DARK, 0, 0.28, 0),
      at(cylinder(0.05, 0.05, 0.7, 10), STEEL, 0.38, 1.1, 0.36),
      ...wheels,
    ];
  },
  plane(dice) {
    const [color, trim] = [bright(dice), bright(dice)];
    const wing = extrude(
      [
        [-0.2, 0],
        [0.26, 0],
        [-0.02, 1.1],
        [-0.22, 1.1],
      ],
      0.06,
    );
    return [
      at(turned(ball(0.24, 1.15, 0.24), turnZ(QUARTER)), color, 0, 0.5, 0),
      at(ball(0.2, 0.14, 0.15), GLASS, 0.62, 0.66, 0),
      at(turned(wing, turnX(QUARTER)), trim, 0.05, 0.46, 0.1),
      at(turned(wing, turnX(-QUARTER)), trim, 0.05, 0.46, -0.1),
      at(
        extrude(
          [
            [-0.2, 0],
            [0.2, 0],
            [-0.14, 0.55],
            [-0.28, 0.55],
          ],
          0.06,
        ),
        trim,
        -0.9,
        0.58,
        0,
      ),
      at(box(0.26, 0.04, 0.8), trim, -0.98, 0.56, 0),
      ...[-0.55, 0.55].map((z) => at(rod(0.1, 0.4), STEEL, 0.1, 0.34, z)),
    ];
  },
  boat(dice) {
    const [hull, sail] = [bright(dice), bright(dice)];
    const side = extrude(
      [
        [-0.8, 0.36],
        [-0.62, 0],
        [0.6, 0],
        [1, 0.42],
      ],
      0.8,
    );
    return [
      at(side, hull, 0, 0, 0),
      at(box(1.4, 0.05, 0.66), WOOD, 0, 0.36, 0),
      at(cylinder(0.04, 0.03, 1.5, 10), WOOD, 0.05, 1.1, 0),
      at(
        extrude(
          [
            [0, 0],
            [0.02, 1.25],
            [-0.7, 0],
          ],
          0.03,
        ),
        sail,
        0,
        0.55,
        0,
      ),
      at(
        extrude(
          [
            [0, 0],
            [0.55, 0],
            [0, 0.95],
          ],
          0.03,
        ),
        [246, 244, 236],
        0.1,
        0.6,
        0,
      ),
      at(box(0.4, 0.24, 0.5), [240, 232, 214], -0.42, 0.5, 0),
    ];
  },
  house(dice) {
    const [wall, roof] = [bright(dice), scale(bright(dice), 0.6)];
    return [
      at(box(1.3, 0.8, 1), wall, 0, 0.4, 0),
      at(
        turned(
          extrude(
            [
              [-0.62, 0],
              [0.62, 0],
              [0, 0.6],
            ],
            1.5,
          ),
          turnY(QUARTER),
        ),
        roof,
        0,
        0.8,
        0,
      ),
      at(box(0.18, 0.5, 0.18), [160, 90, 76], 0.36, 1.2, 0.2),
      at(box(0.26, 0.5, 0.04), [112, 70, 46], -0.25, 0.25, 0.51),
      at(box(0.3, 0.26, 0.04), GLASS, 0.3, 0.46, 0.51),
      at(box(0.04, 0.26, 0.3), GLASS, 0.66, 0.46, 0),
      at(box(0.4, 0.16, 0.4), [190, 186, 178], -0.25, 0.08, 0.68),
    ];
  },
  tree(dice) {
    const leaf: Vec3 = dice.pick<Vec3>([
      [86, 150, 70],
      [206, 120, 50],
      [214, 160, 60],
      [70, 130, 90],
    ]);
    return [
      at(cylinder(0.16, 0.1, 0.9, 12), [118, 82, 56], 0, 0.45, 0),
      at(turned(cylinder(0.07, 0.04, 0.6, 8), turnZ(-0.9)), [118, 82, 56], 0.26, 0.8, 0),
      at(ball(0.5, 0.42, 0.46), leaf, -0.08, 1.2, 0),
      at(ball(0.34, 0.3, 0.32), scale(leaf, 0.88), 0.44, 1.12, 0.1),
      at(ball(0.3, 0.28, 0.3), scale(leaf, 1.08), -0.1, 1.56, -0.12),
      at(sphere(0.09, 10), [214, 60, 50], -0.3, 1.1, 0.42),
    ];
  },
  dog(dice) {
    const fur: Vec3 = dice.pick<Vec3>([
      [150, 102, 64],
      [214, 182, 140],
      [96, 92, 96],
      [232, 226, 214],
    ]);
    const legs = [-0.42, 0.4].flatMap((x) =>
      [-0.16, 0.16].map((z) => at(cylinder(0.09, 0.11, 0.5, 10), fur, x, 0.25, z)),
    );
    return [
      ...legs,
      at(ball(0.66, 0.28, 0.26), fur, 0, 0.66, 0),
      at(turned(cylinder(0.16, 0.15, 0.4, 12), turnZ(-0.6)), fur, 0.52, 0.86, 0),
      at(ball(0.26, 0.22, 0.22), fur, 0.68, 1.08, 0),
      at(ball(0.18, 0.11, 0.13), scale(fur, 0.85), 0.92, 1.0, 0),
      at(sphere(0.06, 8), DARK, 1.07, 1.03, 0),
      ...[-0.2, 0.2].map((z) => at(ball(0.08, 0.2, 0.05), scale(fur, 0.65), 0.62, 1.06, z)),
      ...[-0.1, 0.1].map((z) => at(sphere(0.04, 8), DARK, 0.88, 1.15, z)),
      at(turned(cylinder(0.07, 0.03, 0.5, 8), turnZ(0.7)), fur, -0.76, 0.88, 0),
      at(torus(0.17, 0.04, 16, 6), [200, 50, 50], 0.58, 0.92, 0),
    ];
  },
  giraffe(dice) {
    const fur: Vec3 = dice.pick<Vec3>([
      [228, 178, 84],
      [214, 150, 70],
    ]);
    const legs = [-0.34, 0.3].flatMap((x) =>
      [-0.14, 0.14].map((z) => at(cylinder(0.07, 0.08, 0.8, 8), fur, x, 0.4, z)),
    );
    const spots = [-0.3, 0, 0.26].flatMap((x) =>
      [-0.22, 0.22].map((z) => at(ball(0.11, 0.1, 0.06), [150, 96, 48], x, 0.98, z)),
    );
    return [
      ...legs,
      ...spots,
      at(ball(0.5, 0.26, 0.24), fur, 0, 0.94, 0),
      at(turned(cylinder(0.14, 0.09, 1.1, 12), turnZ(-0.28)), fur, 0.5, 1.5, 0),
      at(ball(0.24, 0.14, 0.14), fur, 0.78, 2.05, 0),
      ...[-0.07, 0.07].map((z) => at(cylinder(0.025, 0.03, 0.2, 6), [120, 80, 50], 0.64, 2.22, z)),
      at(turned(cylinder(0.03, 0.05, 0.4, 6), turnZ(0.4)), [120, 80, 50], -0.54, 0.86, 0),
    ];
  },
  duck(dice) {
    const color = bright(dice);
    return [
      at(ball(0.62, 0.4, 0.44), color, 0, 0.4, 0),
      at(sphere(0.3, 16), color, 0.42, 0.96, 0),
      at(ball(0.2, 0.06, 0.16), [244, 150, 40], 0.76, 0.92, 0),
      ...[-0.16, 0.16].map((z) => at(sphere(0.05, 8), DARK, 0.62, 1.06, z)),
      ...[-0.42, 0.42].map((z) => at(ball(0.34, 0.2, 0.07), scale(color, 0.8), -0.08, 0.46, z)),
      at(turned(ball(0.26, 0.1, 0.2), turnZ(-0.7)), scale(color, 0.9), -0.62, 0.62, 0),
    ];
  },
  robot(dice) {
    const [color, trim] = [bright(dice), bright(dice)];
    return [
      ...[-0.2, 0.2].map((x) => at(box(0.2, 0.5, 0.24), DARK, x, 0.25, 0)),
      at(box(0.8, 0.7, 0.46), color, 0, 0.86, 0),
      at(box(0.5, 0.42, 0.42), trim, 0, 1.46, 0),
      ...[-0.12, 0.12].map((x) => at(sphere(0.08, 10), [255, 240, 160], x, 1.52, 0.22)),
      at(box(0.3, 0.2, 0.04), GLASS, 0.05, 0.92, 0.24),
      at(turned(cylinder(0.09, 0.09, 0.7, 10), turnZ(0.5)), STEEL, 0.56, 0.94, 0),
      at(turned(cylinder(0.09, 0.09, 0.7, 10), turnX(-1.2)), STEEL, -0.5, 1.1, 0.3),
      at(cylinder(0.02, 0.02, 0.3, 6), STEEL, 0.14, 1.8, 0),
      at(sphere(0.06, 8), [220, 50, 50], 0.14, 1.96, 0),
    ];
  },
  rocket(dice) {
    const [color, trim] = [bright(dice), bright(dice)];
    const body = lathe(
      [
        [0.22, 0],
        [0.34, 0.3],
        [0.34, 0.9],
        [0.2, 1.4],
        [0, 1.7],
      ],
      20,
    );
    const fin = extrude(
      [
        [0, 0],
        [0.4, -0.2],
        [0.3, 0.3],
        [0, 0.6],
      ],
      0.06,
    );
    return [
      at(body, [236, 236, 240], 0, 0.2, 0),
      ...[0, 2.1, 4.2].map((angle) => painted(turned(shifted(fin, 0.28, 0.3, 0), turnY(angle)), color)),
      at(turned(cylinder(0.13, 0.13, 0.08, 16), turnX(QUARTER)), GLASS, 0, 1.1, 0.33),
      at(cylinder(0.24, 0.16, 0.14, 16), DARK, 0, 0.14, 0),
      at(torus(0.34, 0.03, 20, 6), trim, 0, 0.7, 0),
      at(box(0.2, 0.12, 0.04), trim, 0, 0.85, 0.34),
    ];
  },
  train(dice) {
    const [color, trim] = [bright(dice), bright(dice)];
    const wheels = [-0.6, -0.15, 0.3, 0.7].flatMap((x) => [-0.34, 0.34].flatMap((z) => wheel(x, 0.18, z, 0.18, 0.08)));
    return [
      ...wheels,
      at(box(1.8, 0.16, 0.6), DARK, 0, 0.34, 0),
      at(rod(0.3, 1.1), color, 0.3, 0.72, 0),
      at(box(0.56, 0.9, 0.64), trim, -0.56, 0.86, 0),
      at(box(0.7, 0.08, 0.76), DARK, -0.56, 1.34, 0),
      at(cylinder(0.1, 0.16, 0.4, 14), DARK, 0.62, 1.14, 0),
      at(sphere(0.14, 12), [230, 190, 90], 0.2, 1.06, 0),
      at(sphere(0.09, 10), [255, 244, 190], 0.88, 0.76, 0),
      at(box(0.04, 0.26, 0.3), GLASS, -0.27, 1.02, 0.1),
    ];
  },
  table(dice) {
    const color = bright(dice);
    const legs = [-0.6, 0.6].flatMap((x) =>
      [-0.35, 0.35].map((z) => at(cylinder(0.06, 0.05, 0.7, 10), WOOD, x, 0.35, z)),
    );
    return [
      ...legs,
      at(box(1.5, 0.08, 0.95), WOOD, 0, 0.74, 0),
      at(cylinder(0.14, 0.16, 0.26, 16), color, 0.4, 0.91, 0.2),
      at(box(0.42, 0.1, 0.3), bright(dice), -0.36, 0.83, -0.12),
      at(sphere(0.12, 14), [214, 60, 50], -0.1, 0.9, 0.28),
    ];
  },
  bed(dice) {
    const color = bright(dice);
    return [
      at(box(1.8, 0.2, 1), WOOD, 0, 0.3, 0),
      at(box(1.7, 0.18, 0.94), [244, 240, 230], 0, 0.46, 0),
      at(box(1.1, 0.06, 0.98), color, 0.3, 0.56, 0),
      at(box(0.36, 0.14, 0.6), [255, 252, 244], -0.62, 0.6, 0),
      at(box(0.08, 0.9, 1.04), WOOD, -0.92, 0.55, 0),
      at(box(0.08, 0.5, 1.04), WOOD, 0.92, 0.36, 0),
      at(cylinder(0.03, 0.03, 0.7, 8), DARK, -0.7, 0.9, 0.62),
      at(cylinder(0.2, 0.1, 0.22, 14), scale(color, 0.9), -0.7, 1.3, 0.62),
    ];
  },
  guitar(dice) {
    const color = bright(dice);
    // Built lying on its back, its neck along x; then stood up, its strings to the eye.
    return [
      at(stretched(cylinder(0.5, 0.5, 0.4, 24), 1, 1, 0.84), color, 0, 0, 0),
      at(stretched(cylinder(0.36, 0.36, 0.4, 24), 1, 1, 0.9), color, 0.5, 0, 0),
      at(cylinder(0.14, 0.14, 0.42, 16), DARK, 0.3, 0, 0),
      at(box(0.9, 0.18, 0.16), [96, 64, 42], 1.05, 0.16, 0),
      at(box(0.34, 0.2, 0.26), DARK, 1.6, 0.16, 0),
      at(box(0.08, 0.48, 0.3), WOOD, -0.2, 0, 0),
      ...[-0.16, 0.16].map((z) => at(rod(0.04, 0.12), STEEL, 1.6, 0.16, z)),
    ].map((mesh) => turned(turned(mesh, turnZ(QUARTER)), turnY(QUARTER)));
  },
  snail(dice) {
    const color = bright(dice);
    const skin: Vec3 = [214, 190, 150];
    return [
      at(ball(0.9, 0.16, 0.42), skin, 0, 0.16, 0),
      at(turned(cylinder(0.17, 0.15, 0.5, 10), turnZ(-0.5)), skin, 0.76, 0.38, 0),
      ...[-0.12, 0.12].flatMap((z) => [
        at(cylinder(0.025, 0.02, 0.3, 6), skin, 0.92, 0.72, z),
        at(sphere(0.05, 8), DARK, 0.92, 0.88, z),
      ]),
      at(stretched(turned(torus(0.3, 0.2, 20, 10), turnX(QUARTER)), 1, 1, 1.6), color, -0.1, 0.64, 0),
      at(stretched(turned(torus(0.12, 0.14, 16, 8), turnX(QUARTER)), 1, 1, 1.6), scale(color, 0.8), -0.08, 0.64, 0.14),
    ];
  },
  hammer(dice) {
    return [
      at(cylinder(0.11, 0.09, 1.5, 12), bright(dice), 0, 0.75, 0),
      at(box(0.34, 0.28, 0.36), STEEL, 0.06, 1.5, 0),
      at(rod(0.21, 0.26), STEEL, 0.36, 1.5, 0),
      at(
        extrude(
          [
            [0, 0.1],
            [-0.5, -0.12],
            [-0.46, -0.18],
            [0, -0.1],
          ],
          0.3,
        ),
        STEEL,
        -0.1,
        1.5,
        0,
      ),
      at(cylinder(0.13, 0.13, 0.4, 12), DARK, 0, 0.2, 0),
    ];
  },
  windmill(dice) {
    const color = bright(dice);
    const arms = [0.4, 1.97, 3.54, 5.11].map((angle) =>
      at(turned(shifted(box(0.16, 0.9, 0.03), 0.1, 0.5, 0), turnZ(angle)), [240, 234, 220], 0, 1.4, 0.42),
    );
    return [
      at(cylinder(0.5, 0.32, 1.3, 8), color, 0, 0.65, 0),
      at(cylinder(0.36, 0.05, 0.4, 8), [120, 80, 60], 0, 1.5, 0),
      ...arms,
      at(turned(cylinder(0.06, 0.06, 0.2, 10), turnX(QUARTER)), DARK, 0, 1.4, 0.38),
      at(box(0.24, 0.44, 0.06), [100, 66, 44], 0.1, 0.22, 0.45),
      at(box(0.7, 0.08, 0.3), WOOD, 0.1, 0.04, 0.6),
    ];
  },
};

export const TOY_NAMES: readonly string[] = Object.keys(toys);

/** One of the toys, by seed: what it is called and its parts. */
export function toy(seed: number): { readonly kind: string; readonly meshes: readonly Mesh[] } {
  const dice = new Dice(seed, "toy");
  const kind = dice.pick(TOY_NAMES);
  return { kind, meshes: (toys[kind] as Build)(dice) };
}

/** Centred on its box, half the box's diagonal long. */
export function centred(meshes: readonly Mesh[]): Mesh[] {
  const { low, high } = bounds(meshes);
  const middle: Vec3 = [(low[0] + high[0]) / 2, (low[1] + high[1]) / 2, (low[2] + high[2]) / 2];
  const [dx, dy, dz] = [high[0] - low[0], high[1] - low[1], high[2] - low[2]];
  const factor = 2 / Math.sqrt(dx * dx + dy * dy + dz * dz);
  return meshes.map((mesh) => {
    const moved = shifted(mesh, -middle[0], -middle[1], -middle[2]);
    return { ...moved, positions: moved.positions.map((value) => value * factor) };
  });
}
