/**
 * Draws in an object's own frame: the origin is where it stands, u runs right, v up, and 1 is its height. A pen knows where
 * the object stands in the image, how large it is, and whether it is mirrored or tilted; things are drawn with it once and
 * look right anywhere. Paths are strings: points "u,v", and "~u,v" the control point of a curve to the next point.
 */
import { exact } from "../../../src/core/index.ts";
import type { Brush, Color, Frame, Paint } from "./brush.ts";

const { cos, sin } = exact;

export type Place = {
  /** Where the origin lies, in pixels. */
  readonly x: number;
  readonly y: number;
  /** How many pixels 1 is. */
  readonly size: number;
  readonly mirrored?: boolean;
  /** Degrees clockwise. */
  readonly tilt?: number;
};

type Node = { readonly u: number; readonly v: number; readonly control: boolean };

const paths = new Map<string, readonly Node[]>();

function parsePath(path: string): readonly Node[] {
  let nodes = paths.get(path);
  if (nodes === undefined) {
    nodes = path
      .trim()
      .split(/\s+/)
      .map((word) => {
        const control = word.startsWith("~");
        const [u, v] = (control ? word.slice(1) : word).split(",").map(Number);
        return { u: u as number, v: v as number, control };
      });
    if (paths.size < 4096) paths.set(path, nodes);
  }
  return nodes;
}

const CIRCLE = 64;
const circle = Array.from({ length: CIRCLE }, (_, i) => [
  cos((i * 2 * Math.PI) / CIRCLE),
  sin((i * 2 * Math.PI) / CIRCLE),
]) as readonly (readonly [number, number])[];

/** Where the origin lies, and what u and v add in pixels. */
type Axes = {
  readonly x: number;
  readonly y: number;
  readonly xu: number;
  readonly xv: number;
  readonly yu: number;
  readonly yv: number;
};

export class Pen {
  readonly brush: Brush;
  /** How many pixels 1 is. */
  readonly size: number;
  readonly frame: Frame;
  readonly #axes: Axes;

  private constructor(brush: Brush, axes: Axes) {
    const { x, y, xu, xv, yu, yv } = axes;
    const square = xu * xu + yu * yu;
    this.brush = brush;
    this.size = Math.sqrt(square);
    this.#axes = axes;
    this.frame = { x, y, ux: xu / square, uy: yu / square, vx: xv / square, vy: yv / square };
  }

  static at(brush: Brush, { x, y, size, mirrored = false, tilt = 0 }: Place): Pen {
    const [c, s] = turnOf(tilt);
    const flip = mirrored ? -1 : 1;
    return new Pen(brush, { x, y, xu: c * size * flip, xv: s * size, yu: s * size * flip, yv: -c * size });
  }

  /** A pen for a part: its own origin, size and turn (degrees clockwise) within this one's frame. */
  part(u: number, v: number, size = 1, turn = 0): Pen {
    const { xu, xv, yu, yv } = this.#axes;
    const [c, s] = turnOf(turn);
    return new Pen(this.brush, {
      x: this.x(u, v),
      y: this.y(u, v),
      xu: size * (c * xu - s * xv),
      xv: size * (s * xu + c * xv),
      yu: size * (c * yu - s * yv),
      yv: size * (s * yu + c * yv),
    });
  }

  x(u: number, v: number): number {
    return this.#axes.x + u * this.#axes.xu + v * this.#axes.xv;
  }

  y(u: number, v: number): number {
    return this.#axes.y + u * this.#axes.yu + v * this.#axes.yv;
  }

  shape(path: string, paint: Paint | Color): void {
    const nodes = parsePath(path);
    const points: number[] = [];
    const add = (u: number, v: number) => points.push(this.x(u, v), this.y(u, v));
    const steps = Math.max(3, Math.min(14, Math.round(2 + this.size * 0.09)));
    let [u, v] = [nodes[0]?.u ?? 0, nodes[0]?.v ?? 0];
    for (let i = 0; i < nodes.length; i++) {
      const node = nodes[i] as Node;
      if (!node.control) {
        add(node.u, node.v);
        [u, v] = [node.u, node.v];
        continue;
      }
      const end = nodes[i + 1] ?? (nodes[0] as Node);
      for (let step = 1; step < steps; step++) {
        const t = step / steps;
        const [a, b, c] = [(1 - t) * (1 - t), 2 * t * (1 - t), t * t];
        add(a * u + b * node.u + c * end.u, a * v + b * node.v + c * end.v);
      }
    }
    this.brush.fill(points, toPaint(paint), this.frame);
  }

