/**
 * An image of a MuJoCo model: its geoms as meshes where the simulation has them, with our own renderer. z is up.
 * Cameras are MuJoCo's free cameras: a point to look at, two angles in degrees and a distance.
 */
import { exact } from "../../../src/core/index.ts";
import type { Camera, Mat3, Vec3 } from "../render3d/matrix.ts";
import { lookAt, turnX } from "../render3d/matrix.ts";
import { box, cylinder, lathe, type Mesh, meshOf, painted, sphere, stretched, turned } from "../render3d/mesh.ts";
import type { Renderer } from "../render3d/renderer.ts";
import { type Model, type Simulation, vec3 } from "./simulation.ts";

const { cos, sin } = exact;

export type FreeCamera = {
  readonly lookat: Vec3;
  /** Degrees; 0 looks along x, 90 along y. */
  readonly azimuth: number;
  /** Degrees; below 0 looks down. */
  readonly elevation: number;
  readonly distance: number;
};

const FIELD_OF_VIEW = 45;
const SIDES = 16;
/** MuJoCo's numbers for shapes. */
const PLANE = 0;
const SPHERE = 2;
const CAPSULE = 3;
const ELLIPSOID = 4;
const CYLINDER = 5;
const BOX = 6;
const MESH = 7;

export function freeCamera({ lookat, azimuth, elevation, distance }: FreeCamera, aspect: number): Camera {
  const [a, e] = [(azimuth * Math.PI) / 180, (elevation * Math.PI) / 180];
  const forward: Vec3 = [cos(e) * cos(a), cos(e) * sin(a), sin(e)];
  const eye: Vec3 = [
    lookat[0] - distance * forward[0],
    lookat[1] - distance * forward[1],
    lookat[2] - distance * forward[2],
  ];
  return lookAt(eye, lookat, FIELD_OF_VIEW, aspect, [0, 0, 1]);
}

type Drawn = { readonly geom: number; readonly mesh: Mesh };
const shapes = new WeakMap<Model, readonly Drawn[]>();

/** Everything that can be seen, where it is now. `colors` are by geom, for what this episode paints anew. */
export function drawModel(renderer: Renderer, { model, data }: Simulation, colors?: ReadonlyMap<number, Vec3>): void {
  let drawn = shapes.get(model);
  if (drawn === undefined) {
    drawn = shapesOf(model);
    shapes.set(model, drawn);
  }
  const { geom_xpos, geom_xmat } = data;
  for (const { geom, mesh } of drawn) {
    const m = geom_xmat.subarray(geom * 9, geom * 9 + 9);
    const row = (i: number): Vec3 => [m[i] as number, m[i + 1] as number, m[i + 2] as number];
    const rotation: Mat3 = [row(0), row(3), row(6)];
    const color = colors?.get(geom);
    renderer.draw(color === undefined ? mesh : painted(mesh, color), { rotation, shift: vec3(geom_xpos, geom) });
  }
}

/** A mesh that is no part of the model, such as a ball that marks a target. */
export function drawAt(renderer: Renderer, mesh: Mesh, at: Vec3): void {
  renderer.draw(mesh, { rotation: STAND, shift: at });
}

/** From shapes that stand on y to shapes that stand on z. */
const STAND: Mat3 = turnX(Math.PI / 2);

function shapesOf(model: Model): readonly Drawn[] {
  const drawn: Drawn[] = [];
  for (let geom = 0; geom < model.ngeom; geom++) {
    const [red = 0, green = 0, blue = 0, alpha = 0] = colorOf(model, geom);
    const shape = alpha === 0 ? undefined : shapeOf(model, geom);
    if (shape !== undefined) drawn.push({ geom, mesh: painted(shape, [red * 255, green * 255, blue * 255]) });
  }
  return drawn;
}

/** A geom's own colour, or its material's where it has none of its own. */
function colorOf(model: Model, geom: number): readonly number[] {
  const own = [...model.geom_rgba.subarray(geom * 4, geom * 4 + 4)];
  const material = model.geom_matid[geom] ?? -1;
  const plain = own.every((value, i) => value === (i < 3 ? 0.5 : 1));
  return material >= 0 && plain ? [...model.mat_rgba.subarray(material * 4, material * 4 + 4)] : own;
}

function shapeOf(model: Model, geom: number): Mesh | undefined {
  const [a, b, c] = vec3(model.geom_size, geom);
  switch (model.geom_type[geom]) {
    case PLANE:
      // A plane without a size goes on for ever; here it ends out of sight.
      return box(2 * (a || 20), 2 * (b || 20), 0);
    case SPHERE:
      return sphere(a, SIDES);
    case CAPSULE:
      return turned(capsule(a, b), STAND);
    case ELLIPSOID:
      return stretched(sphere(1, SIDES), a, b, c);
    case CYLINDER:
      return turned(cylinder(a, a, 2 * b, SIDES), STAND);
    case BOX:
      return box(2 * a, 2 * b, 2 * c);
    case MESH:
      return meshShape(model, model.geom_dataid[geom] ?? -1);
    default:
      return undefined;
  }
}

function capsule(radius: number, half: number): Mesh {
  const arc = [0, 1, 2, 3, 4].map((i) => (i * Math.PI) / 8);
  const bottom = arc.map((angle) => [angle === 0 ? 0 : radius * sin(angle), -half - radius * cos(angle)] as const);
  const top = [...arc]
    .reverse()
    .map((angle) => [angle === 0 ? 0 : radius * sin(angle), half + radius * cos(angle)] as const);
  return lathe([...bottom, ...top], SIDES);
}

function meshShape(model: Model, mesh: number): Mesh | undefined {
  if (mesh < 0) return undefined;
  const at = (values: Int32Array) => values[mesh] as number;
  const [first, count] = [at(model.mesh_vertadr), at(model.mesh_vertnum)];
  const [face, faces] = [at(model.mesh_faceadr), at(model.mesh_facenum)];
  return meshOf(
    [...model.mesh_vert.subarray(first * 3, (first + count) * 3)],
    [...model.mesh_face.subarray(face * 3, (face + faces) * 3)],
  );
}
