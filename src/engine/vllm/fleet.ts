/**
 * Several inference servers as one. A sequence stays with the server that has its prefix in cache; when that one is lost, another gets the whole prompt,
 * which is all that a turn needs, so play goes on. A server that comes back has the weights it was started with: nothing is sampled there before it has
 * the newest again, and an answer made by weights that were never published to it is thrown away.
 */
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { errorMessage } from "../../core/errors.ts";
import { printable } from "../../core/printable.ts";
import { EngineError, EngineLost } from "../errors.ts";
import { ServerLost, ServerRefused } from "./http.ts";
import type { Drawn, Generated, GenerateRequest, Offering, Probe, TokenServer } from "./token-server.ts";

export type FleetOptions = {
  /** How long to wait for a server to come back when all are gone; default ten minutes. */
  readonly patienceMs?: number;
  /** How often a lost server is looked for; default a second. */
  readonly everyMs?: number;
  /** Told when a server is lost and when it is back. */
  readonly onTrouble?: (message: string) => void;
};

/** What must be in a server before it answers: the model's weights, or an adapter beside them. */
export type Weights = { readonly version: number } & (
  | { readonly kind: "reload"; readonly folder: string }
  /** From a learner's memory. */
  | { readonly kind: "transfer"; readonly offer: Offering }
  /** `base` is the folder of the model that it was made for; `learner` tells the versions of one from those of another. */
  | { readonly kind: "adapter"; readonly folder: string; readonly base: string; readonly learner?: string }
);

/** The name of the weights below adapters, and how those of adapters begin. */
const BASE = "base";
const ADAPTER = "policy-";
const isAdapter = (name: string) => name.startsWith(ADAPTER);

/** Answers that are our fault or a poisoned request's: more tries would only hide it. */
const MAX_BREAKDOWNS = 3;

/** Thrown when ids come from weights that this run never gave to the server. */
class StrangeWeights extends Error {}

type Member = {
  readonly server: TokenServer;
  up: boolean;
  /** Sequences at home here. */
  load: number;
  /** What it was given since it was last found, newest last. */
  has: string[];
  /** Grows whenever that is forgotten: an answer to an earlier question then says nothing about it. */
  lives: number;
  /** A load under way. */
  loading: Promise<void>;
  looking: boolean;
};

export class Fleet {
  readonly #members: Member[];
  readonly #homes = new Map<string, Member>();
  readonly #patienceMs: number;
  readonly #everyMs: number;
  readonly #onTrouble: (message: string) => void;
  readonly #closed = new AbortController();
  readonly #run = randomBytes(4).toString("hex");