  /** An ellipse, turned by degrees clockwise. */
  oval(u: number, v: number, ru: number, rv: number, paint: Paint | Color, turn = 0): void {
    const reach = Math.max(ru, rv) * this.size;
    const step = reach > 40 ? 1 : reach > 9 ? 2 : reach > 3 ? 4 : 8;
    const [c, s] = turnOf(turn);
    const points: number[] = [];
    for (let i = 0; i < CIRCLE; i += step) {
      const [du, dv] = circle[i] as readonly [number, number];
      const [a, b] = [u + du * ru * c + dv * rv * s, v - du * ru * s + dv * rv * c];
      points.push(this.x(a, b), this.y(a, b));
    }
    this.brush.fill(points, toPaint(paint), this.frame);
  }

  disc(u: number, v: number, radius: number, paint: Paint | Color): void {
    this.oval(u, v, radius, radius, paint);
  }

  /** `u, v` is the lower left corner. */
  rect(u: number, v: number, width: number, height: number, paint: Paint | Color, round = 0): void {
    const [l, b, r, t] = [u, v, u + width, v + height];
    if (round <= 0) {
      const corners = [l, b, r, b, r, t, l, t];
      const points: number[] = [];
      for (let i = 0; i < 8; i += 2) {
        const [cu, cv] = [corners[i] as number, corners[i + 1] as number];
        points.push(this.x(cu, cv), this.y(cu, cv));
      }
      this.brush.fill(points, toPaint(paint), this.frame);
      return;
    }
    const k = Math.min(round, width / 2, height / 2);
    this.shape(
      `${l + k},${b} ${r - k},${b} ~${r},${b} ${r},${b + k} ${r},${t - k} ~${r},${t} ${r - k},${t} ${l + k},${t} ~${l},${t} ${l},${t - k} ${l},${b + k} ~${l},${b} ${l + k},${b}`,
      paint,
    );
  }

  /** A tapering limb with round ends, `w0` wide at the start and `w1` at the end. */
  limb(u0: number, v0: number, w0: number, u1: number, v1: number, w1: number, paint: Paint | Color): void {
    const [ax, ay, bx, by] = [this.x(u0, v0), this.y(u0, v0), this.x(u1, v1), this.y(u1, v1)];
    const length = Math.sqrt((bx - ax) * (bx - ax) + (by - ay) * (by - ay));
    const [dx, dy] = length > 0 ? [(bx - ax) / length, (by - ay) / length] : [1, 0];
    const [ra, rb] = [(w0 * this.size) / 2, (w1 * this.size) / 2];
    const step = Math.max(ra, rb) > 6 ? 4 : 8;
    const points: number[] = [];
    // Half a circle around the start, half a circle around the end.
    for (let i = 16; i <= 48; i += step) {
      const [c, s] = circle[i % CIRCLE] as readonly [number, number];
      points.push(ax + ra * (c * dx - s * dy), ay + ra * (c * dy + s * dx));
    }
    for (let i = 48; i <= 80; i += step) {
      const [c, s] = circle[i % CIRCLE] as readonly [number, number];
      points.push(bx + rb * (c * dx - s * dy), by + rb * (c * dy + s * dx));
    }
    this.brush.fill(points, toPaint(paint), this.frame);
  }

  /** A line along points and curves. */
  line(path: string, width: number, paint: Paint | Color): void {
    const nodes = parsePath(path);
    let [u, v] = [nodes[0]?.u ?? 0, nodes[0]?.v ?? 0];
    for (let i = 1; i < nodes.length; i++) {
      const node = nodes[i] as Node;
      if (!node.control) {
        this.limb(u, v, width, node.u, node.v, width, paint);
        [u, v] = [node.u, node.v];
        continue;
      }
      const end = nodes[i + 1] as Node;
      const [su, sv] = [u, v];
      for (let step = 1; step <= 6; step++) {
        const t = step / 6;
        const [a, b, c] = [(1 - t) * (1 - t), 2 * t * (1 - t), t * t];
        const [nu, nv] = [a * su + b * node.u + c * end.u, a * sv + b * node.v + c * end.v];
        this.limb(u, v, width, nu, nv, width, paint);
        [u, v] = [nu, nv];
      }
      i++;
    }
  }

  /** A soft shadow on the ground under the object. */
  shadow(width: number, strength = 0.42, lean = 0.12): void {
    const { brush, size } = this;
    const x = this.frame.x - brush.light * width * size * lean;
    brush.glow(x, this.frame.y, width * size * 0.62, Math.max(1.5, width * size * 0.16), [24, 22, 46], strength);
  }
}

function toPaint(paint: Paint | Color): Paint {
  return "color" in paint ? paint : { color: paint };
}

function turnOf(degrees: number): readonly [cosine: number, sine: number] {
  return degrees === 0 ? [1, 0] : [cos((degrees * Math.PI) / 180), sin((degrees * Math.PI) / 180)];
}
