/** `saccade vllm start`: vLLM servers with the flags that training needs, from the vLLM that is installed; one that dies is started again. */
import { Command } from "commander";
import { startVllm, type VllmOptions, type VllmServer } from "../engine/vllm/launch.ts";
import { chosenModel } from "./chosen-model.ts";
import { wholeNumber } from "./common.ts";

type Flags = {
  python?: string;
  servers: number;
  port: number;
  host: string;
  name: string;
  contextTokens?: number;
  images: number;
  loraRank?: number;
  renderOnly?: boolean;
  sleep?: boolean;
  transfer?: boolean;
  verbose?: boolean;
};

export function vllmCommand(): Command {
  const start = new Command("start")
    .description("start vLLM servers for a recipe's sampler; Ctrl-C stops them")
    .argument("<model>", "a model folder, or a run (its best checkpoint)")
    .option("--python <path>", "Python of the environment with vLLM (default: SACCADE_VLLM_PYTHON, else python3)")
    .option("--servers <n>", "number of servers, on consecutive ports", wholeNumber("--servers", 1), 1)
    .option("--port <n>", "first port", wholeNumber("--port", 1), 8000)
    .option("--host <name>", "address to listen on; the control routes require no key", "127.0.0.1")
    .option("--name <text>", "the model's name in requests", "policy")
    .option(
      "--context-tokens <n>",
      "longest sequence, in tokens (default: the model's context)",
      wholeNumber("--context-tokens", 1),
    )
    .option("--images <n>", "maximum number of images in a sequence", wholeNumber("--images", 1), 64)
    .option("--lora-rank <n>", "accept adapters up to this rank", wholeNumber("--lora-rank", 1))
    .option("--render-only", "only render prompts, without weights and GPU")
    .option("--sleep", "allow servers to free their GPU memory while a learner uses the same GPU")
    .option("--transfer", "receive weights from the memory of a torch learner")
    .option("--verbose", "show what vLLM prints")
    .argument("[flags...]", "flags for `vllm serve`, after --")
    .action(runStart);
  return new Command("vllm").description("run vLLM servers for sampling").addCommand(start.exitOverride());
}

async function runStart(named: string, more: string[], flags: Flags): Promise<void> {
  const model = await chosenModel(named);
  const { servers: count, port: first, contextTokens, verbose, python: chosen, ...rest } = flags;
  const python = chosen ?? process.env.SACCADE_VLLM_PYTHON ?? "python3";
  const stop = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop.abort());
  const say = (text: string) => process.stdout.write(`${text}\n`);
  const optionsFor = (port: number): VllmOptions => ({
    ...rest,
    python,
    model,
    port,
    flags: more,
    signal: stop.signal,
    ...(contextTokens !== undefined && { contextTokens }),
    ...(verbose && { onLine: (line: string) => process.stderr.write(`${port} ${line}\n`) }),
  });
  const ports = Array.from({ length: count }, (_, i) => first + i);
  let running: VllmServer[] = [];
  let watched: Promise<void>[] = [];
  try {
    const started = await Promise.allSettled(ports.map((port) => startVllm(optionsFor(port))));
    running = started.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    const failed = started.find((one) => one.status === "rejected");
    if (failed !== undefined) throw failed.reason;
    const urls = running.map(({ url }) => url);
    say(`vLLM ${running[0]?.install.version}: ${urls.join(" ")}`);
    say(`in a recipe: engine: ${JSON.stringify({ learner: "native", sampler: { vllm: urls } })}`);
    watched = running.map(async (_, i) => {
      while (!stop.signal.aborted) {
        await Promise.race([running[i]?.ended, aborted(stop.signal)]);
        if (stop.signal.aborted) return;
        say(`${running[i]?.url} ended; it is started again`);
        running[i] = await startVllm(optionsFor(ports[i] as number));
        say(`${running[i]?.url} is back`);
      }
    });
    await Promise.all(watched);
  } catch (error) {
    if (!stop.signal.aborted) throw error;
  } finally {
    // Before the servers are closed: a watcher would start them again, and one may be about to hand over a server that it started.
    stop.abort();
    await Promise.allSettled(watched);
    await Promise.all(running.map((server) => server.close()));
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    if (signal.aborted) done();
    signal.addEventListener("abort", () => done(), { once: true });
  });
}
