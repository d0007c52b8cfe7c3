/**
 * Env = World + Protocol + limits. Only here do images become messages and replies become actions: `WorldEnv` writes the first
 * prompt, counts turns, pays for task, format and descriptions, and writes the next message to the agent.
 */
import { EnvError } from "../core/errors.ts";
import { Image, isImage } from "../core/image.ts";
import { type Awaitable, isJsonObject, type Json } from "../core/json.ts";
import { image, type Message, type Part, text, user } from "../core/message.ts";
import { NumpyRandom } from "../core/random-numpy.ts";
import { checkSeed } from "../core/seed.ts";
import { extendTo, fitLongSide } from "../images/resize.ts";
import type { Action } from "./action.ts";
import { actionText, sampleAction } from "./args.ts";
import type { BuiltinAgent, Env, RewardPart, Step } from "./env.ts";
import type { FormatReward, ParsedReply, Protocol } from "./protocol.ts";
import type { Mark, Observation, ObservationMode, PromptStyle, World } from "./world.ts";
import { describePlaces, formInstruction } from "./world-model/speak.ts";
import { placedOf, type View } from "./world-model/view.ts";

/**
 * Rewards what a reply says (in its sections), in addition to its actions. It is called twice per turn, `before` the actions are played and `after`,
 * because a reply describes the first state and predicts the second.
 */
export type Scorer = (turn: {
  readonly when: "before" | "after";
  readonly reply: string;
  readonly parsed: ParsedReply;
  readonly world: World;
}) => Awaitable<readonly RewardPart[]>;

export type WorldEnvOptions = {
  readonly maxTurns: number;
  /** Tell the agent what its action did. A reply that could not be read always gets an answer. */
  readonly feedback: boolean;
  readonly observation: ObservationMode;
  /** Show an image of the solved state in the first message. */
  readonly finalGoal: boolean;
  /** Repeat the instructions in every turn. */
  readonly repeatInstructions: boolean;
  readonly prompt: PromptStyle;
  readonly formatReward: FormatReward;
  /** Show grey instead of every image, to measure what can be done blind. A control; never train with it. */
  readonly blindfold: boolean;
  /** Shrink images so that their long side has at most this many pixels. */
  readonly maxLongSide?: number;
  /** Extend images, to the right and below, to a multiple of this many pixels. */
  readonly frameMultiple?: number;
  readonly score?: Scorer;
  /** How descriptions of the world are written and read. */
  readonly view?: View;
};

type Random = { integers(low: number, high: number): number; random(): number };

/** How many steps of its plan an oracle names in a `justification`. */
const STEPS_SAID = 4;

export class WorldEnv implements Env {
  readonly world: World;
  readonly protocol: Protocol;
  readonly options: WorldEnvOptions;
  /** Whether the last step has an observation. Demonstrations do without: no model learns from it, and drawing a page takes longer than playing it. */
  seesEnd = true;
  #seed = 0;
  #turn = 0;
  #wellFormedTurns = 0;
  #phase: "new" | "playing" | "over" = "new";
  /** The share of the frame's width and height that the world drew; the rest was added to fill whole tokens. */
  #extent: readonly [number, number] = [1, 1];

  constructor(world: World, protocol: Protocol, options: WorldEnvOptions) {
    this.world = world;
    this.protocol = protocol;
    this.options = options;
  }

  /** Turns played in this episode. */
  get turn(): number {
    return this.#turn;
  }

  async reset(seed: number): Promise<Message[]> {
    checkSeed(seed);
    await this.world.reset(seed);
    this.#seed = seed;
    this.#turn = 0;
    this.#wellFormedTurns = 0;
    this.#phase = "playing";
    return this.#firstMessages();
  }

