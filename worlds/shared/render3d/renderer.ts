/**
 * Triangles to pixels: a depth buffer, textures in perspective, one directional light with ambient, smooth normals, lines.
 * Every pixel has `samples`² samples that are averaged at the end. Additions, multiplications, divisions and square roots
 * only, so that a scene has the same bytes on every machine.
 *
 * A triangle is drawn row by row between the crossings of its edges. An edge's crossing is the same number for both
 * triangles that share it, and spans are closed on the left and open on the right, so there are neither gaps nor overlaps.
 */
import { exact, Image } from "../../../src/core/index.ts";
import { AT_ORIGIN, add, apply, type Camera, normalize, type Pose, subtract, type Vec3 } from "./matrix.ts";
import type { Mesh, Surface, Texture } from "./mesh.ts";

const { pow } = exact;

export type Light = {
  /** From the scene towards the light. */
  readonly direction: Vec3;
  readonly intensity: number;
  readonly ambient: number;
};
export type Shading =
  /** Colours times light: plain and quick. */
  | "lambert"
  /** Metal and roughness in linear light, then a display's gamma. */
  | "physical";

const DEFAULT_LIGHT: Light = { direction: [0.4, 0.8, 0.45], intensity: 0.7, ambient: 0.4 };

/** A vertex on its way: camera coordinates, normal in the world, texture coordinates. */
type Vertex = { x: number; y: number; z: number; nx: number; ny: number; nz: number; u: number; v: number };

export class Renderer {
  readonly width: number;
  readonly height: number;
  readonly samples: number;
  camera: Camera;
  light: Light = DEFAULT_LIGHT;
  shading: Shading = "lambert";
  readonly #columns: number;
  readonly #rows: number;
  readonly #color: Uint8Array;
  /** One over the distance along the view: larger is nearer, 0 is nothing. */
  readonly #depth: Float64Array;
  /** Towards the light, and between it and the eye; both of length 1, set for each mesh. */
  #toLight: Vec3 = [0, 1, 0];
  #half: Vec3 = [0, 1, 0];

  constructor(width: number, height: number, camera: Camera, samples = 2) {
    this.width = width;
    this.height = height;
    this.samples = samples;
    this.camera = camera;
    this.#columns = width * samples;
    this.#rows = height * samples;
    this.#color = new Uint8Array(this.#columns * this.#rows * 3);
    this.#depth = new Float64Array(this.#columns * this.#rows);
  }

  clear([red, green, blue]: Vec3): void {
    this.#depth.fill(0);
    if (red === green && green === blue) {
      this.#color.fill(red);
      return;
    }
    this.#color.set([red, green, blue]);
    // What is filled doubles until nothing is left.
    for (let filled = 3; filled < this.#color.length; filled *= 2) {
      this.#color.copyWithin(filled, 0, Math.min(filled, this.#color.length - filled));
    }
  }

