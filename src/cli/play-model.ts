/** A model that plays an episode in the terminal. Apart from `play`, which otherwise starts without engines. */
import { assistant, type Message } from "../core/index.ts";
import type { Env } from "../envs/index.ts";
import { type ModelOptions, openModel, parseModel } from "../evaluate/index.ts";
import { readTrained, type Trained } from "../train/index.ts";
import { parseEngine } from "./engine.ts";

export type PlayerFlags = { readonly agent: string; readonly greedy?: boolean; readonly engine?: string };

export type Player = {
  /** The options of an environment that the model was trained with. */
  optionsOf(env: string): Readonly<Record<string, unknown>>;
  /** Replies to what it sees, turn by turn. */
  open(env: Env, seed: number): Promise<(seen: readonly Message[]) => Promise<string>>;
  close(): Promise<void>;
};

export async function openPlayer(flags: PlayerFlags): Promise<Player> {
  const spec = parseModel(flags.agent);
  const trained = spec.kind === "folder" ? await readTrained(spec.path) : undefined;
  const model = await openModel(flags.agent, modelOptions(flags, trained));
  return {
    optionsOf: (name) => trained?.envs.find(({ env }) => env === name)?.options ?? {},
    async open(env, seed) {
      const agent = model.agent({ env, seed, sibling: 0, samplingSeed: seed });
      const conversation: Message[] = [];
      return async (seen) => {
        conversation.push(...seen);
        const reply = await agent.reply(conversation, new AbortController().signal);
        conversation.push(assistant(reply));
        return reply;
      };
    },
    close: () => model.close(),
  };
}

function modelOptions({ greedy, engine }: PlayerFlags, trained: Trained | undefined): ModelOptions {
  const { temperature, maxTokens } = trained?.sampling ?? {};
  const heat = greedy ? 0 : temperature;
  return {
    ...(heat !== undefined && { temperature: heat }),
    ...(maxTokens !== undefined && { maxTokens }),
    ...(trained?.history !== undefined && { history: trained.history }),
    ...(engine !== undefined && { engine: parseEngine(engine) }),
  };
}
