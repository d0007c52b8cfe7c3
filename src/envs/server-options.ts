/** What every environment on somebody's server takes: the variable with the key, and a time limit. Keys never stand in a recipe. */
import { z } from "zod";

export const serverFields = {
  keyVariable: z.string().default("SACCADE_API_KEY").describe("Environment variable that holds the server's key."),
  timeoutMs: z
    .int()
    .min(1)
    .default(60_000)
    .describe("Time limit of one answer, in milliseconds, and of one attempt where there are several."),
};

export function serverKey({ keyVariable }: { readonly keyVariable: string }): string | undefined {
  return process.env[keyVariable] || undefined;
}
