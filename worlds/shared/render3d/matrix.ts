/**
 * Points, rotations and cameras, in numbers that are the same on every machine. Matrices are row by row and multiply
 * column vectors; y is up, a camera looks along its own -z.
 */
import { exact } from "../../../src/core/index.ts";

const { acos, cos, sin, tan } = exact;

export type Vec3 = readonly [number, number, number];
/** A rotation (or any linear map): three rows. */
export type Mat3 = readonly [Vec3, Vec3, Vec3];
/** `rotation · p + shift`. */
export type Pose = { readonly rotation: Mat3; readonly shift: Vec3 };

export const IDENTITY: Mat3 = [
  [1, 0, 0],
  [0, 1, 0],
  [0, 0, 1],
];
export const AT_ORIGIN: Pose = { rotation: IDENTITY, shift: [0, 0, 0] };

export function dot(a: Vec3, b: Vec3): number {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}
export function cross(a: Vec3, b: Vec3): Vec3 {
  return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
}
export function add(a: Vec3, b: Vec3): Vec3 {
  return [a[0] + b[0], a[1] + b[1], a[2] + b[2]];
}
export function subtract(a: Vec3, b: Vec3): Vec3 {
  return [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
}
export function scale(a: Vec3, factor: number): Vec3 {
  return [a[0] * factor, a[1] * factor, a[2] * factor];
}
/** The zero vector stays as it is. */
export function normalize(a: Vec3): Vec3 {
  const length = Math.sqrt(dot(a, a));
  return length > 0 ? scale(a, 1 / length) : a;
}

export function apply(m: Mat3, v: Vec3): Vec3 {
  return [dot(m[0], v), dot(m[1], v), dot(m[2], v)];
}
export function transpose(m: Mat3): Mat3 {
  const column = (i: 0 | 1 | 2): Vec3 => [m[0][i], m[1][i], m[2][i]];
  return [column(0), column(1), column(2)];
}
export function multiply(a: Mat3, b: Mat3): Mat3 {
  const columns = transpose(b);
  const row = (r: Vec3): Vec3 => [dot(r, columns[0]), dot(r, columns[1]), dot(r, columns[2])];
  return [row(a[0]), row(a[1]), row(a[2])];
}

/** A turn about one axis, in radians, counter-clockwise when the axis points at the eye. */
export function turnX(angle: number): Mat3 {
  const [c, s] = [cos(angle), sin(angle)];
  return [
    [1, 0, 0],
    [0, c, -s],
    [0, s, c],
  ];
}
export function turnY(angle: number): Mat3 {
  const [c, s] = [cos(angle), sin(angle)];
  return [
    [c, 0, s],
    [0, 1, 0],
    [-s, 0, c],
  ];
}
export function turnZ(angle: number): Mat3 {
  const [c, s] = [cos(angle), sin(angle)];
  return [
    [c, -s, 0],
    [s, c, 0],
    [0, 0, 1],
  ];
}

/** A turn by `angle` about any axis. */
export function turnAbout(axis: Vec3, angle: number): Mat3 {
  const [x, y, z] = normalize(axis);
  const [c, s] = [cos(angle), sin(angle)];
  const k = 1 - c;
  return [
    [c + x * x * k, x * y * k - z * s, x * z * k + y * s],
    [y * x * k + z * s, c + y * y * k, y * z * k - x * s],
    [z * x * k - y * s, z * y * k + x * s, c + z * z * k],
  ];
}

/** The angle by which a rotation turns, 0 to π. */
export function angleOf(m: Mat3): number {
  return acos(Math.max(-1, Math.min(1, (m[0][0] + m[1][1] + m[2][2] - 1) / 2)));
}

/** The axis and angle of a rotation; any axis will do for none. */
export function axisAngle(m: Mat3): { readonly axis: Vec3; readonly angle: number } {
  const angle = angleOf(m);
  const skew: Vec3 = [m[2][1] - m[1][2], m[0][2] - m[2][0], m[1][0] - m[0][1]];
  if (dot(skew, skew) > 1e-12) return { axis: normalize(skew), angle };
  if (angle < 1) return { axis: [0, 0, 1], angle };
  // Half a turn: m + 1 has the axis in its columns; the largest is the safest.
  const columns = transpose([
    [m[0][0] + 1, m[0][1], m[0][2]],
    [m[1][0], m[1][1] + 1, m[1][2]],
    [m[2][0], m[2][1], m[2][2] + 1],
  ]);
  const best = columns.reduce((a, b) => (dot(b, b) > dot(a, a) ? b : a));
  return { axis: normalize(best), angle };
}

export type Camera = {
  readonly eye: Vec3;
  /** World to camera: rows are the camera's right, up and backward directions. */
  readonly view: Mat3;
  /** Half the image's width and height over the distance: tan of half the angles of view. */
  readonly spread: readonly [across: number, up: number];
  readonly near: number;
};

/** A camera that looks from one point at another. `fovY` is the vertical angle of view in degrees. */
export function lookAt(eye: Vec3, target: Vec3, fovY: number, aspect: number, up: Vec3 = [0, 1, 0]): Camera {
  const back = normalize(subtract(eye, target));
  const right = normalize(cross(up, back));
  const spread = tan((fovY * Math.PI) / 360);
  return { eye, view: [right, cross(back, right), back], spread: [spread * aspect, spread], near: 0.01 };
}
