/**
 * The form that descriptions take: how the prompt prescribes it, and how an oracle fills it. The reader (`reader.ts`) reads both back. `brief` leaves out what a small model can do without.
 */
import type { PromptStyle } from "../world.ts";
import type { Place, Placed, View } from "./view.ts";

/** `lines`: `box: above, left; target: …`. `json`: the same as an object. `free`: as the model likes, for a chat model to read. */
export const FORMS = ["lines", "json", "free"] as const;
export type Form = (typeof FORMS)[number];

/** True words. What is said freely is said in lines, too: it must be said somehow. */
export function describePlaces(things: readonly Placed[], view: View, form: Form, style: PromptStyle): string {
  const placed = things.map(({ kind, at }) => ({ kind, words: wordsAt(at, view) }));
  if (form === "json") {
    return JSON.stringify(placed.map(({ kind, words }) => ({ thing: kind, place: words })));
  }
  const brief = style === "brief";
  return placed.map(({ kind, words }) => `${kind}${brief ? " " : ": "}${words.join(brief ? " " : ", ")}`).join("; ");
}

const wordsAt = (at: Placed["at"], { axes }: View) =>
  axes.flatMap((words, axis) => {
    const place = at[axis];
    return place === undefined ? [] : [words[place]];
  });

const CELLS =
  "Or give the cell of each, and your own, as (row, column), both counted from 0 at the top left: player: (2, 1). ";

/** What the prompt says of the form of these tags. */
export function formInstruction(tags: readonly string[], view: View, form: Form, style: PromptStyle): string {
  const { things, axes, from, viewpoint, asked } = view;
  const kinds = Object.keys(things);
  const shown = kinds
    .slice(0, 2)
    .map((kind, i) => ({ kind, at: axes.map((_, axis) => ((i + i * axis) % 3) as Place) }));
  const example = describePlaces(shown, view, form, style);
  if (style === "brief") return `Describe like this: ${example}`;
  const [entry, name] =
    form === "json" ? ["object", "its name"] : ["entry, separated by semicolons,", "its name, a colon"];
  const eye = viewpoint === undefined ? `the ${from} (you)` : `the ${viewpoint}`;
  const words = axes.map((axis) => `${axis.slice(0, -1).join(", ")} or ${axis.at(-1)}`).join(", then ");
  return (
    `Write ${tags.map((tag) => `<${tag}>`).join(" and ")} in this form: ${example}\n` +
    `Give one ${entry} for ${asked ?? `every ${kinds.join(" and every ")}`}: ${name}, and where it is, seen from ${eye}: first ${words}. ` +
    (form === "lines" && view.legend ? CELLS : "") +
    "Use only these words there. You are paid for the share of things that you name, if every entry is true."
  );
}
