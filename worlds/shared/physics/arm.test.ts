import { describe, expect, test } from "vitest";
import type { Vec3 } from "../render3d/matrix.ts";
import { Renderer } from "../render3d/renderer.ts";
import { blobs, isRed } from "../test-blobs.ts";
import { armModel } from "./arm.ts";
import { drawModel, freeCamera } from "./draw.ts";
import { simulate, vec3 } from "./simulation.ts";

/** The arm alone, its fingers so far open, painted by body where `paint` says so. */
async function picture(
  camera: { azimuth: number; elevation: number; distance: number },
  opening: number,
  paint: (body: number, gripper: readonly number[]) => Vec3 | undefined,
) {
  const simulation = await simulate(armModel({ bodies: "", motors: false }));
  const { model, data } = simulation;
  const fingers = ["robot0:r_gripper_finger", "robot0:l_gripper_finger"];
  for (const name of fingers) {
    data.qpos[model.jnt_qposadr[simulation.id("joint", `${name}_joint`)] as number] = opening / 2;
  }
  simulation.forward();
  const gripper = ["robot0:gripper_link", ...fingers.map((name) => `${name}_link`)].map((name) =>
    simulation.id("body", name),
  );
  const colors = new Map<number, Vec3>();
  for (let geom = 0; geom < model.ngeom; geom++) {
    const color = paint(model.geom_bodyid[geom] as number, gripper);
    if (color !== undefined) colors.set(geom, color);
  }
  const lookat = vec3(data.xpos, gripper[0] as number);
  const renderer = new Renderer(200, 200, freeCamera({ ...camera, lookat }, 1));
  renderer.clear([0, 0, 0]);
  drawModel(renderer, simulation, colors);
  return renderer.toImage();
}

describe("the arm", () => {
  test.each([0, 0.04, 0.1])("its fingers hang on the palm, %f m apart", async (opening) => {
    const MAGENTA: Vec3 = [255, 0, 255];
    for (const view of [
      { azimuth: 0, elevation: -89.9, distance: 0.5 },
      { azimuth: 90, elevation: 0, distance: 0.5 },
      { azimuth: 45, elevation: -40, distance: 0.5 },
    ]) {
      const image = await picture(view, opening, (body, gripper) => (gripper.includes(body) ? MAGENTA : [0, 255, 0]));
      const pieces = blobs(image, (red, green) => red > 20 && green < red / 4, 4);
      expect(pieces.length, JSON.stringify(view)).toBe(1);
    }
  });

  test("has nothing red about it: red is what the tasks speak of", async () => {
    for (let azimuth = 0; azimuth < 360; azimuth += 30) {
      for (const elevation of [-60, -20]) {
        const image = await picture({ azimuth, elevation, distance: 2.2 }, 0.05, () => undefined);
        expect(blobs(image, isRed), `${azimuth}, ${elevation}`).toEqual([]);
      }
    }
  });
});
