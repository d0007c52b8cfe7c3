import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Document, NodeIO } from "@gltf-transform/core";
import { describe, expect, test } from "vitest";
import { DataError, Image } from "../../../src/core/index.ts";
import { encodePng } from "../../../src/images/index.ts";
import {
  angleOf,
  axisAngle,
  box,
  cylinder,
  IDENTITY,
  loadModel,
  lookAt,
  type Mat3,
  type Mesh,
  meshOf,
  multiply,
  painted,
  Renderer,
  sphere,
  thin,
  torus,
  transpose,
  turnAbout,
  turnX,
  turnY,
  turnZ,
  type Vec3,
} from "./index.ts";

const front = lookAt([0, 0, 4], [0, 0, 0], 60, 1);
const unlit = (mesh: Mesh, color: Vec3): Mesh => painted(mesh, { color, unlit: true });
const pixel = (image: Image, x: number, y: number) => [
  ...image.data.subarray((y * image.width + x) * 3).subarray(0, 3),
];
const square = (z: number, half = 1) =>
  meshOf(
    [-half, -half, z, half, -half, z, half, half, z, -half, half, z],
    [0, 1, 2, 0, 2, 3],
    undefined,
    [0, 1, 1, 1, 1, 0, 0, 0],
  );

describe("rotations", () => {
  test("axis and angle make the rotation again, also for half a turn and none", () => {
    const turns: Mat3[] = [
      IDENTITY,
      turnX(Math.PI),
      turnAbout([1, 1, 0], Math.PI),
      multiply(turnZ(1), multiply(turnY(2), turnX(-0.5))),
    ];
    for (const turn of turns) {
      const { axis, angle } = axisAngle(turn);
      const again = turnAbout(axis, angle);
      for (const [i, row] of turn.entries())
        for (const [k, value] of row.entries()) expect(again[i]![k]).toBeCloseTo(value, 7);
    }
    expect(angleOf(multiply(turnY(0.7), transpose(turnY(0.2))))).toBeCloseTo(0.5, 12);
  });
});

describe("the renderer", () => {
  test("a scene has the recorded bytes on every machine", () => {
    const renderer = new Renderer(48, 48, lookAt([1, 1.2, 3], [0, 0, 0], 45, 1), 2);
    renderer.clear([255, 255, 255]);
    renderer.draw(painted(torus(0.8, 0.3), [200, 80, 60]), { rotation: turnX(0.6), shift: [0, 0, 0] });
    renderer.draw(painted(cylinder(0.3, 0.1, 1.6), [60, 120, 200]));
    renderer.line([-1, -1, 0], [1, 1, 0.5], [0, 0, 0], 1);
    const lambert = renderer.toImage().hash;
    renderer.shading = "physical";
    renderer.light = { direction: [0, 0, 1], intensity: 2, ambient: 0.25 };
    renderer.clear([255, 255, 255]);
    renderer.draw(painted(sphere(1), [200, 180, 60]));
    expect([lambert, renderer.toImage().hash]).toEqual(RECORDED);
  });

  test("triangles that share an edge leave no gap and no doubled pixel, however they are turned", () => {
    for (let i = 0; i < 60; i++) {
      const renderer = new Renderer(40, 40, front, 1);
      const rotation = turnZ(i * 0.37);
      renderer.clear([0, 0, 0]);
      renderer.draw(unlit(square(0, 2.2), [255, 255, 255]), { rotation, shift: [0, 0, 0] });
      const image = renderer.toImage();
      // The middle is covered by both triangles; a gap along their common edge would be black.
      for (let y = 10; y < 30; y++) for (let x = 10; x < 30; x++) expect(pixel(image, x, y)).toEqual([255, 255, 255]);
    }
  });

  test("the nearer surface is seen, in whichever order they are drawn", () => {
    const [near, far] = [unlit(square(1, 0.5), [255, 0, 0]), unlit(square(-1, 2), [0, 0, 255])];
    const images = [
      [near, far],
      [far, near],
    ].map((order) => {
      const renderer = new Renderer(32, 32, front, 2);
      renderer.clear([0, 0, 0]);
      for (const mesh of order) renderer.draw(mesh);
      return renderer.toImage();
    });
    expect(images[0]?.hash).toBe(images[1]?.hash);
    expect(pixel(images[0] as Image, 16, 16)).toEqual([255, 0, 0]);
    expect(pixel(images[0] as Image, 9, 16)).toEqual([0, 0, 255]);
  });

  test("a texture on a floor shrinks with distance: its middle line is nearer to the horizon than to the eye", () => {
    const texture = { width: 1, height: 2, data: Uint8Array.from([255, 0, 0, 0, 255, 0]) };
    const floor = meshOf(
      [-5, -1, -9, 5, -1, -9, 5, -1, 3, -5, -1, 3],
      [0, 2, 1, 0, 3, 2],
      undefined,
      [0, 0, 1, 0, 1, 1, 0, 1],
    );
    const renderer = new Renderer(64, 64, front, 1);
    renderer.clear([0, 0, 0]);
    renderer.draw(painted(floor, { color: [255, 255, 255], texture, unlit: true }));
    const image = renderer.toImage();
    const column = Array.from({ length: 64 }, (_, y) => pixel(image, 32, y).join());
    const [red, green] = [
      column.filter((color) => color === "255,0,0").length,
      column.filter((color) => color === "0,255,0").length,
    ];
    expect(red).toBeGreaterThan(1);
    // In perspective the near half of the floor fills most of the rows; a flat mapping would halve them.
    expect(green).toBeGreaterThan(red * 4);
  });

  test("what reaches behind the eye is cut at the near plane", () => {
    const renderer = new Renderer(32, 32, front, 1);
    renderer.clear([0, 0, 0]);
    renderer.draw(unlit(meshOf([-3, -1, -9, 3, -1, -9, 0, -1, 30], [0, 2, 1]), [255, 255, 255]));
    const image = renderer.toImage();
    expect(pixel(image, 16, 31)).toEqual([255, 255, 255]);
    expect(pixel(image, 16, 2)).toEqual([0, 0, 0]);
  });

  test("backs are not drawn unless the surface has two sides", () => {
    const renderer = new Renderer(16, 16, front, 1);
    const back = { rotation: turnY(Math.PI), shift: [0, 0, 0] as Vec3 };
    renderer.clear([0, 0, 0]);
    renderer.draw(unlit(square(0), [255, 255, 255]), back);
    expect(pixel(renderer.toImage(), 8, 8)).toEqual([0, 0, 0]);
    renderer.draw(painted(square(0), { color: [9, 9, 9], unlit: true, doubleSided: true }), back);
    expect(pixel(renderer.toImage(), 8, 8)).toEqual([9, 9, 9]);
  });

  test("light falls off as a sphere turns away, smoothly", () => {
    const renderer = new Renderer(64, 64, front, 1);
    renderer.light = { direction: [-1, 0, 0], intensity: 1, ambient: 0.1 };
    renderer.clear([0, 0, 0]);
    renderer.draw(painted(sphere(1.5, 48), [200, 200, 200]));
    const image = renderer.toImage();
    const row = Array.from({ length: 64 }, (_, x) => pixel(image, x, 32)[0] as number).filter((value) => value > 0);
    expect(row[1]!).toBeGreaterThan(row[20]!);
    expect(row[20]!).toBeGreaterThan(row.at(-2)!);
    for (let i = 2; i < row.length - 1; i++) expect(Math.abs(row[i]! - row[i - 1]!)).toBeLessThan(40);
  });

  test("lines are hidden behind surfaces and drawn on their faces", () => {
    const renderer = new Renderer(32, 32, front, 1);
    renderer.clear([0, 0, 0]);
    renderer.draw(unlit(square(0), [255, 255, 255]));
    renderer.line([-2, 0, -0.5], [2, 0, -0.5], [255, 0, 0]);
    renderer.line([0, -2, 0], [0, 2, 0], [0, 255, 0]);
    const image = renderer.toImage();
    expect(pixel(image, 12, 16)).toEqual([255, 255, 255]);
    expect(pixel(image, 4, 16)).toEqual([255, 0, 0]);
    expect(pixel(image, 16, 12)).toEqual([0, 255, 0]);
  });
});