  async step(reply: string): Promise<Step> {
    if (this.#phase !== "playing") {
      throw new EnvError(
        this.#phase === "new" ? "Call reset(seed) before step()." : "The episode is over: call reset(seed).",
      );
    }
    const parsed = this.protocol.parse(reply, this.world.actions);
    const score = this.options.score;
    const said = [...((await score?.({ when: "before", reply, parsed, world: this.world })) ?? [])];
    const facts = async () => (this.protocol.says?.length ? this.world.facts?.() : undefined);
    const before = await facts();
    const played: Action[] = [];
    const marks: Mark[] = [];
    const feedback: string[] = [];
    let valid = parsed.actions.length > 0;
    let taskReward = 0;
    let terminated = false;
    let ending: string | undefined;
    for (const action of parsed.actions.slice(0, this.protocol.maxActions)) {
      const outcome = await this.world.act(action);
      played.push(action);
      if (outcome.mark !== undefined) marks.push(onFrame(outcome.mark, this.#extent));
      taskReward += outcome.reward;
      valid &&= outcome.valid;
      if (outcome.feedback !== undefined && this.options.feedback) feedback.push(outcome.feedback);
      if (outcome.ended) {
        terminated = true;
        ending = outcome.ending ?? outcome.feedback;
        break;
      }
    }
    if (parsed.problem !== undefined && !terminated) feedback.push(parsed.problem);

    this.#turn += 1;
    if (parsed.wellFormed) this.#wellFormedTurns += 1;
    const truncated = !terminated && this.#turn >= this.options.maxTurns;
    if (terminated || truncated) this.#phase = "over";
    said.push(...((await score?.({ when: "after", reply, parsed, world: this.world })) ?? []));
    const told = feedback.join(" ");
    return {
      observation: this.#phase === "over" && !this.seesEnd ? [] : [await this.#observationMessage(told, played)],
      rewards: [...this.#rewards(taskReward, parsed, played), ...said],
      terminated,
      truncated,
      success: terminated && (await this.world.success()),
      info: {
        ...(told === "" ? {} : { feedback: told }),
        ...(ending !== undefined && { ending }),
        actions: played,
        played: played.map((action) => this.#inWords(action)),
        ...(marks.length > 0 && { marks }),
        ...(parsed.span && played.length > 0 && { span: parsed.span }),
        ...(Object.keys(parsed.sections).length > 0 && { sections: parsed.sections }),
        ...(before && { facts: { before, after: (await facts()) ?? [] } }),
        parsed: parsed.actions.length > 0,
        wellFormed: parsed.wellFormed,
        valid,
      },
    };
  }

  /** Ends the episode early and returns the rewards that are still due. */
  truncate(): RewardPart[] {
    if (this.#phase !== "playing") return [];
    this.#phase = "over";
    return this.#closing();
  }

  async close(): Promise<void> {
    await this.world.close?.();
  }

  /** The oracle's reply: as much of the world's plan as fits into one turn. */
  async oracleReply(): Promise<string> {
    const reply = await this.builtinReply("oracle");
    if (reply === undefined) throw new EnvError("This world has no oracle: it does not implement solve().");
    if (reply === null) throw new EnvError("The oracle finds no way to succeed from here.");
    return reply;
  }

  /** A reply with a random action. */
  randomReply(random: Random): string {
    return this.protocol.print([sampleAction(this.world.actions, random)], this.world.actions);
  }

  /** A reply with a random action that does not end the episode. */
  noisyReply(random: Random): string {
    return this.protocol.print([this.#slip(random)], this.world.actions);
  }

  #slip(random: Random): Action {
    const lasting = this.world.actions.filter((spec) => !spec.ends);
    if (lasting.length === 0) {
      throw new EnvError(
        "Every action of this world ends the episode, so noise has nothing to play: leave noise at 0.",
      );
    }
    return sampleAction(lasting, random);
  }

  /** Actions as a reply. If the protocol asks for it and the world knows it, the reply truly describes the state, the plan and the next state. */
  async #reply(actions: readonly Action[]): Promise<string> {
    const { world, protocol } = this;
    const sections: Record<string, string> = {};
    const say = async () => {
      const facts = (await world.facts?.()) ?? [];
      const { view, prompt } = this.options;
      if (view !== undefined) return describePlaces(placedOf(facts, view), view, protocol.form ?? "lines", prompt);
      return facts.map((fact) => `${fact.subject}: ${fact.relations.join(", ")}`).join("; ");
    };
    if (world.facts !== undefined && protocol.says?.includes("observation")) sections.observation = await say();
    if (protocol.says?.includes("justification")) {
      sections.justification = this.describe(((await world.solve?.()) ?? []).slice(0, STEPS_SAID));
    }
    if (world.facts !== undefined && protocol.says?.includes("prediction") && world.save && world.load) {
      const state = await world.save();
      for (const action of actions) if ((await world.act(action)).ended) break;
      sections.prediction = await say();
      await world.load(state);
    }
    return protocol.print(actions, world.actions, sections);
  }

  /** The agent `stop` plays the action `stop` if there is one; otherwise its reply is empty. */
  async builtinReply(agent: BuiltinAgent, seed = 0): Promise<string | null | undefined> {
    const { world, protocol } = this;
    switch (agent) {
      case "random":
        return this.#reply([sampleAction(world.actions, new NumpyRandom(seed))]);
      case "slip":
        return this.#reply([this.#slip(new NumpyRandom(seed))]);
      case "stop": {
        const stop = world.actions.find((spec) => spec.name === "stop");
        return stop === undefined ? "" : protocol.print([{ name: stop.name, payload: stop.example }], world.actions);
      }
      case "oracle": {
        const plan = await world.solve?.();
        if (plan === undefined) return undefined;
        return plan.length === 0 ? null : this.#reply(plan.slice(0, protocol.maxActions));
      }
    }
  }

  /** The exact state of the episode, as JSON. */
  async save(): Promise<Json> {
    const world = await this.world.save?.();
    if (world === undefined) throw new EnvError("This world can't be saved: it does not implement save().");
    return {
      world,
      seed: this.#seed,
      turn: this.#turn,
      wellFormedTurns: this.#wellFormedTurns,
      over: this.#phase === "over",
    };
  }

  /** Continues an episode from a saved state. */
  async load(state: Json): Promise<void> {
    if (!isJsonObject(state) || state.world === undefined) throw new EnvError("A saved episode has a `world` field.");
    if (this.world.load === undefined) throw new EnvError("This world can't be loaded: it does not implement load().");
    await this.world.load(state.world);
    this.#seed = Number(state.seed ?? 0);
    this.#turn = Number(state.turn ?? 0);
    this.#wellFormedTurns = Number(state.wellFormedTurns ?? 0);
    this.#phase = state.over === true ? "over" : "playing";
  }

  #rewards(taskReward: number, parsed: ParsedReply, played: readonly Action[]): RewardPart[] {
    const rule = this.options.formatReward;
    switch (rule.kind) {
      case "none":
        return [{ name: "task", value: taskReward }];
      case "mixture":
        return [{ name: "task", value: rule.task * taskReward }, ...(this.#phase === "over" ? this.#closing() : [])];
      case "bonus":
        return [
          { name: "task", value: taskReward },
          { name: "format", value: parsed.wellFormed && played.length > 0 ? rule.bonus : 0 },
        ];
    }
  }

  /** The rewards that are paid once, at the end of the episode. */
  #closing(): RewardPart[] {
    const rule = this.options.formatReward;
    if (rule.kind !== "mixture" || this.#turn === 0) return [];
    return [{ name: "format", value: rule.format * (this.#wellFormedTurns / this.#turn) }];
  }

  async #instructions(): Promise<string> {
    const { prompt, observation } = this.options;
    const gap = prompt === "full" ? "\n\n" : "\n";
    const asked = this.protocol.instruction(this.world.actions, prompt);
    return [await this.world.task(prompt, observation), asked, ...this.#form()].join(gap);
  }

  /** How the prompt asks for descriptions. */
  #form(): string[] {
    const { view, prompt } = this.options;
    const { form, says = [] } = this.protocol;
    if (view === undefined || form === undefined || form === "free" || says.length === 0) return [];
    return [formInstruction(says, view, form, prompt)];
  }

  #turnLine(): string[] {
    if (this.options.prompt === "brief" || this.#phase === "over") return [];
    return [`Turn ${this.#turn + 1} of ${this.options.maxTurns}.`];
  }

  async #firstMessages(): Promise<Message[]> {
    const lines = [await this.#instructions(), ...this.#turnLine()];
    const goal = this.options.finalGoal ? await this.#goalParts() : [];
    const system = this.protocol.system?.(this.world.actions);
    return [
      ...(system === undefined ? [] : [{ role: "system" as const, content: [text(system)] }]),
      user(text(lines.join("\n\n")), ...(await this.#look()), ...goal),
    ];
  }

  async #observationMessage(feedback: string, played: readonly Action[]): Promise<Message> {
    const full = this.options.prompt === "full";
    const echo = full && this.options.feedback && played.length > 0 ? [`You played: ${this.describe(played)}.`] : [];
    const told = [...echo, ...(feedback === "" ? [] : [feedback]), ...this.#turnLine()];
    const lines = [told.join(" "), ...(this.options.repeatInstructions ? [await this.#instructions()] : [])];
    const words = lines.filter((line) => line !== "").join("\n\n");
    const parts = [...(words === "" ? [] : [text(words)]), ...(await this.#look())];
    return user(...(this.protocol.answer?.(parts) ?? parts));
  }

  /** Actions in words: `left, move 7 right`. */
  describe(actions: readonly Action[]): string {
    return actions.map((action) => this.#inWords(action)).join(", ");
  }

  #inWords(action: Action): string {
    const spec = this.world.actions.find((candidate) => candidate.name === action.name);
    // A document is already in the reply; here its name is enough.
    const isDocument = spec?.arg.type === "text" && spec.arg.opening !== undefined;
    return spec === undefined || isDocument ? action.name : actionText(action, spec);
  }

  async #look(): Promise<Part[]> {
    return this.#parts(await this.world.observe(this.options.observation));
  }

  #parts(seen: Observation): Part[] {
    const parts = typeof seen === "string" ? [text(seen)] : isImage(seen) ? [image(seen)] : [...seen];
    const { maxLongSide, frameMultiple, blindfold } = this.options;
    return parts.map((part) => {
      if (part.type === "text") return part;
      const fitting = maxLongSide === undefined ? part.image : fitLongSide(part.image, maxLongSide);
      const whole = frameMultiple === undefined ? fitting : extendTo(fitting, frameMultiple);
      this.#extent = [fitting.width / whole.width, fitting.height / whole.height];
      return { ...part, image: blindfold ? grey(whole) : whole };
    });
  }

  /** Plays the oracle's whole plan in this world, observes the result, and restores the world. */
  async #goalParts(): Promise<Part[]> {
    const { world } = this;
    if (world.solve === undefined || world.save === undefined || world.load === undefined) {
      throw new EnvError("finalGoal needs a world with solve(), save() and load().");
    }
    const start = await world.save();
    let ended = false;
    for (let plan = await world.solve(); plan.length > 0 && !ended; plan = ended ? [] : await world.solve()) {
      for (const action of plan) {
        ({ ended } = await world.act(action));
        if (ended) break;
      }
    }
    if (!(await world.success())) {
      throw new EnvError(
        "finalGoal: the oracle's plan did not solve this episode (a slippery world?); leave finalGoal out.",
      );
    }
    const goal = await world.observe(this.options.observation);
    await world.load(start);
    return [text("The solved state looks like this:"), ...this.#parts(goal)];
  }
}

/** A grey image of the same size. */
export function grey({ width, height }: Image): Image {
  return new Image(width, height, new Uint8Array(width * height * 3).fill(128));
}

/** A mark on the world's image, converted to the frame that contains it. */
function onFrame(mark: Mark, [across, down]: readonly [number, number]): Mark {
  const { x, y, to, box } = mark;
  return {
    ...mark,
    ...(x !== undefined && { x: x * across }),
    ...(y !== undefined && { y: y * down }),
    ...(to && { to: [to[0] * across, to[1] * down] as const }),
    ...(box && { box: [box[0] * across, box[1] * down, box[2] * across, box[3] * down] as const }),
  };
}
