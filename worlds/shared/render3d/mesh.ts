/**
 * Triangles with what the renderer needs to know of them. Shapes are made around the origin, y up; `merge`, `moved` and
 * `painted` put them together. Triangles run counter-clockwise seen from outside.
 */
import { exact } from "../../../src/core/index.ts";
import { apply, cross, type Mat3, normalize, type Pose, subtract, type Vec3 } from "./matrix.ts";

const { cos, sin } = exact;

export type Texture = { readonly width: number; readonly height: number /** RGB. */; readonly data: Uint8Array };

export type Surface = {
  /** RGB, 0 to 255. */
  readonly color: Vec3;
  readonly texture?: Texture;
  /** As it is, whatever the light. */
  readonly unlit?: boolean;
  readonly doubleSided?: boolean;
  readonly metallic?: number;
  readonly roughness?: number;
};

export type Mesh = {
  /** x, y, z of every vertex. */
  readonly positions: Float64Array;
  readonly normals: Float64Array;
  /** u, v of every vertex, v down; absent: no texture. */
  readonly uvs?: Float64Array;
  /** Three vertices a triangle. */
  readonly triangles: Uint32Array;
  readonly surface: Surface;
};

const GREY: Surface = { color: [180, 180, 180] };

/** From rows of numbers; normals are the triangles' own when none are given. */
export function meshOf(
  positions: readonly number[],
  triangles: readonly number[],
  normals?: readonly number[],
  uvs?: readonly number[],
): Mesh {
  return {
    positions: Float64Array.from(positions),
    triangles: Uint32Array.from(triangles),
    normals: normals === undefined ? smoothNormals(positions, triangles) : Float64Array.from(normals),
    ...(uvs === undefined ? {} : { uvs: Float64Array.from(uvs) }),
    surface: GREY,
  };
}

/** At every vertex the mean direction of the triangles around it, larger ones counting more. */
export function smoothNormals(positions: ArrayLike<number>, triangles: ArrayLike<number>): Float64Array {
  const sums = new Float64Array(positions.length);
  const at = (i: number): Vec3 => [
    positions[i * 3] as number,
    positions[i * 3 + 1] as number,
    positions[i * 3 + 2] as number,
  ];
  for (let t = 0; t < triangles.length; t += 3) {
    const corners = [triangles[t] as number, triangles[t + 1] as number, triangles[t + 2] as number] as const;
    const [a, b, c] = [at(corners[0]), at(corners[1]), at(corners[2])];
    const normal = cross(subtract(b, a), subtract(c, a));
    for (const corner of corners)
      for (let k = 0 as 0 | 1 | 2; k < 3; k++) sums[corner * 3 + k] = (sums[corner * 3 + k] as number) + normal[k];
  }
  for (let i = 0; i < sums.length; i += 3) {
    const [x, y, z] = normalize([sums[i] as number, sums[i + 1] as number, sums[i + 2] as number]);
    sums[i] = x;
    sums[i + 1] = y;
    sums[i + 2] = z;
  }
  return sums;
}

export function painted(mesh: Mesh, surface: Surface | Vec3): Mesh {
  return { ...mesh, surface: "color" in surface ? surface : { color: surface } };
}

/** Turned, then moved. The rotation must not stretch. */
export function moved(mesh: Mesh, { rotation, shift }: Pose): Mesh {
  const positions = new Float64Array(mesh.positions.length);
  const normals = new Float64Array(mesh.normals.length);
  for (let i = 0; i < positions.length; i += 3) {
    const p = apply(rotation, vec(mesh.positions, i));
    const n = apply(rotation, vec(mesh.normals, i));
    for (let k = 0 as 0 | 1 | 2; k < 3; k++) {
      positions[i + k] = p[k] + shift[k];
      normals[i + k] = n[k];
    }
  }
  return { ...mesh, positions, normals };
}

export function turned(mesh: Mesh, rotation: Mat3): Mesh {
  return moved(mesh, { rotation, shift: [0, 0, 0] });
}

export function shifted(mesh: Mesh, x: number, y: number, z: number): Mesh {
  const positions = mesh.positions.map((value, i) => value + ([x, y, z][i % 3] as number));
  return { ...mesh, positions };
}

export function vec(array: Float64Array, i: number): Vec3 {
  return [array[i] as number, array[i + 1] as number, array[i + 2] as number];
}

/** Corners of the box around some meshes. */
export function bounds(meshes: readonly Mesh[]): { readonly low: Vec3; readonly high: Vec3 } {
  const low: [number, number, number] = [Infinity, Infinity, Infinity];
  const high: [number, number, number] = [-Infinity, -Infinity, -Infinity];
  for (const { positions } of meshes) {
    for (let i = 0; i < positions.length; i++) {
      const k = (i % 3) as 0 | 1 | 2;
      const value = positions[i] as number;
      if (value < low[k]) low[k] = value;
      if (value > high[k]) high[k] = value;
    }
  }
  return { low, high };
}

