/** For tests: the server that is assailed, in a process of its own. Says its address, then collects garbage when asked to. */
import "../../worlds/register.ts";
import { serveTiny } from "./test-serve.ts";

// Few images are kept, so that what is kept is soon full and what leaks shows.
const served = await serveTiny({
  environments: { names: ["frozen_lake"], idleSeconds: 2 },
  frameBytes: 8 * 1024 * 1024,
});
process.on("message", () => {
  (globalThis as { gc?: () => void }).gc?.();
  process.send?.("collected");
});
process.on("disconnect", () => process.exit());
process.send?.(served.url);
