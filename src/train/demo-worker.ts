/** What runs inside a thread that plays demonstrations: a batch at a time. */
import { parentPort, workerData } from "node:worker_threads";
import { errorMessage } from "../core/errors.ts";
import { chatModel, loadChat } from "../model/chat.ts";
import { loadModule } from "../rollout/worker-modules.ts";
import { DemoPlayer } from "./demo-player.ts";
import { type DemoCall, type DemoReply, type DemoWorkerData, packBatch } from "./demo-wire.ts";

const { folder, style } = workerData as DemoWorkerData;
const opened = loadChat(folder).then((chat) => ({ chat, player: new DemoPlayer(chatModel(chat), style) }));

async function answer({ id, episodes }: Exclude<DemoCall, "close">): Promise<void> {
  try {
    const { chat, player } = await opened;
    for (const { env } of episodes) await loadModule(env);
    const { batch, transfer } = packBatch(await player.play(episodes), chat.processor);
    parentPort?.postMessage({ id, batch } satisfies DemoReply, transfer);
  } catch (error) {
    const name = error instanceof Error ? error.name : "Error";
    parentPort?.postMessage({ id, error: { name, message: errorMessage(error) } } satisfies DemoReply);
  }
}

// A world plays one episode at a time.
let last: Promise<void> = Promise.resolve();
parentPort?.on("message", (call: DemoCall) => {
  if (call !== "close") last = last.then(() => answer(call));
  // With no port left to listen to, the thread ends.
  else void last.then(async () => (await opened).player.close()).finally(() => parentPort?.close());
});
