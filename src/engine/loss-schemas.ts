/**
 * The constants of every loss that engines know. Bounds are on the ratio itself. What is usual is the default where a recipe names a loss and
 * leaves constants out; an engine itself fills nothing in (`checkLoss`). An entropy bonus fits every policy loss.
 */
import { z } from "zod";
import type { CustomLoss } from "./engine.ts";
import { NO_OPTIONS } from "./options.ts";

const ENCLOSE = "clipLow and clipHigh bound the ratio itself and must enclose 1, such as 0.8 and 1.28";
const bound = (low: number, high: number, usual: number) =>
  z.number().min(low, ENCLOSE).max(high, ENCLOSE).default(usual);
/** `clipLow` and `clipHigh` with what is usual for them. */
export const bounds = (low: number, high: number) => ({
  clipLow: bound(0, 1, low),
  clipHigh: bound(1, Number.MAX_VALUE, high),
});
const entropy = z.number().optional();

/** The constants of each policy loss, with what is usual: PPO's upper bound is DAPO's, GSPO's ratio is a mean over a sequence and moves little. */
export const POLICY_LOSSES = {
  "importance-sampling": z.strictObject({ entropy }),
  ppo: z.strictObject({
    ...bounds(0.8, 1.28),
    dualClip: z.number().gt(1, "must be above 1 (3 is usual)").optional(),
    entropy,
  }),
  cispo: z.strictObject({ ...bounds(0, 5), entropy }),
  gspo: z.strictObject({ ...bounds(0.9997, 1.0004), entropy }),
  dro: z.strictObject({ beta: z.number().min(0).default(0.05), entropy }),
} as const;

const kl = z.strictObject({ coefficient: z.number(), estimator: z.enum(["k1", "k2", "k3"]) }).optional();
const compute = z.custom<CustomLoss>(
  (value) => typeof value === "function",
  "must be a function from sequences to a loss and gradients",
);

/** What an engine takes, by name: the same with KL to the reference, and the losses that are no policy's. */
export const LOSS_SCHEMAS: Readonly<Record<string, z.ZodObject>> = {
  "cross-entropy": NO_OPTIONS,
  value: z.strictObject({ clip: z.number().positive("must be above 0; leave it out for no clipping").optional() }),
  custom: z.strictObject({ compute }),
  ...Object.fromEntries(Object.entries(POLICY_LOSSES).map(([name, schema]) => [name, schema.extend({ kl })])),
};
