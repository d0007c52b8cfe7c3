/**
 * Agents that need no model: those that an environment brings along (oracle, random, stop at once), which are what success is measured
 * against, and one that says what it is told. They use the same door as a model does, wherever the environment runs.
 */
import { ConfigError } from "../core/errors.ts";
import type { Awaitable } from "../core/json.ts";
import type { Message } from "../core/message.ts";
import { mixSeed } from "../core/seed.ts";
import type { BuiltinAgent, Env } from "../envs/env.ts";
import type { AgentFactory } from "./agents.ts";

/** What a built-in agent replies in this state; undefined: the environment has no such agent. One that has nothing to say stops. */
export async function builtinReply(env: Env, agent: BuiltinAgent, seed: number): Promise<string | undefined> {
  const reply = await env.builtinReply?.(agent, seed);
  if (reply === null && agent !== "stop") return builtinReply(env, "stop", seed);
  // An empty reply is as near to stopping as an environment without a `stop` allows.
  return reply ?? (agent === "stop" ? "" : undefined);
}

/** Oracle, random and stop-at-once agents. */
export function builtinAgent(kind: BuiltinAgent): AgentFactory {
  return ({ env, seed, sibling, samplingSeed }) => {
    let turn = 0;
    const absent = () => {
      const how = kind === "oracle" ? "give its world solve(), or the environment builtinReply()" : "use a world";
      return new ConfigError(`This environment has no ${kind} agent: ${how}.`);
    };
    return {
      converse: () => ({
        kind: "text",
        async answer({ messages }) {
          const draw = mixSeed(kind, samplingSeed, seed, sibling, turn++);
          const reply = await env.driver?.reply?.(kind, { seed, draw, messages });
          // An empty answer is as near to stopping as a program allows.
          if (reply === undefined && kind !== "stop") throw absent();
          return { text: reply ?? "", cut: false };
        },
      }),
      async reply() {
        const reply = await builtinReply(env, kind, mixSeed(kind, samplingSeed, seed, sibling, turn++));
        if (reply !== undefined) return reply;
        throw absent();
      },
    };
  };
}

/** An agent that says these replies in turn, then the last one over and over. A person's answers come through the same door. */
export function scriptedAgent(
  replies: readonly string[] | ((messages: readonly Message[]) => Awaitable<string>),
): AgentFactory {
  return () => {
    let turn = 0;
    return {
      async reply(messages) {
        if (typeof replies === "function") return replies(messages);
        return replies[Math.min(turn++, replies.length - 1)] ?? "";
      },
    };
  };
}
