/** What two runs compare when they should have made the same model: SHA-256 over its weights, whatever lies beside them. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";

/** The optimizer's, which a checkpoint may keep with its weights. */
const MOMENTS = "optimizer.safetensors";

export async function weightsHash(folder: string): Promise<string> {
  const hash = createHash("sha256");
  const names = (await readdir(folder)).filter((name) => name.endsWith(".safetensors") && name !== MOMENTS).sort();
  for (const name of names)
    for await (const chunk of createReadStream(join(folder, name))) hash.update(chunk as Buffer);
  return hash.digest("hex");
}
