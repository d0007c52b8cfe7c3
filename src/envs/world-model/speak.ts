/**
 * True descriptions in varied words: what an oracle says it sees, and what it says it will see. A warm start on them teaches a model the language that rewards
 * for world modelling speak, without teaching it one phrase. `brief` is a few words a thing, for small models.
 */
import type { PromptStyle } from "../world.ts";
import type { Placed } from "./reader.ts";

type Draws = { integers(low: number, high: number): number };
type Tense = "now" | "next";

export function describePlaces(things: readonly Placed[], random: Draws, style: PromptStyle, tense: Tense): string {
  const pick = <T>(choices: readonly T[]): T => choices[random.integers(0, choices.length)] as T;
  const order = [...things];
  for (let i = order.length - 1; i > 0; i--) {
    const j = random.integers(0, i + 1);
    [order[i], order[j]] = [order[j] as Placed, order[i] as Placed];
  }
  if (style === "brief") return order.map((thing) => pick(brief(thing))).join(pick([", ", "; "]));
  const several = new Set(
    things.flatMap(({ kind }, i) => (things.findIndex((other) => other.kind === kind) < i ? [kind] : [])),
  );
  const verb = tense === "now" ? "is" : "will be";
  return order.map((thing) => pick(full(thing, several.has(thing.kind) ? "a" : "the", verb))).join(" ");
}

/** Every way of saying it in a few words. */
function brief({ kind, vertical = "same row", horizontal = "same column" }: Placed): string[] {
  if (vertical === "same row" && horizontal === "same column") return [`${kind} same cell`];
  return [`${kind} ${vertical} ${horizontal}`, `${kind} ${horizontal} ${vertical}`];
}

/** Every way of saying it in a sentence. */
function full(
  { kind, vertical = "same row", horizontal = "same column" }: Placed,
  article: string,
  verb: string,
): string[] {
  const thing = `${article} ${kind}`;
  const say = (...sentences: string[]) => sentences.map((text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`);
  const [row, column] = [vertical === "same row", horizontal === "same column"];
  if (row && column)
    return say(`${thing} ${verb} in the same cell as me`, `I ${verb === "is" ? "am" : "will be"} on ${thing}`);
  const side = `to the ${horizontal}`;
  if (row) {
    return say(
      `${thing} ${verb} in my row, ${side}`,
      `${side} of me in the same row ${verb} ${thing}`,
      `${thing} ${verb} directly ${side} of me`,
      `level with me and ${side} ${verb} ${thing}`,
    );
  }
  if (column) {
    return say(
      `${thing} ${verb} in my column, ${vertical}`,
      `straight ${vertical} me ${verb} ${thing}`,
      `${thing} ${verb} directly ${vertical} me`,
      `${vertical} me in the same column ${verb} ${thing}`,
    );
  }
  const other = vertical === "above" ? "below" : "above";
  const otherSide = horizontal === "left" ? "right" : "left";
  return say(
    `${thing} ${verb} ${vertical} and ${side} of me`,
    `${vertical} me and ${side} ${verb} ${thing}`,
    `${thing} ${verb} ${side} of me and further ${vertical === "above" ? "up" : "down"}`,
    `${side} and ${vertical} me ${verb} ${thing}`,
    `I ${verb === "is" ? "am" : "will be"} ${other} and to the ${otherSide} of ${thing}`,
  );
}
