/**
 * Models that may play in the browser: checkpoints of the runs in this folder, models that come with Saccade, and hosted ones. A request names one of a
 * list, never a path. Few stay open, the one not used for longest goes first. What a model of ours would do is told, too: how likely it finds each action,
 * and how much each part of the frame matters to what it said.
 */
import { join } from "node:path";
import { ConfigError } from "../core/errors.ts";
import type { JsonObject } from "../core/json.ts";
import type { Message } from "../core/message.ts";
import { openEngine } from "../engine/registry.ts";
import { readTrained, shippedModel, shippedModels, type Trained } from "../model/trained.ts";
import { CheckpointStore } from "../run/checkpoints.ts";
import type { ModelChoice } from "./api.ts";
import { isInside } from "./paths.ts";
import { LocalPlayer } from "./player.ts";

const MAX_OPEN = 2;

/** A turn that was played: what was shown before it, and the reply. */
export type Played = { readonly seen: readonly Message[]; readonly reply: string; readonly ids?: Int32Array };

/** A model that answers through somebody's interface: its words are all that is known. */
export type HostedPlayer = {
  reply(messages: readonly Message[], signal: AbortSignal): Promise<string>;
  close(): Promise<void>;
};

export type Hosted = {
  /** Names that are offered. */
  readonly names: readonly string[];
  /** Model folders by the name they are offered under. */
  readonly folders: ReadonlyMap<string, string>;
  /** Throws for a name that is none. */
  open(name: string): Promise<HostedPlayer>;
};

export type OpenModel =
  | { readonly kind: "local"; readonly player: LocalPlayer; readonly trained?: Trained }
  | { readonly kind: "hosted"; readonly player: HostedPlayer };

export class ModelRoom {
  readonly #runs: () => Promise<ReadonlyMap<string, string>>;
  readonly #hosted: Hosted | undefined;
  readonly #open = new Map<string, Promise<OpenModel>>();

  constructor(runs: () => Promise<ReadonlyMap<string, string>>, hosted?: Hosted) {
    this.#runs = runs;
    this.#hosted = hosted;
  }

  async choices(): Promise<ModelChoice[]> {
    const found: ModelChoice[] = [];
    for (const [run, path] of await this.#runs()) {
      const store = new CheckpointStore(path);
      const best = (await store.bestScore())?.step;
      const steps = await store.steps();
      for (const step of steps.reverse()) {
        const about = step === best ? "best" : step === steps[0] ? "newest" : "";
        found.push({ id: `run:${run}@${step}`, name: `${run}, step ${step}`, ours: true, ...(about && { about }) });
      }
    }
    for (const name of shippedModels())
      found.push({ id: `shipped:${name}`, name, ours: true, about: "comes with Saccade" });
    for (const name of this.#hosted?.folders.keys() ?? []) found.push({ id: `folder:${name}`, name, ours: true });
    for (const name of this.#hosted?.names ?? []) found.push({ id: `hosted:${name}`, name, ours: false });
    return found;
  }

  open(id: string): Promise<OpenModel> {
    const known = this.#open.get(id);
    const opening = known ?? this.#load(id);
    this.#open.delete(id);
    this.#open.set(id, opening);
    if (known === undefined) {
      opening.catch(() => this.#open.delete(id));
      for (const [old, model] of [...this.#open].slice(0, -MAX_OPEN)) {
        this.#open.delete(old);
        void model.then(({ player }) => player.close()).catch(() => {});
      }
    }
    return opening;
  }

  /** How the model was trained on this environment: its options there, where it knows it. */
  async optionsFor(id: string, env: string): Promise<JsonObject> {
    const model = await this.open(id);
    if (model.kind !== "local") return {};
    const known = model.trained?.envs ?? [];
    const world = (name: string) => name.split("/")[0];
    const found = known.find((one) => one.env === env) ?? known.find((one) => world(one.env) === world(env));
    return found === undefined ? {} : (JSON.parse(JSON.stringify(found.options)) as JsonObject);
  }

  async close(): Promise<void> {
    for (const model of this.#open.values()) await model.then(({ player }) => player.close()).catch(() => {});
    this.#open.clear();
  }

  async #load(id: string): Promise<OpenModel> {
    const [, kind, name = ""] = /^(run|shipped|hosted|folder):(.+)$/.exec(id) ?? [];
    if (kind === "hosted" && this.#hosted?.names.includes(name)) return { kind, player: await this.#hosted.open(name) };
    const path = await this.#folder(kind, name);
    if (path === undefined) throw new ConfigError(`There is no model "${id}" here; choose one of the list.`);
    const trained = await readTrained(path);
    const engine = await openEngine();
    try {
      const player = await LocalPlayer.open(engine, path, trained);
      return { kind: "local", player, ...(trained && { trained }) };
    } catch (error) {
      await engine.close();
      throw error;
    }
  }

  async #folder(kind: string | undefined, name: string): Promise<string | undefined> {
    if (kind === "shipped") return shippedModel(name);
    return kind === "folder" ? this.#hosted?.folders.get(name) : kind === "run" ? this.#checkpoint(name) : undefined;
  }

  /** Looked up, never joined from what was asked. */
  async #checkpoint(name: string): Promise<string | undefined> {
    const [, run = "", step = ""] = /^(.+)@(\d+)$/.exec(name) ?? [];
    const path = (await this.#runs()).get(run);
    if (path === undefined || !(await new CheckpointStore(path).steps()).includes(Number(step))) return undefined;
    const folder = join(path, "checkpoints", `step-${Number(step)}`, "policy");
    return (await isInside(path, folder)) ? folder : undefined;
  }
}