  constructor(servers: readonly TokenServer[], options: FleetOptions = {}) {
    if (servers.length === 0) throw new EngineError("Name at least one server.");
    this.#members = servers.map((server) => ({
      server,
      up: true,
      load: 0,
      has: [],
      lives: 0,
      loading: Promise.resolve(),
      looking: false,
    }));
    this.#patienceMs = options.patienceMs ?? 600_000;
    this.#everyMs = options.everyMs ?? 1000;
    this.#onTrouble = options.onTrouble ?? ((message) => process.stderr.write(`saccade: ${printable(message)}\n`));
  }

  /** All of them must be there at the start, serve the same, and offer what training needs. The shortest context counts. */
  async probe(): Promise<Probe> {
    const probes = await Promise.all(this.#members.map(({ server }) => server.probe()));
    const [first] = probes as [Probe];
    const other = probes.find(({ model }) => model !== first.model);
    if (other !== undefined) {
      throw new EngineError(
        `The servers serve different models: ${first.model} and ${other.model}. Start them with the same model.`,
      );
    }
    return { ...first, contextTokens: Math.min(...probes.map(({ contextTokens }) => contextTokens)) };
  }

  /** Gives new weights to every server that is there. One that is not gets them when it is back. */
  async load(weights: Weights): Promise<void> {
    const given = this.#members.filter(({ up }) => up).map((member) => this.#give(member, () => weights));
    await Promise.all(given);
  }

  /** Another learner counts its versions anew: what is in place is nobody's any more. */
  forgetInPlace(): void {
    for (const member of this.#members) member.has = member.has.filter((name) => name === BASE || isAdapter(name));
  }

  async unloadAdapter(weights: Weights): Promise<void> {
    const name = this.#adapterName(weights);
    await Promise.all(
      this.#members.map(async (member) => {
        if (!member.has.includes(name)) return;
        member.has = member.has.filter((held) => held !== name);
        if (member.up) await member.server.unloadAdapter(name).catch(() => undefined);
      }),
    );
  }

  sleep(): Promise<void> {
    return this.#tellAll((server) => server.sleep());
  }

  wake(): Promise<void> {
    return this.#tellAll((server) => server.wake());
  }

  /** One that is gone is awake when it is back. */
  async #tellAll(tell: (server: TokenServer) => Promise<void>): Promise<void> {
    const told = this.#members.filter(({ up }) => up);
    await Promise.all(
      told.map((member) =>
        tell(member.server).catch(async (error) => {
          if (!(await isGone(member.server, error))) throw error;
          this.#lose(member, error);
        }),
      ),
    );
  }

  /** `weights` says what must answer; weights that were given after them may, too, when they are swapped in place. */
  async generate(request: GenerateRequest, weights: () => Weights): Promise<Generated & { url: string }> {
    for (let breakdowns = 0; ; ) {
      const member = await this.#home(request.session, request.signal);
      const { server } = member;
      let { lives } = member;
      try {
        await this.#give(member, weights);
        lives = member.lives;
        const wanted = weights();
        const adapter = wanted.kind === "adapter" ? this.#adapterName(wanted) : undefined;
        // Servers that do not say it are believed.
        const named = ({ versions }: Drawn) =>
          versions.map((name) => name || (adapter ? BASE : String(wanted.version)));
        const check = (drawn: Drawn) => {
          if (![...new Set(named(drawn))].every((name) => member.has.includes(name))) throw new StrangeWeights();
        };
        const { onPart } = request;
        const answer = await server.generate({
          ...request,
          ...(adapter && { adapter }),
          ...(onPart && {
            onPart: (part: Drawn) => {
              check(part);
              onPart(part);
            },
          }),
        });
        check(answer);
        return { ...answer, versions: named(answer), url: server.url };
      } catch (error) {
        request.signal?.throwIfAborted();
        const isNews = member.lives === lives;
        // Started anew behind our back, it names other weights, or knows no adapter.
        const unknown = error instanceof ServerRefused && error.status === 404 && !(isNews && member.has.length === 0);
        if (error instanceof StrangeWeights || unknown) {
          if (!isNews) continue;
          forget(member);
          this.#onTrouble(`${server.url} answered with weights that it was not given; it gets the newest again.`);
          continue;
        }
        if (error instanceof ServerRefused && error.status >= 500) {
          breakdowns += 1;
          if (breakdowns >= MAX_BREAKDOWNS) throw error;
        } else if (!(error instanceof ServerLost)) throw error;
        if (isNews && (await isGone(server, error))) this.#lose(member, error);
      }
    }
  }

  release(sequence: string): void {
    const member = this.#homes.get(sequence);
    if (member === undefined) return;
    this.#homes.delete(sequence);
    member.load -= 1;
  }

  close(): void {
    this.#closed.abort(new EngineError("The servers were released."));
    for (const { server } of this.#members) server.close();
  }

  /** Servers outlive runs: another run's version 1 must not be taken for ours. */
  #adapterName(weights: Weights): string {
    const learner = weights.kind === "adapter" ? (weights.learner ?? "") : "";
    return `${ADAPTER}${this.#run}${learner}-v${weights.version}`;
  }

  /** One load at a time per server; what it has is not given again. Asked for when it is its turn, so that it is the newest. */
  #give(member: Member, wanted: () => Weights): Promise<void> {
    const next = member.loading
      .catch(() => undefined)
      .then(async () => {
        const weights = wanted();
        const name = weights.kind === "adapter" ? this.#adapterName(weights) : String(weights.version);
        const held = weights.kind === "adapter" ? member.has.includes(name) : member.has.at(-1) === name;
        if (held) return;
        try {
          if (weights.kind === "reload") await member.server.load(weights.folder, name);
          else if (weights.kind === "transfer") {
            if (member.server.take === undefined) throw new EngineError("The server loads weights from folders only.");
            await member.server.take(weights.offer, name);
          } else {
            // An earlier run may have left other weights there.
            if (!member.has.includes(BASE)) await member.server.load(weights.base, BASE);
            member.has.push(BASE);
            await member.server.loadAdapter(weights.folder, name);
          }
          member.has.push(name);
        } catch (error) {
          // The learner died, and no server is to blame: the run goes on from its last checkpoint.
          if (error instanceof EngineLost) throw error;
          if (!(await isGone(member.server, error))) {
            const where = weights.kind === "transfer" ? "the learner's weights" : weights.folder;
            const what =
              weights.kind === "transfer"
                ? 'Start it with "saccade vllm start --transfer", where it can reach the learner\'s machine.'
                : 'It must be able to read that folder: name one on a shared disk with "exchange".';
            throw new EngineError(`${member.server.url} could not load ${where}: ${errorMessage(error)} ${what}`);
          }
          this.#lose(member, error);
          throw error instanceof ServerLost ? error : new ServerLost(errorMessage(error));
        }
      });
    member.loading = next;
    return next.catch((error) => {
      // The others go on; this one gets them when it is back.
      if (!(error instanceof ServerLost)) throw error;
    });
  }

  async #home(sequence: string, signal: AbortSignal | undefined): Promise<Member> {
    const known = this.#homes.get(sequence);
    if (known?.up) return known;
    const until = Date.now() + this.#patienceMs;
    let up = this.#members.filter((member) => member.up);
    while (up.length === 0) {
      if (Date.now() > until) {
        const names = this.#members.map(({ server }) => server.url).join(", ");
        throw new EngineError(`No server came back within ${Math.round(this.#patienceMs / 1000)} s: ${names}.`);
      }
      const woken = signal === undefined ? this.#closed.signal : AbortSignal.any([signal, this.#closed.signal]);
      await sleep(this.#everyMs / 2, undefined, { signal: woken }).catch(() => woken.throwIfAborted());
      up = this.#members.filter((member) => member.up);
    }
    const member = up.reduce((least, other) => (other.load < least.load ? other : least));
    this.release(sequence);
    this.#homes.set(sequence, member);
    member.load += 1;
    return member;
  }

  #lose(member: Member, error: unknown): void {
    member.up = false;
    forget(member);
    if (member.looking) return;
    member.looking = true;
    this.#onTrouble(`${errorMessage(error)} Looking for it every ${this.#everyMs / 1000} s.`);
    void this.#look(member);
  }

  async #look(member: Member): Promise<void> {
    while (!this.#closed.signal.aborted) {
      await sleep(this.#everyMs, undefined, { signal: this.#closed.signal, ref: false }).catch(() => undefined);
      if (this.#closed.signal.aborted || !(await member.server.healthy())) continue;
      member.up = true;
      member.looking = false;
      this.#onTrouble(`${member.server.url} is back.`);
      return;
    }
  }
}

function forget(member: Member): void {
  member.has = [];
  member.lives += 1;
}

/** A server whose engine died answers 500 once more and 503 from then on. */
async function isGone(server: TokenServer, error: unknown): Promise<boolean> {
  if (error instanceof ServerLost) return true;
  return error instanceof ServerRefused && error.status >= 500 && !(await server.healthy());
}
