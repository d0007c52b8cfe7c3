/** A model that plays an episode in the terminal. Apart from `play`, which otherwise starts without engines. */
import { assistant, type Message } from "../core/index.ts";
import type { Env, Options } from "../envs/index.ts";
import { type ModelOptions, openModel, parseModel } from "../evaluate/index.ts";
import { optionDifferences, optionsOver, trainedAs } from "../evaluate/training.ts";
import { findModel, readTrained, type Trained } from "../model/index.ts";
import { parseEngine } from "./engine.ts";

export type PlayerFlags = { readonly agent: string; readonly greedy?: boolean; readonly engine?: string };

export type Player = {
  /** The options that an environment is played with: those of the model's training, and one's own. What differs from training is said on stderr. */
  options(env: string, own: Options): Promise<Options>;
  /** Replies to what it sees, turn by turn. */
  open(env: Env, seed: number): Promise<(seen: readonly Message[]) => Promise<string>>;
  close(): Promise<void>;
};

export async function openPlayer(flags: PlayerFlags): Promise<Player> {
  const spec = parseModel(flags.agent);
  const found = spec.kind === "folder" ? await findModel(spec.path) : undefined;
  if (found?.note !== undefined) process.stderr.write(`${found.note}\n`);
  const trained = found && (await readTrained(found.path));
  const model = await openModel(flags.agent, modelOptions(flags, trained));
  return {
    async options(name, own) {
      const [known] = await trainedAs(trained, name);
      const options = optionsOver(known?.options ?? {}, own);
      const differing = trained === undefined ? [] : await optionDifferences(trained, name, name, options);
      for (const { setting, training, here } of differing)
        process.stderr.write(`not as in training: ${setting} was ${shown(training)}, is ${shown(here)}\n`);
      return options;
    },
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

const shown = (value: unknown) => (value === undefined ? "left at its default" : JSON.stringify(value));

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
