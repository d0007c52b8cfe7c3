/** A software renderer for triangles, meshes to give it, and glTF files. */
export { loadModel, thin } from "./gltf.ts";
export * from "./matrix.ts";
export * from "./mesh.ts";
export { type Light, Renderer, type Shading } from "./renderer.ts";
