/** One finding of `saccade check`: `bad` would make a run fail or its figures mislead, a `note` is for the author to judge. */
export type Finding = {
  readonly about: string;
  readonly verdict: "good" | "note" | "bad";
  readonly text: string;
  /** What to do about it. */
  readonly advice?: string;
};

export const good = (about: string, text: string): Finding => ({ about, verdict: "good", text });

export const note = (about: string, text: string, advice?: string): Finding => ({
  about,
  verdict: "note",
  text,
  ...(advice !== undefined && { advice }),
});

export const bad = (about: string, text: string, advice?: string): Finding => ({
  ...note(about, text, advice),
  verdict: "bad",
});
