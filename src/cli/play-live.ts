/**
 * A game in the terminal, in place: a key acts at once, mistakes cost nothing, everything can be taken back. An episode follows from its seed and the replies, so
 * undoing replays it without the last one. A machine (oracle, random, model) animates on the same screen. The terminal is given back as it was, however this ends.
 */
import { setTimeout as delay } from "node:timers/promises";
import { imagesOf, type Message, textOf } from "../core/index.ts";
import { commandsOf } from "../envs/args.ts";
import { makeProtocol, type Step, sumRewards, type WorldEnv } from "../envs/index.ts";
import { clearImages, graphicsOf, inlineImage } from "../images/terminal-graphics.ts";
import { hasColor, sizeOf } from "./common.ts";
import { bindKeys, FIXED_KEYS, keysIn } from "./play-keys.ts";
import { boardCells, type ScreenState, screenRows } from "./play-screen.ts";

/** Replies of a machine; undefined: it has none. */
type Machine = (seen: readonly Message[]) => Promise<string | undefined>;

export type LiveGame = {
  readonly env: WorldEnv;
  readonly name: string;
  readonly seed: number;
  /** Who plays, where that is not the person at the keys. */
  readonly machine?: { readonly name: string; readonly reply: Machine };
  /** Between moves of a machine, in milliseconds. */
  readonly delayMs?: number;
};

export type LiveEnd = { readonly last: Step | undefined; readonly total: number; readonly seen: readonly Message[] };

const [ENTER, LEAVE] = ["\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"];

export async function playLive(game: LiveGame): Promise<LiveEnd> {
  const screen = new GameScreen(game);
  try {
    return await screen.play();
  } finally {
    screen.close();
  }
}

class GameScreen {
  readonly #game: LiveGame;
  readonly #graphics = hasColor(process.stdout) ? graphicsOf(process.env) : undefined;
  readonly #bindings;
  readonly #typed: readonly string[];
  readonly #keys: string[] = [];
  #wake = () => {};
  #seed: number;
  #replies: string[] = [];
  #seen: readonly Message[] = [];
  #rules: readonly string[] = [];
  #last: Step | undefined;
  #total = 0;
  #message = "";
  #input: string | undefined;

