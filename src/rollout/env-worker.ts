/**
 * What runs inside a worker thread or child process: one environment at a time, made from `{ module, id, options }`. Requests are
 * answered in any order they finish in; an exception that nobody caught ends the worker, and the host sees it die.
 */
import { parentPort } from "node:worker_threads";
import { EnvError, errorMessage } from "../core/errors.ts";
import type { Env } from "../envs/env.ts";
import { makeEnv } from "../envs/registry.ts";
import { stackAtUser } from "../run/failures.ts";
import { type EnvCall, type EnvReply, type EnvResult, packMessages, packStep } from "./env-wire.ts";
import { loadModule } from "./worker-modules.ts";

let env: Env | undefined;

function send(reply: EnvReply, transfer: ArrayBuffer[]): void {
  if (parentPort !== null) parentPort.postMessage(reply, transfer);
  else process.send?.(reply);
}

async function answer({ id, call }: EnvCall): Promise<void> {
  try {
    const transfer: ArrayBuffer[] = [];
    send({ id, result: await perform(call, transfer) }, transfer);
  } catch (error) {
    const name = error instanceof Error ? error.name : "Error";
    const stack = stackAtUser(error);
    send({ id, error: { name, message: errorMessage(error), ...(stack !== undefined && { stack }) } }, []);
  }
}

async function perform(call: EnvCall["call"], transfer: ArrayBuffer[]): Promise<EnvResult> {
  switch (call.kind) {
    case "open":
      await env?.close?.();
      env = undefined;
      await loadModule(call.spec);
      env = await makeEnv(call.spec.id, call.spec.options);
      return undefined;
    case "reset":
      return packMessages(await opened().reset(call.seed), transfer);
    case "step":
      return packStep(await opened().step(call.reply), transfer);
    case "truncate":
      return opened().truncate?.();
    case "builtin":
      return opened().builtinReply?.(call.agent, call.seed);
    case "close":
      await env?.close?.();
      env = undefined;
      return undefined;
  }
}

function opened(): Env {
  if (env === undefined) throw new EnvError("The worker has no environment yet.");
  return env;
}

if (parentPort !== null) {
  parentPort.on("message", (call: EnvCall) => void answer(call));
} else {
  process.on("message", (call: EnvCall) => void answer(call));
  // The host is gone; so is the need for this process.
  process.on("disconnect", () => process.exit());
}
