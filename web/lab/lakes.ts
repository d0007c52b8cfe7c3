/** Lakes on loan to episodes: environments made of the world itself, without a registry and its files. */
import { assembleEnv } from "../../src/envs/assemble.ts";
import type { BuiltinAgent } from "../../src/envs/env.ts";
import type { WorldEnv } from "../../src/envs/world-env.ts";
import type { EnvLender, EnvSpec, HostedEnv } from "../../src/rollout/hosts.ts";
import { frozenLake } from "../../worlds/frozen-lake/frozen-lake.ts";

export const LAKE = frozenLake.id;

export class LakeLender implements EnvLender {
  readonly #idle = new Map<string, HostedEnv[]>();

  async acquire(spec: EnvSpec): Promise<HostedEnv> {
    return this.#shelf(spec).pop() ?? lend(spec, await assembleEnv(frozenLake, undefined, LAKE, spec.options));
  }

  release(env: HostedEnv): void {
    this.#shelf(env.spec).push(env);
  }

  /** A lake holds nothing that would have to be closed. */
  discard(): void {}

  #shelf({ options }: EnvSpec): HostedEnv[] {
    const key = JSON.stringify(options ?? {});
    const shelf = this.#idle.get(key) ?? [];
    this.#idle.set(key, shelf);
    return shelf;
  }
}

function lend(spec: EnvSpec, env: WorldEnv): HostedEnv {
  return {
    spec,
    alive: true,
    reset: (seed) => env.reset(seed),
    step: (reply) => env.step(reply),
    truncate: () => env.truncate?.() ?? [],
    builtinReply: (agent: BuiltinAgent, seed: number) => env.builtinReply?.(agent, seed),
    close: async () => {},
    kill: async () => {},
  };
}
