/** Made by the build (vite.config.ts). */
declare module "virtual:kernels" {
  /** The WebAssembly kernels, base64. */
  const kernels: string;
  export default kernels;
}
declare module "virtual:worker" {
  /** The script of the workers. */
  const script: string;
  export default script;
}
