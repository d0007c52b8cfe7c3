/** Made by the build (vite.config.ts). */
declare module "virtual:kernels" {
  /** The WebAssembly kernels, base64. */
  const kernels: string;
  export default kernels;
}