/** A box with flat faces; each face shows the whole texture upright. */
export function box(width: number, height: number, depth: number): Mesh {
  const [x, y, z] = [width / 2, height / 2, depth / 2];
  const faces: readonly (readonly [Vec3, Vec3, Vec3])[] = [
    [
      [x, 0, 0],
      [0, 0, -z],
      [0, y, 0],
    ],
    [
      [-x, 0, 0],
      [0, 0, z],
      [0, y, 0],
    ],
    [
      [0, y, 0],
      [x, 0, 0],
      [0, 0, -z],
    ],
    [
      [0, -y, 0],
      [x, 0, 0],
      [0, 0, z],
    ],
    [
      [0, 0, z],
      [x, 0, 0],
      [0, y, 0],
    ],
    [
      [0, 0, -z],
      [-x, 0, 0],
      [0, y, 0],
    ],
  ];
  const positions: number[] = [];
  const normals: number[] = [];
  const uvs: number[] = [];
  const triangles: number[] = [];
  for (const [middle, right, up] of faces) {
    const first = positions.length / 3;
    const normal = normalize(middle);
    for (const [r, u] of [
      [-1, -1],
      [1, -1],
      [1, 1],
      [-1, 1],
    ] as const) {
      for (let k = 0 as 0 | 1 | 2; k < 3; k++) positions.push(middle[k] + right[k] * r + up[k] * u);
      normals.push(...normal);
      uvs.push((r + 1) / 2, (1 - u) / 2);
    }
    triangles.push(first, first + 1, first + 2, first, first + 2, first + 3);
  }
  return meshOf(positions, triangles, normals, uvs);
}

/** A profile of [radius, height] turned about the y axis; corners of the profile stay sharp where `sharp`. */
export function lathe(
  profile: readonly (readonly [radius: number, height: number])[],
  sides = 20,
  sharp = false,
): Mesh {
  const rows = sharp
    ? profile.slice(1).flatMap((point, i) => [profile[i] as readonly [number, number], point])
    : profile;
  const positions: number[] = [];
  const uvs: number[] = [];
  const triangles: number[] = [];
  rows.forEach(([radius, height], row) => {
    for (let i = 0; i <= sides; i++) {
      const angle = (i * 2 * Math.PI) / sides;
      positions.push(radius * cos(angle), height, -radius * sin(angle));
      uvs.push(i / sides, 1 - row / Math.max(1, rows.length - 1));
    }
  });
  for (let row = 0; row + 1 < rows.length; row++) {
    if (sharp && row % 2 === 1) continue;
    for (let i = 0; i < sides; i++) {
      const [a, b] = [row * (sides + 1) + i, (row + 1) * (sides + 1) + i];
      if ((rows[row]?.[0] ?? 0) > 0) triangles.push(a, a + 1, b + 1);
      if ((rows[row + 1]?.[0] ?? 0) > 0) triangles.push(a, b + 1, b);
    }
  }
  return weld(meshOf(positions, triangles, undefined, uvs), sides + 1);
}

/** Gives the two ends of each ring the same normal, so that the seam does not show. */
function weld(mesh: Mesh, ring: number): Mesh {
  const normals = mesh.normals.slice();
  for (let first = 0; first < normals.length; first += ring * 3) {
    const last = first + (ring - 1) * 3;
    const sum = normalize([
      (normals[first] as number) + (normals[last] as number),
      (normals[first + 1] as number) + (normals[last + 1] as number),
      (normals[first + 2] as number) + (normals[last + 2] as number),
    ]);
    for (let k = 0 as 0 | 1 | 2; k < 3; k++) {
      normals[first + k] = sum[k];
      normals[last + k] = sum[k];
    }
  }
  return { ...mesh, normals };
}

/** Standing on the y axis, from `-height/2` to `height/2`; with two radii a cone or its stump. */
export function cylinder(bottom: number, top: number, height: number, sides = 20): Mesh {
  const [low, high] = [-height / 2, height / 2];
  return lathe(
    [
      [0, low],
      [bottom, low],
      [top, high],
      [0, high],
    ],
    sides,
    true,
  );
}

export function sphere(radius: number, sides = 20): Mesh {
  const rows = Math.max(4, Math.round(sides / 2));
  const profile = Array.from({ length: rows + 1 }, (_, i) => {
    const angle = (i * Math.PI) / rows;
    return [i === 0 || i === rows ? 0 : radius * sin(angle), -radius * cos(angle)] as const;
  });
  return lathe(profile, sides);
}

/** A ring around the y axis. */
export function torus(radius: number, tube: number, sides = 24, around = 10): Mesh {
  const profile = Array.from({ length: around + 1 }, (_, i) => {
    const angle = (i * 2 * Math.PI) / around;
    return [radius + tube * cos(angle), tube * sin(angle)] as const;
  });
  return lathe(profile, sides);
}

/** A flat outline (x, y, counter-clockwise, convex or star-shaped about its first point) given depth along z. */
export function extrude(outline: readonly (readonly [number, number])[], depth: number): Mesh {
  const positions: number[] = [];
  const triangles: number[] = [];
  const half = depth / 2;
  for (const z of [half, -half]) {
    const first = positions.length / 3;
    for (const [x, y] of outline) positions.push(x, y, z);
    for (let i = 1; i + 1 < outline.length; i++) {
      if (z > 0) triangles.push(first, first + i, first + i + 1);
      else triangles.push(first, first + i + 1, first + i);
    }
  }
  outline.forEach(([x, y], i) => {
    const [nx, ny] = outline[(i + 1) % outline.length] as readonly [number, number];
    const first = positions.length / 3;
    positions.push(x, y, half, x, y, -half, nx, ny, -half, nx, ny, half);
    triangles.push(first, first + 1, first + 2, first, first + 2, first + 3);
  });
  return meshOf(positions, triangles);
}

/** The same ball stretched along the axes; normals follow. */
export function stretched(mesh: Mesh, x: number, y: number, z: number): Mesh {
  const factors = [x, y, z];
  const positions = mesh.positions.map((value, i) => value * (factors[i % 3] as number));
  const normals = mesh.normals.map((value, i) => value / (factors[i % 3] as number));
  for (let i = 0; i < normals.length; i += 3) {
    const n = normalize(vec(normals, i));
    for (let k = 0 as 0 | 1 | 2; k < 3; k++) normals[i + k] = n[k];
  }
  return { ...mesh, positions, normals };
}