  /** The mean of each pixel's samples. */
  toImage(): Image {
    const { width, height, samples } = this;
    const color = this.#color;
    if (samples === 1) return new Image(width, height, color.slice());
    const out = new Uint8Array(width * height * 3);
    const stride = this.#columns * 3;
    const count = samples * samples;
    const half = count >> 1;
    for (let y = 0, to = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        let [red, green, blue] = [half, half, half];
        for (let sy = 0; sy < samples; sy++) {
          let from = (y * samples + sy) * stride + x * samples * 3;
          for (let sx = 0; sx < samples; sx++) {
            red += color[from++] as number;
            green += color[from++] as number;
            blue += color[from++] as number;
          }
        }
        out[to++] = red / count;
        out[to++] = green / count;
        out[to++] = blue / count;
      }
    }
    return new Image(width, height, out);
  }

  draw(mesh: Mesh, pose: Pose = AT_ORIGIN): void {
    const { positions, normals, uvs, triangles, surface } = mesh;
    const { eye, view, near } = this.camera;
    this.#toLight = normalize(this.light.direction);
    this.#half = normalize(add(this.#toLight, view[2]));
    const count = positions.length / 3;
    const vertices: Vertex[] = new Array(count);
    for (let i = 0; i < count; i++) {
      const world = apply(pose.rotation, [
        positions[i * 3] as number,
        positions[i * 3 + 1] as number,
        positions[i * 3 + 2] as number,
      ]);
      const [x, y, z] = apply(
        view,
        subtract([world[0] + pose.shift[0], world[1] + pose.shift[1], world[2] + pose.shift[2]], eye),
      );
      const [nx, ny, nz] = apply(pose.rotation, [
        normals[i * 3] as number,
        normals[i * 3 + 1] as number,
        normals[i * 3 + 2] as number,
      ]);
      vertices[i] = { x, y, z: -z, nx, ny, nz, u: uvs?.[i * 2] ?? 0, v: uvs?.[i * 2 + 1] ?? 0 };
    }
    for (let t = 0; t < triangles.length; t += 3) {
      const corners = [
        vertices[triangles[t] as number],
        vertices[triangles[t + 1] as number],
        vertices[triangles[t + 2] as number],
      ] as Vertex[];
      this.#clipped(corners, near, surface);
    }
  }

  /** Cuts what lies before the near plane off and draws the rest as a fan. */
  #clipped(corners: readonly Vertex[], near: number, surface: Surface): void {
    if (corners.every(({ z }) => z >= near)) {
      this.#triangle(corners[0] as Vertex, corners[1] as Vertex, corners[2] as Vertex, surface);
      return;
    }
    const kept: Vertex[] = [];
    corners.forEach((a, i) => {
      const b = corners[(i + 1) % corners.length] as Vertex;
      if (a.z >= near) kept.push(a);
      if (a.z >= near !== b.z >= near) kept.push(between(a, b, (near - a.z) / (b.z - a.z)));
    });
    for (let i = 1; i + 1 < kept.length; i++) {
      this.#triangle(kept[0] as Vertex, kept[i] as Vertex, kept[i + 1] as Vertex, surface);
    }
  }

  #triangle(a: Vertex, b: Vertex, c: Vertex, surface: Surface): void {
    const columns = this.#columns;
    const rows = this.#rows;
    const [across, up] = this.camera.spread;
    const [kx, ky] = [columns / 2 / across, rows / 2 / up];
    const [wa, wb, wc] = [1 / a.z, 1 / b.z, 1 / c.z];
    const [ax, bx, cx] = [columns / 2 + a.x * kx * wa, columns / 2 + b.x * kx * wb, columns / 2 + c.x * kx * wc];
    const [ay, by, cy] = [rows / 2 - a.y * ky * wa, rows / 2 - b.y * ky * wb, rows / 2 - c.y * ky * wc];
    // Twice the signed area; rows run down, so outside faces that are seen have a negative one.
    const area = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay);
    if (area === 0 || (area > 0 && surface.doubleSided !== true)) return;
    const top = Math.max(0, Math.ceil(Math.min(ay, by, cy) - 0.5));
    const bottom = Math.min(rows, Math.ceil(Math.max(ay, by, cy) - 0.5));
    if (top >= bottom || Math.max(ax, bx, cx) <= 0 || Math.min(ax, bx, cx) >= columns) return;
    const fill = this.#filler(a, b, c, surface, area > 0);
    // Weights of b and c are linear on the screen: w = wx·x + wy·y + w0.
    const inverse = 1 / area;
    const bWx = (cy - ay) * inverse;
    const bWy = -(cx - ax) * inverse;
    const cWx = -(by - ay) * inverse;
    const cWy = (bx - ax) * inverse;
    const depthX = (wb - wa) * bWx + (wc - wa) * cWx;
    for (let row = top; row < bottom; row++) {
      const y = row + 0.5;
      let left = Infinity;
      let right = -Infinity;
      const cross = (px: number, py: number, qx: number, qy: number) => {
        if (py <= y === qy <= y) return;
        // From the upper end, so that both owners of an edge compute the same number.
        const x = py < qy ? px + ((y - py) * (qx - px)) / (qy - py) : qx + ((y - qy) * (px - qx)) / (py - qy);
        if (x < left) left = x;
        if (x > right) right = x;
      };
      cross(ax, ay, bx, by);
      cross(bx, by, cx, cy);
      cross(cx, cy, ax, ay);
      const from = Math.max(0, Math.ceil(left - 0.5));
      const to = Math.min(columns, Math.ceil(right - 0.5));
      if (from >= to) continue;
      const [dx, dy] = [from + 0.5 - ax, y - ay];
      const weightB = dx * bWx + dy * bWy;
      const weightC = dx * cWx + dy * cWy;
      fill(row, from, to, weightB, weightC, bWx, cWx, wa + (wb - wa) * weightB + (wc - wa) * weightC, depthX, [
        wa,
        wb,
        wc,
      ]);
    }
  }

  /** How a triangle's spans are painted: textures as they are, or colours in the light. */
  #filler(a: Vertex, b: Vertex, c: Vertex, surface: Surface, back: boolean): Span {
    const { texture } = surface;
    if (surface.unlit === true)
      return texture === undefined ? this.#flat(surface.color) : this.#textured(a, b, c, texture);
    const flat = a.nx === b.nx && a.ny === b.ny && a.nz === b.nz && a.nx === c.nx && a.ny === c.ny && a.nz === c.nz;
    const side = back ? -1 : 1;
    if (flat && texture === undefined)
      return this.#flat(this.#lit(surface, surface.color, [a.nx * side, a.ny * side, a.nz * side]));
    return this.shading === "lambert" && texture === undefined
      ? this.#smooth(a, b, c, surface, side)
      : this.#shaded(a, b, c, surface, side);
  }

  /** `#shaded` for plain colours in plain light, number for number, without a list for every pixel. */
  #smooth(a: Vertex, b: Vertex, c: Vertex, { color: [red, green, blue] }: Surface, side: number): Span {
    const pixels = this.#color;
    const depths = this.#depth;
    const [lx, ly, lz] = this.#toLight;
    const { intensity, ambient } = this.light;
    return (row, from, to, weightB, weightC, bX, cX, depth, depthX, [wa, wb, wc]) => {
      let [sB, sC, nearness] = [weightB, weightC, depth];
      const end = row * this.#columns + to;
      for (let i = row * this.#columns + from; i < end; i++, sB += bX, sC += cX, nearness += depthX) {
        if (nearness <= (depths[i] as number)) continue;
        depths[i] = nearness;
        const z = 1 / nearness;
        const kb = sB * wb * z;
        const kc = sC * wc * z;
        const ka = (1 - sB - sC) * wa * z;
        const nx = side * (a.nx * ka + b.nx * kb + c.nx * kc);
        const ny = side * (a.ny * ka + b.ny * kb + c.ny * kc);
        const nz = side * (a.nz * ka + b.nz * kb + c.nz * kc);
        const length = Math.sqrt(nx * nx + ny * ny + nz * nz);
        const one = length > 0 ? 1 / length : 1;
        const facing = Math.max(0, nx * one * lx + ny * one * ly + nz * one * lz);
        const strength = ambient + intensity * facing;
        pixels[i * 3] = Math.min(255, red * strength + 0.5);
        pixels[i * 3 + 1] = Math.min(255, green * strength + 0.5);
        pixels[i * 3 + 2] = Math.min(255, blue * strength + 0.5);
      }
    };
  }

  #flat(color: Vec3): Span {
    const [red, green, blue] = color.map((value) => Math.round(Math.max(0, Math.min(255, value)))) as [
      number,
      number,
      number,
    ];
    const pixels = this.#color;
    const depths = this.#depth;
    return (row, from, to, _b, _c, _dB, _dC, depth, depthX) => {
      let nearness = depth;
      for (let i = row * this.#columns + from, end = row * this.#columns + to; i < end; i++, nearness += depthX) {
        if (nearness <= (depths[i] as number)) continue;
        depths[i] = nearness;
        pixels[i * 3] = red;
        pixels[i * 3 + 1] = green;
        pixels[i * 3 + 2] = blue;
      }
    };
  }

  #textured(a: Vertex, b: Vertex, c: Vertex, { width, height, data }: Texture): Span {
    // Sides that are powers of two, as most are, wrap without a division.
    const masked = (width & (width - 1)) === 0 && (height & (height - 1)) === 0;
    const pixels = this.#color;
    const depths = this.#depth;
    return (row, from, to, weightB, weightC, bX, cX, depth, depthX, [wa, wb, wc]) => {
      // u/z and v/z are linear on the screen, and so is 1/z.
      const [ua, ub, uc] = [a.u * width * wa, b.u * width * wb, c.u * width * wc];
      const [va, vb, vc] = [a.v * height * wa, b.v * height * wb, c.v * height * wc];
      let u = ua + (ub - ua) * weightB + (uc - ua) * weightC;
      let v = va + (vb - va) * weightB + (vc - va) * weightC;
      const uX = (ub - ua) * bX + (uc - ua) * cX;
      const vX = (vb - va) * bX + (vc - va) * cX;
      let nearness = depth;
      for (let i = row * this.#columns + from, end = row * this.#columns + to; i < end; i++) {
        if (nearness > (depths[i] as number)) {
          depths[i] = nearness;
          const z = 1 / nearness;
          let [column, line] = [Math.floor(u * z), Math.floor(v * z)];
          if (masked) {
            column &= width - 1;
            line &= height - 1;
          } else {
            column %= width;
            if (column < 0) column += width;
            line %= height;
            if (line < 0) line += height;
          }
          const texel = (line * width + column) * 3;
          pixels[i * 3] = data[texel] as number;
          pixels[i * 3 + 1] = data[texel + 1] as number;
          pixels[i * 3 + 2] = data[texel + 2] as number;
        }
        u += uX;
        v += vX;
        nearness += depthX;
      }
    };
  }

  #shaded(a: Vertex, b: Vertex, c: Vertex, surface: Surface, side: number): Span {
    const pixels = this.#color;
    const depths = this.#depth;
    const { texture } = surface;
    const mixed = (pa: number, pb: number, pc: number, kb: number, kc: number, ka: number) =>
      pa * ka + pb * kb + pc * kc;
    return (row, from, to, weightB, weightC, bX, cX, depth, depthX, [wa, wb, wc]) => {
      let [sB, sC, nearness] = [weightB, weightC, depth];
      for (
        let i = row * this.#columns + from, end = row * this.#columns + to;
        i < end;
        i++, sB += bX, sC += cX, nearness += depthX
      ) {
        if (nearness <= (depths[i] as number)) continue;
        depths[i] = nearness;
        const z = 1 / nearness;
        const [kb, kc] = [sB * wb * z, sC * wc * z];
        const ka = (1 - sB - sC) * wa * z;
        const normal: Vec3 = [
          side * mixed(a.nx, b.nx, c.nx, kb, kc, ka),
          side * mixed(a.ny, b.ny, c.ny, kb, kc, ka),
          side * mixed(a.nz, b.nz, c.nz, kb, kc, ka),
        ];
        const base =
          texture === undefined
            ? surface.color
            : texel(texture, mixed(a.u, b.u, c.u, kb, kc, ka), mixed(a.v, b.v, c.v, kb, kc, ka), surface.color);
        const [red, green, blue] = this.#lit(surface, base, normalize(normal));
        pixels[i * 3] = Math.max(0, Math.min(255, red + 0.5));
        pixels[i * 3 + 1] = Math.max(0, Math.min(255, green + 0.5));
        pixels[i * 3 + 2] = Math.max(0, Math.min(255, blue + 0.5));
      }
    };
  }

  /** The colour of a surface with this normal in the light. */
  #lit(surface: Surface, base: Vec3, normal: Vec3): Vec3 {
    const { intensity, ambient } = this.light;
    const toLight = this.#toLight;
    const facing = Math.max(0, normal[0] * toLight[0] + normal[1] * toLight[1] + normal[2] * toLight[2]);
    if (this.shading === "lambert") {
      const strength = ambient + intensity * facing;
      return [base[0] * strength, base[1] * strength, base[2] * strength];
    }
    const view = this.camera.view[2];
    const { metallic = 0.2, roughness = 0.8 } = surface;
    const towards = Math.max(1e-3, normal[0] * view[0] + normal[1] * view[1] + normal[2] * view[2]);
    const half = this.#half;
    const nh = Math.max(0, normal[0] * half[0] + normal[1] * half[1] + normal[2] * half[2]);
    const vh = Math.max(0, view[0] * half[0] + view[1] * half[1] + view[2] * half[2]);
    const alpha = roughness * roughness;
    const spread = nh * nh * (alpha * alpha - 1) + 1;
    const distribution = (alpha * alpha) / (Math.PI * spread * spread);
    const k = alpha / 2;
    const masking = (facing / (facing * (1 - k) + k)) * (towards / (towards * (1 - k) + k));
    const fresnel = (1 - vh) * (1 - vh) * (1 - vh) * (1 - vh) * (1 - vh);
    const channel = (value: number) => {
      const color = LINEAR[Math.max(0, Math.min(255, Math.round(value)))] as number;
      const mirror = 0.04 + (color - 0.04) * metallic;
      const glance = mirror + (1 - mirror) * fresnel;
      const diffuse = ((1 - glance) * color * (1 - metallic)) / Math.PI;
      const specular = facing > 0 ? (distribution * masking * glance) / (4 * facing * towards) : 0;
      const light = ambient * color + intensity * facing * (diffuse + specular);
      return GAMMA[Math.max(0, Math.min(1023, Math.round(light * 1023)))] as number;
    };
    return [channel(base[0]), channel(base[1]), channel(base[2])];
  }

  /** A line between two points of the world, `thickness` pixels wide, hidden by what is clearly nearer. */
  line(from: Vec3, to: Vec3, color: Vec3, thickness = 1): void {
    const { eye, view, spread, near } = this.camera;
    const place = (p: Vec3) => {
      const [x, y, z] = apply(view, subtract(p, eye));
      return [x, y, -z] as const;
    };
    let [a, b] = [place(from), place(to)];
    if (a[2] < near && b[2] < near) return;
    const cut = (p: Vec3, q: Vec3): Vec3 => {
      const t = (near - p[2]) / (q[2] - p[2]);
      return [p[0] + (q[0] - p[0]) * t, p[1] + (q[1] - p[1]) * t, near];
    };
    if (a[2] < near) a = cut(a, b);
    if (b[2] < near) b = cut(b, a);
    const [kx, ky] = [this.#columns / 2 / spread[0], this.#rows / 2 / spread[1]];
    const [ax, ay] = [this.#columns / 2 + (a[0] * kx) / a[2], this.#rows / 2 - (a[1] * ky) / a[2]];
    const [bx, by] = [this.#columns / 2 + (b[0] * kx) / b[2], this.#rows / 2 - (b[1] * ky) / b[2]];
    const steps = Math.max(1, Math.ceil(Math.max(Math.abs(bx - ax), Math.abs(by - ay))));
    if (steps > 65536) return;
    const radius = (thickness * this.samples) / 2;
    for (let step = 0; step <= steps; step++) {
      const t = step / steps;
      // A little nearer than it is, so that the edges of a face are not hidden by the face.
      const nearness = (1 / a[2] + (1 / b[2] - 1 / a[2]) * t) * 1.002;
      this.#dot(ax + (bx - ax) * t, ay + (by - ay) * t, radius, nearness, color);
    }
  }

  #dot(x: number, y: number, radius: number, nearness: number, [red, green, blue]: Vec3): void {
    const columns = this.#columns;
    const [x0, x1] = [Math.max(0, Math.ceil(x - radius - 0.5)), Math.min(columns - 1, Math.floor(x + radius - 0.5))];
    const [y0, y1] = [Math.max(0, Math.ceil(y - radius - 0.5)), Math.min(this.#rows - 1, Math.floor(y + radius - 0.5))];
    for (let row = y0; row <= y1; row++) {
      for (let column = x0; column <= x1; column++) {
        const i = row * columns + column;
        if (nearness < (this.#depth[i] as number)) continue;
        this.#color[i * 3] = red;
        this.#color[i * 3 + 1] = green;
        this.#color[i * 3 + 2] = blue;
      }
    }
  }
}

/** Paints columns `from..to-1` of a row; weights of the second and third corner, and 1/z, at the first and per column. */
type Span = (
  row: number,
  from: number,
  to: number,
  weightB: number,
  weightC: number,
  stepB: number,
  stepC: number,
  depth: number,
  stepDepth: number,
  inverses: readonly [number, number, number],
) => void;

function between(a: Vertex, b: Vertex, t: number): Vertex {
  const at = (from: number, to: number) => from + (to - from) * t;
  return {
    x: at(a.x, b.x),
    y: at(a.y, b.y),
    z: at(a.z, b.z),
    nx: at(a.nx, b.nx),
    ny: at(a.ny, b.ny),
    nz: at(a.nz, b.nz),
    u: at(a.u, b.u),
    v: at(a.v, b.v),
  };
}

function texel({ width, height, data }: Texture, u: number, v: number, tint: Vec3): Vec3 {
  const column = Math.min(width - 1, Math.max(0, Math.floor((u - Math.floor(u)) * width)));
  const line = Math.min(height - 1, Math.max(0, Math.floor((v - Math.floor(v)) * height)));
  const i = (line * width + column) * 3;
  return [
    ((data[i] as number) * tint[0]) / 255,
    ((data[i + 1] as number) * tint[1]) / 255,
    ((data[i + 2] as number) * tint[2]) / 255,
  ];
}

/** Bytes to linear light, and linear light in 1024 steps to bytes. */
const LINEAR = Float64Array.from({ length: 256 }, (_, i) => pow(i / 255, 2.2));
const GAMMA = Float64Array.from({ length: 1024 }, (_, i) => 255 * pow(i / 1023, 1 / 2.2));
