/** One attempt at an episode, on an environment that its host lends: training and evaluation both play through it. */
import { ConfigError } from "../core/errors.ts";
import type { Agent, AgentContext } from "./agents.ts";
import { type EpisodeRequest, playEpisode } from "./episode.ts";
import type { EnvLender, EnvSpec, HostedEnv } from "./hosts.ts";
import type { Trajectory } from "./trajectory.ts";

type Attempt = Omit<EpisodeRequest, "name" | "env" | "agent"> & {
  readonly sibling: number;
  readonly samplingSeed: number;
};

export async function attemptEpisode<A extends Agent>(
  host: EnvLender,
  spec: EnvSpec,
  factory: (context: AgentContext) => A,
  { samplingSeed, ...episode }: Attempt,
): Promise<{ readonly trajectory: Trajectory; readonly agent: A }> {
  const { seed, sibling } = episode;
  const env = await host.acquire(spec).catch(brokenEnv);
  let agent: A;
  try {
    agent = factory({ env, seed, sibling, samplingSeed });
  } catch (error) {
    host.discard(env);
    throw error;
  }
  const trajectory = await (env.play ?? playEpisode)({ ...episode, name: spec.id, env, agent });
  const { end } = trajectory;
  if (end === "env_error" || end === "env_timeout" || end === "aborted") host.discard(env, end !== "env_error");
  else host.release(env);
  return { trajectory, agent };
}

/** Stands in for an environment that could not be made. A wrong name or option is not the environment's failure and ends everything. */
function brokenEnv(error: unknown): HostedEnv {
  if (error instanceof ConfigError) throw error;
  const fail = () => Promise.reject(error);
  return { spec: { id: "" }, alive: false, reset: fail, step: fail, close: async () => {}, kill: async () => {} };
}
