/**
 * glTF and GLB files to meshes, through `@gltf-transform/core`, with `meshoptimizer` to thin out what has too many triangles.
 * Both are loaded when a file is first read. Base colours, textures and metal are kept, vertex colours as their mean; what
 * else a file holds (animations, lights, skins) is left out. Colours of materials are linear in glTF, ours are a display's.
 */

import { DataError, exact } from "../../../src/core/index.ts";
import { decodeImage } from "../../../src/images/index.ts";
import { type Mesh, type Surface, smoothNormals, type Texture } from "./mesh.ts";

const { pow } = exact;

type Gltf = typeof import("@gltf-transform/core");
type Primitive = import("@gltf-transform/core").Primitive;
type Material = import("@gltf-transform/core").Material;
type Matrix = readonly number[];

/** The meshes of a file, in the places its scene gives them; with `budget`, at most about that many triangles. */
export async function loadModel(file: string, budget?: number): Promise<Mesh[]> {
  const { NodeIO } = await import("@gltf-transform/core");
  let document: InstanceType<Gltf["Document"]>;
  try {
    document = await new NodeIO().read(file);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new DataError(
      `${file} can't be read as glTF (${reason}): export it again as plain GLB, without compression.`,
    );
  }
  const root = document.getRoot();
  const scene = root.getDefaultScene() ?? root.listScenes()[0];
  const textures = new Map<unknown, Promise<Texture | undefined>>();
  const meshes: Mesh[] = [];
  for (const node of scene === undefined ? root.listNodes() : nodesUnder(scene)) {
    for (const primitive of node.getMesh()?.listPrimitives() ?? []) {
      const mesh = await meshOfPrimitive(primitive, node.getWorldMatrix(), textures);
      if (mesh !== undefined) meshes.push(mesh);
    }
  }
  if (meshes.length === 0) throw new DataError(`${file} holds no triangles: export meshes, not curves or points.`);
  return budget === undefined ? meshes : thin(meshes, budget);
}

function nodesUnder(scene: import("@gltf-transform/core").Scene): import("@gltf-transform/core").Node[] {
  const nodes: import("@gltf-transform/core").Node[] = [];
  scene.traverse((node) => nodes.push(node));
  return nodes;
}

async function meshOfPrimitive(
  primitive: Primitive,
  matrix: Matrix,
  textures: Map<unknown, Promise<Texture | undefined>>,
): Promise<Mesh | undefined> {
  const points = primitive.getAttribute("POSITION");
  if (points === null || primitive.getMode() !== 4) return undefined;
  const count = points.getCount();
  const indices = primitive.getIndices()?.getArray();
  const triangles = indices ? Uint32Array.from(indices) : Uint32Array.from({ length: count }, (_, i) => i);
  const positions = new Float64Array(count * 3);
  const element: number[] = [];
  for (let i = 0; i < count; i++) positions.set(through(matrix, points.getElement(i, element)), i * 3);
  const given = primitive.getAttribute("NORMAL");
  const normals = given === null ? smoothNormals(positions, triangles) : new Float64Array(count * 3);
  if (given !== null) {
    for (let i = 0; i < count; i++) {
      const [x = 0, y = 0, z = 0] = given.getElement(i, element);
      const origin = through(matrix, [0, 0, 0]);
      const tip = through(matrix, [x, y, z]);
      const [dx, dy, dz] = [tip[0] - origin[0], tip[1] - origin[1], tip[2] - origin[2]];
      const length = Math.sqrt(dx * dx + dy * dy + dz * dz) || 1;
      normals.set([dx / length, dy / length, dz / length], i * 3);
    }
  }
  const coordinates = primitive.getAttribute("TEXCOORD_0");
  let uvs: Float64Array | undefined;
  if (coordinates !== null) {
    uvs = new Float64Array(count * 2);
    for (let i = 0; i < count; i++) uvs.set(coordinates.getElement(i, element).slice(0, 2), i * 2);
  }
  const surface = await surfaceOf(primitive, textures);
  return { positions, normals, triangles, surface, ...(uvs === undefined ? {} : { uvs }) };
}

/** glTF's matrices are column by column. */
function through(m: Matrix, [x = 0, y = 0, z = 0]: readonly number[]): [number, number, number] {
  const row = (k: number) =>
    (m[k] as number) * x + (m[k + 4] as number) * y + (m[k + 8] as number) * z + (m[k + 12] as number);
  return [row(0), row(1), row(2)];
}

async function surfaceOf(primitive: Primitive, textures: Map<unknown, Promise<Texture | undefined>>): Promise<Surface> {
  const material = primitive.getMaterial();
  const [red = 1, green = 1, blue = 1] = material?.getBaseColorFactor() ?? [0.3, 0.3, 0.3];
  const [r, g, b] = meanColor(primitive);
  const shown = (linear: number) => 255 * pow(Math.max(0, Math.min(1, linear)), 1 / 2.2);
  const texture = material === null ? undefined : await textureOf(material, textures);
  return {
    color: [shown(red * r), shown(green * g), shown(blue * b)],
    ...(texture === undefined ? {} : { texture }),
    doubleSided: material?.getDoubleSided() ?? false,
    metallic: material?.getMetallicFactor() ?? 0.2,
    roughness: material?.getRoughnessFactor() ?? 0.8,
  };
}

function meanColor(primitive: Primitive): readonly [number, number, number] {
  const colors = primitive.getAttribute("COLOR_0");
  if (colors === null || colors.getCount() === 0) return [1, 1, 1];
  const sum: [number, number, number] = [0, 0, 0];
  for (let i = 0; i < colors.getCount(); i++) {
    const [r = 0, g = 0, b = 0] = colors.getElement(i, []);
    sum[0] += r;
    sum[1] += g;
    sum[2] += b;
  }
  return [sum[0] / colors.getCount(), sum[1] / colors.getCount(), sum[2] / colors.getCount()];
}

function textureOf(
  material: Material,
  textures: Map<unknown, Promise<Texture | undefined>>,
): Promise<Texture | undefined> | undefined {
  const texture = material.getBaseColorTexture();
  const bytes = texture?.getImage();
  if (texture === null || !bytes) return undefined;
  let decoded = textures.get(texture);
  if (decoded === undefined) {
    decoded = decodeImage(bytes);
    textures.set(texture, decoded);
  }
  return decoded;
}

/**
 * At most about `budget` triangles, each mesh losing its share. A mesh that loses any loses its texture too and becomes
 * plain grey, as in VisGym, where the same budget holds.
 */
export async function thin(meshes: readonly Mesh[], budget: number): Promise<Mesh[]> {
  const total = meshes.reduce((sum, mesh) => sum + mesh.triangles.length / 3, 0);
  if (total <= budget) return [...meshes];
  const { MeshoptSimplifier } = await import("meshoptimizer");
  await MeshoptSimplifier.ready;
  return meshes.map((mesh) => {
    const count = mesh.triangles.length / 3;
    if (count <= 8) return mesh;
    const target = Math.max(4, Math.min(count - 1, Math.ceil((count * budget) / total)));
    const positions = Float32Array.from(mesh.positions);
    const [triangles] = MeshoptSimplifier.simplify(mesh.triangles, positions, 3, target * 3, 1e9, ["Permissive"]);
    const surface: Surface = { color: [147, 147, 147], doubleSided: mesh.surface.doubleSided ?? false };
    return { positions: mesh.positions, triangles, normals: smoothNormals(mesh.positions, triangles), surface };
  });
}