describe("glTF", () => {
  async function writeModel(): Promise<string> {
    const document = new Document();
    const buffer = document.createBuffer();
    const { positions, triangles, uvs } = box(1, 1, 1);
    const accessor = (type: "VEC3" | "VEC2" | "SCALAR", array: Float32Array | Uint16Array) =>
      document
        .createAccessor()
        .setType(type)
        .setArray(array as Float32Array<ArrayBuffer>)
        .setBuffer(buffer);
    const picture = new Image(2, 2, Uint8Array.from([255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255]));
    const texture = document
      .createTexture()
      .setImage(Uint8Array.from(encodePng(picture)))
      .setMimeType("image/png");
    const material = document
      .createMaterial()
      .setBaseColorTexture(texture)
      .setBaseColorFactor([0.5, 1, 1, 1])
      .setMetallicFactor(0.1);
    const primitive = document
      .createPrimitive()
      .setAttribute("POSITION", accessor("VEC3", Float32Array.from(positions)))
      .setAttribute("TEXCOORD_0", accessor("VEC2", Float32Array.from(uvs as Float64Array)))
      .setIndices(accessor("SCALAR", Uint16Array.from(triangles)))
      .setMaterial(material);
    const node = document.createNode().setMesh(document.createMesh().addPrimitive(primitive)).setTranslation([5, 0, 0]);
    document.createScene().addChild(document.createNode().addChild(node).setScale([2, 2, 2]));
    const file = join(mkdtempSync(join(tmpdir(), "saccade-gltf-")), "box.glb");
    writeFileSync(file, await new NodeIO().writeBinary(document));
    return file;
  }

  test("a GLB comes with its places, colours and textures", async () => {
    const [mesh, ...rest] = await loadModel(await writeModel());
    expect(rest).toEqual([]);
    expect(mesh?.triangles.length).toBe(36);
    expect(Math.min(...(mesh?.positions ?? []).filter((_, i) => i % 3 === 0))).toBe(9);
    expect(mesh?.surface.texture).toMatchObject({ width: 2, height: 2 });
    expect(mesh?.surface.metallic).toBeCloseTo(0.1);
    // Linear 0.5 is 186 on a display.
    expect(mesh?.surface.color[0]).toBeCloseTo(186, 0);
  });

  test("a model beyond the budget is thinned and keeps its shape", async () => {
    const round = sphere(1, 60);
    const [few] = await thin([round], 300);
    const count = (few as Mesh).triangles.length / 3;
    expect(count).toBeLessThanOrEqual(300);
    expect(count).toBeGreaterThan(100);
    expect(await thin([round], 1e6)).toEqual([round]);
  });

  test("what is no model is refused with what to do", async () => {
    const file = join(mkdtempSync(join(tmpdir(), "saccade-gltf-")), "bad.glb");
    writeFileSync(file, "not a model");
    await expect(loadModel(file)).rejects.toThrow(DataError);
    await expect(loadModel(file)).rejects.toThrow("GLB");
  });
});

const RECORDED: readonly string[] = ["9783622a4140680871fc3c015a2feae7", "eed9313bee786023e153580e4662fb51"];
