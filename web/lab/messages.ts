/** What the page of `/lab` and its worker say to each other. */

/** The sliders. A change of `size` needs a new agent; the others take effect with the next update. */
export type LabSettings = {
  /** Cells along a side of the lakes. */
  readonly size: number;
  /** Of the agent when it plays to learn. */
  readonly temperature: number;
  /** Of reinforcement learning; the warm start's is in proportion. */
  readonly learningRate: number;
};

export const SIZES = [3, 4, 5] as const;
export const DEFAULTS: LabSettings = { size: 4, temperature: 1, learningRate: 0.003 };

/** Lakes that are never trained on. */
export const HELD_OUT = { first: 1_000_000_000, count: 64 } as const;
/** How many of those are also played with grey frames, and how many are shown. */
export const GREY = 32;
export const SHOWN = 8;

/** Which part of learning is under way. */
export type Phase = "imitate" | "reinforce";

export type PlayedFrame = { readonly width: number; readonly height: number; readonly data: Uint8Array };

/** An episode on a held-out lake: what the agent saw, and what it said. */
export type PlayedLake = {
  readonly seed: number;
  readonly frames: readonly PlayedFrame[];
  readonly moves: readonly string[];
  readonly end: "goal" | "fell" | "out of turns";
};

export type LabEvent =
  | {
      readonly kind: "ready";
      readonly parameters: number;
      readonly threads: number;
      /** Success of random moves on the held-out lakes. */
      readonly random: number;
    }
  | {
      readonly kind: "update";
      readonly phase: Phase;
      /** Updates of the weights so far, both phases together. */
      readonly updates: number;
      readonly phaseUpdates: number;
      /** Episodes that the agent has seen or played so far. */
      readonly episodes: number;
      /** Loss of imitation, or the share of episodes that succeeded. */
      readonly loss?: number;
      readonly success?: number;
      readonly drift?: number;
    }
  | {
      readonly kind: "evaluation";
      readonly phase: Phase;
      readonly updates: number;
      readonly success: number;
      readonly low: number;
      readonly high: number;
      readonly grey: number;
      /** Nats by which its own frames make a reply likelier than those of another episode. */
      readonly gap: number;
      readonly lakes: readonly PlayedLake[];
    }
  | { readonly kind: "failed"; readonly message: string };

export type LabCommand =
  | { readonly kind: "start"; readonly settings: LabSettings; readonly seed: number; readonly threads?: number }
  | { readonly kind: "change"; readonly settings: Omit<LabSettings, "size"> }
  | { readonly kind: "pause" }
  | { readonly kind: "resume" };
