/** What a program's episode earned, in the forms that a program may say it in: a number, parts, or parts with success, from code or as JSON. */
import { EnvError } from "../core/errors.ts";
import { isJsonObject } from "../core/json.ts";
import { given } from "../core/words.ts";
import { checkRewards } from "./contract.ts";
import { type Earned, type EarnedPart, sumRewards } from "./env.ts";

/** 1 or more is a success, unless it says otherwise. */
export type Reward =
  | number
  | readonly EarnedPart[]
  | { readonly reward: number; readonly success?: boolean }
  | { readonly rewards: readonly EarnedPart[]; readonly success?: boolean };

const WANTED = "a number, parts such as [{ name, value }], or { reward, success }";

export function readEarned(value: unknown, by: string, where: string): Earned {
  if (typeof value === "number") return earned([{ name: "task", value }], undefined, by, where);
  if (Array.isArray(value)) return earned(value as EarnedPart[], undefined, by, where);
  if (isJsonObject(value)) {
    const { reward, rewards, success } = value;
    if (success !== undefined && success !== null && typeof success !== "boolean") {
      throw new EnvError(`${where}: success must be true or false; got ${given(success)}.`);
    }
    const solved = success ?? undefined;
    if (typeof reward === "number") return earned([{ name: "task", value: reward }], solved, by, where);
    if (Array.isArray(rewards)) return earned(rewards as unknown as EarnedPart[], solved, by, where);
  }
  const hint = typeof value === "boolean" ? " Write Number(…)." : "";
  const got = value === undefined ? "nothing" : given(value);
  throw new EnvError(`${where} gave no reward: it must be ${WANTED}; got ${got}.${hint}`);
}

function earned(parts: readonly EarnedPart[], success: boolean | undefined, by: string, where: string): Earned {
  checkRewards(
    parts.map((part) => part && { name: part.name, value: part.value }),
    "",
    where,
  );
  const odd = parts.findIndex(({ conversation: at = 0 }) => !Number.isSafeInteger(at) || at < 0);
  if (odd >= 0) {
    throw new EnvError(
      `${where}[${odd}].conversation must be the number of a conversation, from 0; got ${given(parts[odd]?.conversation)}.`,
    );
  }
  const rewards = parts.map(({ name, value, conversation }) => ({
    name,
    value,
    ...(conversation !== undefined && { conversation }),
  }));
  return { rewards, success: success ?? sumRewards(rewards) >= 1, by };
}
