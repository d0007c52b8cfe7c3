/** For tests: the server that is assailed, in a process of its own. Says its address, then collects garbage when asked to. */
import { serveTiny } from "./test-serve.ts";

const served = await serveTiny({ environments: { names: ["frozen_lake"], idleSeconds: 2 } });
process.on("message", () => {
  (globalThis as { gc?: () => void }).gc?.();
  process.send?.("collected");
});
process.on("disconnect", () => process.exit());
process.send?.(served.url);
