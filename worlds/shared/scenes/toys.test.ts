import { describe, expect, test } from "vitest";
import type { Image } from "../../../src/core/index.ts";
import { bounds, IDENTITY, lookAt, type Mat3, multiply, Renderer, turnX, turnY, turnZ } from "../render3d/index.ts";
import { Dice } from "./dice.ts";
import { centred, TOY_NAMES, toy, toys } from "./toys.ts";

const QUARTER = Math.PI / 2;

/** The 24 turns by right angles. */
const turns: Mat3[] = [0, 1, 2, 3].flatMap((roll) =>
  [IDENTITY, turnX(QUARTER), turnX(2 * QUARTER), turnX(3 * QUARTER), turnY(QUARTER), turnY(3 * QUARTER)].map((face) =>
    multiply(face, turnZ(roll * QUARTER)),
  ),
);

function picture(meshes: ReturnType<typeof centred>, rotation: Mat3): Image {
  const renderer = new Renderer(32, 32, lookAt([1.4, 1.1, 2.4], [0, 0, 0], 42, 1), 1);
  renderer.clear([255, 255, 255]);
  for (const mesh of meshes) renderer.draw(mesh, { rotation, shift: [0, 0, 0] });
  return renderer.toImage();
}

describe.each(TOY_NAMES)("%s", (name) => {
  const meshes = centred((toys[name] as (typeof toys)[string])(new Dice(7)));

  test("looks different after every turn by right angles", () => {
    const upright = picture(meshes, IDENTITY);
    const differences = turns.slice(1).map((rotation) => {
      const other = picture(meshes, rotation);
      return (
        upright.data.reduce((sum, value, i) => sum + Math.abs(value - (other.data[i] as number)), 0) /
        upright.data.length
      );
    });
    expect(Math.min(...differences)).toBeGreaterThan(4);
  });

  test("is centred, of unit size, and light enough to draw quickly", () => {
    const { low, high } = bounds(meshes);
    const diagonal = Math.hypot(high[0] - low[0], high[1] - low[1], high[2] - low[2]);
    expect(diagonal).toBeCloseTo(2, 9);
    expect(low[0] + high[0]).toBeCloseTo(0, 9);
    expect(meshes.reduce((sum, { triangles }) => sum + triangles.length / 3, 0)).toBeLessThan(6000);
  });
});

test("a seed decides the toy, and all of them come up", () => {
  expect(toy(5)).toEqual(toy(5));
  expect(new Set(Array.from({ length: 300 }, (_, seed) => toy(seed).kind)).size).toBe(TOY_NAMES.length);
});