  constructor(game: LiveGame) {
    this.#game = game;
    this.#seed = game.seed;
    const { actions } = game.env.world;
    this.#bindings = bindKeys(actions.flatMap(commandsOf));
    this.#typed = actions
      .filter((spec) => commandsOf(spec).length === 0)
      .map((spec) => game.env.describe([{ name: spec.name, payload: spec.example }]));
    process.stdout.write(ENTER);
    process.stdin.setRawMode(true);
    process.stdin.setEncoding("utf8");
    process.stdin.on("data", this.#onData);
    process.stdout.on("resize", this.#paint);
    process.once("exit", this.close);
  }

  readonly close = (): void => {
    process.off("exit", this.close);
    process.stdin.off("data", this.#onData);
    process.stdin.setRawMode(false);
    process.stdin.pause();
    process.stdout.off("resize", this.#paint);
    process.stdout.write(`${this.#graphics ? clearImages(this.#graphics) : ""}${LEAVE}`);
  };

  async play(): Promise<LiveEnd> {
    await this.#start(this.#seed);
    if (this.#game.machine !== undefined) await this.#watch(this.#game.machine.reply);
    else await this.#obey();
    return { last: this.#last, total: this.#total, seen: this.#seen };
  }

  /** Until `q`. */
  async #obey(): Promise<void> {
    for (;;) {
      this.#paint();
      const key = await this.#nextKey();
      if (this.#input !== undefined) await this.#type(key);
      else if (key === "q" || key === "ctrl-c") return;
      else await this.#press(key);
    }
  }

  async #press(key: string): Promise<void> {
    const command = this.#bindings.find((binding) => binding.key === key)?.command;
    if (key === "u") return this.#undo();
    if (key === "h") return this.#hint();
    if (key === "o") return this.#watch((_) => this.#oracle());
    if (key === "r") return this.#start(this.#seed);
    if (key === "n" || (key === "enter" && this.#isOver)) return this.#start(this.#seed + 1);
    if (this.#isOver) this.#message = "The episode is over: n for the next seed, u to take the last move back.";
    else if (command !== undefined) await this.#try(command);
    else if (key === ":" || key === "enter") this.#input = "";
    else if (key !== "escape") this.#message = `${key} is no key here; nothing was played.`;
  }

  async #type(key: string): Promise<void> {
    const typed = this.#input ?? "";
    if (key === "escape" || key === "ctrl-c") this.#input = undefined;
    else if (key === "backspace") this.#input = typed === "" ? undefined : typed.slice(0, -1);
    else if (key === "enter") {
      this.#input = undefined;
      if (typed.trim() !== "") await this.#try(typed);
    } else if ([...key].length === 1) this.#input = typed + key;
  }

  /** What can't be read, or does nothing, costs no turn. */
  async #try(command: string): Promise<void> {
    const { world, protocol } = this.#game.env;
    const { actions } = makeProtocol("keyword", { lenient: true }).parse(command, world.actions);
    const direct = protocol.parse(command, world.actions).actions.length > 0;
    if (!direct && actions.length === 0) {
      this.#message = `"${command}" is no action here; nothing was played.`;
      return;
    }
    const { info } = await this.#step(direct ? command : protocol.print(actions, world.actions));
    if (info.valid || this.#isOver) return;
    const why = info.feedback ?? "That does nothing here.";
    await this.#replay(this.#replies.slice(0, -1));
    this.#message = `${why} It cost no turn.`;
  }

  async #step(reply: string): Promise<Step> {
    const step = await this.#game.env.step(reply);
    this.#replies.push(reply);
    this.#last = step;
    this.#total += sumRewards(step.rewards);
    this.#seen = step.observation;
    const played = (step.info.played ?? []).join(", ") || "(no action)";
    const verdict = this.#isOver ? ` ${verdictOf(step)} n: next seed` : "";
    this.#message = `${played}. ${step.info.feedback ?? ""}${verdict}`.trim();
    return step;
  }

  async #start(seed: number): Promise<void> {
    this.#seed = seed;
    await this.#replay([]);
    const { world, options } = this.#game.env;
    this.#rules = [await world.task("full", options.observation), await world.task("brief", options.observation)];
    this.#message = "";
  }

  async #replay(replies: readonly string[]): Promise<void> {
    [this.#replies, this.#last, this.#total] = [[], undefined, 0];
    this.#seen = await this.#game.env.reset(this.#seed);
    for (const reply of replies) await this.#step(reply);
  }

  async #undo(): Promise<void> {
    if (this.#replies.length === 0) {
      this.#message = "There is nothing to take back.";
      return;
    }
    await this.#replay(this.#replies.slice(0, -1));
    this.#message = "Taken back.";
  }

  async #oracle(): Promise<string | undefined> {
    return (await this.#game.env.builtinReply("oracle", 0)) ?? undefined;
  }

  async #hint(): Promise<void> {
    const { env } = this.#game;
    if (this.#isOver) return;
    const reply = await env.builtinReply("oracle", 0);
    if (reply === undefined) this.#message = "This world has no oracle to ask.";
    else if (reply === null) this.#message = "The oracle finds no way from here: take a move back (u).";
    else this.#message = `The oracle would play: ${env.describe(env.protocol.parse(reply, env.world.actions).actions)}`;
  }

  /** Plays until the end, or until a key is pressed. */
  async #watch(reply: Machine): Promise<void> {
    while (!this.#isOver && this.#keys.length === 0) {
      this.#paint();
      const said = await reply(this.#seen);
      if (said === undefined) {
        this.#message = "The oracle finds no way from here, or there is none.";
        break;
      }
      await this.#step(said);
      this.#paint();
      if (!this.#isOver) await delay(this.#game.delayMs ?? 350);
    }
    // The key that stopped it means nothing else; one that came after the end does.
    if (!this.#isOver) this.#keys.shift();
  }

  get #isOver(): boolean {
    return this.#last !== undefined && (this.#last.terminated || this.#last.truncated);
  }

  readonly #onData = (sent: string): void => {
    this.#keys.push(...keysIn(sent));
    this.#wake();
  };

  async #nextKey(): Promise<string> {
    for (;;) {
      const key = this.#keys.shift();
      if (key !== undefined) return key;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  readonly #paint = (): void => {
    const { name, env, machine } = this.#game;
    const size = sizeOf(process.stdout);
    const [image] = this.#seen.flatMap(imagesOf).slice(-1);
    const board = image ?? this.#seen.map(textOf).join("\n");
    const turns = `turn ${this.#replies.length} of ${env.options.maxTurns}`;
    const state: ScreenState = {
      title: `${name} · seed ${this.#seed} · ${turns} · reward ${Number(this.#total.toFixed(3))}${machine ? ` · ${machine.name} plays, any key stops it` : ""}`,
      rules: this.#rules,
      bindings: machine ? [] : this.#bindings,
      keys: machine ? [] : Object.entries(FIXED_KEYS),
      typed: machine ? [] : this.#typed,
      board,
      message: this.#message,
      ...(this.#input !== undefined && { input: this.#input }),
    };
    const graphics = image && this.#graphics;
    const rows = screenRows(state, { ...size, color: hasColor(process.stdout), graphics: graphics !== undefined });
    // Erased first: after a row as wide as the terminal, erasing would take its last character.
    const text = rows.map((row, i) => `\x1b[${i + 1};1H\x1b[2K${row}`).join("");
    const shown =
      graphics && image
        ? `${clearImages(graphics)}\x1b[2;1H${inlineImage(image, graphics, boardCells(image, size))}`
        : "";
    // In one piece, or it would flicker.
    process.stdout.write(`${text}${shown}`);
  };
}

export function verdictOf(step: Step | undefined): string {
  if (step === undefined) return "No turn was played.";
  return `${step.success ? "Success" : step.truncated ? "Out of turns" : step.terminated ? "Failed" : "Left early"}.`;
}
