/**
 * Beside the real vLLM: the same requests to both, over the same folder. Status, fields, ids and the form of errors are equal, log-probabilities
 * within 1e-4; what differs on purpose is listed. Runs where SACCADE_VLLM_PYTHON names an environment with vLLM; SACCADE_REQUIRE=vllm makes its
 * absence a failure (src/train/vllm.test.ts).
 */
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startVllm, type VllmServer } from "../engine/vllm/launch.ts";
import { differences } from "./test-compare.ts";
import { ask, REQUESTS, type TestAnswer } from "./test-requests.ts";
import { type Served, serveTiny, writeAdapter } from "./test-serve.ts";

const python = process.env.SACCADE_VLLM_PYTHON;

/** By request, where our answer is meant to be another. */
const ON_PURPOSE: Readonly<Record<string, RegExp>> = {
  // vLLM fills the list with impossible ids.
  "chat: top-k 1 is greedy": /top_logprobs: 1 for 2 elements/,
  // vLLM gives the bytes of the words "token_id:…".
  "chat: tokens as ids": /top_logprobs\.0\.bytes/,
  // vLLM names the class of its first guess, and the byte.
  "chat: a message without a role": /error\.param: "body\.messages\.0\.role"/,
  "chat: broken JSON": /error\.param: "body" for "body\.14"/,
  // Vision ids have no share of ours, and ranks are not known.
  "generate: log-probabilities of the prompt": /prompt_logprobs/,
  // A request that can't be read is the client's mistake.
  "generate: features that are none": /status 400 for 500/,
};

const pieces = ({ type, text }: TestAnswer) => (type.startsWith("text/event-stream") ? text.split("data: ").length : 0);

describe.runIf(python)("beside the real vLLM", () => {
  let served: Served;
  let vllm: VllmServer | undefined;
  const answers = new Map<string, { ours: TestAnswer; theirs: TestAnswer }>();

  beforeAll(async () => {
    served = await serveTiny();
    await writeAdapter(served.engine, served.folder, join(served.root, "adapter"));
    const model = served.folder;
    vllm = await startVllm({ python: python as string, model, contextTokens: 1024, images: 24, loraRank: 8 });
    // In order: some rows change what later ones see.
    for (const request of REQUESTS) {
      const both = [served.url, vllm.url].map((url) => ask(url, request, "policy", served.root));
      const [ours, first] = (await Promise.all(both)) as [TestAnswer, TestAnswer];
      let theirs = first;
      // Ids that are ready at the same time share a piece of vLLM's stream: on a busy machine it has fewer pieces than ids.
      for (let i = 0; i < 5 && pieces(theirs) < pieces(ours); i++) {
        theirs = await ask(vllm.url, request, "policy", served.root);
      }
      answers.set(request.name, { ours, theirs });
    }
  }, 600_000);
  afterAll(async () => {
    await vllm?.close();
    await served?.close();
  });

  test.each(REQUESTS.map(({ name }) => name))("%s", (name) => {
    const { ours, theirs } = answers.get(name)!;
    const found = differences(ours, theirs);
    const meant = ON_PURPOSE[name];
    if (meant === undefined) expect(found).toEqual([]);
    else {
      expect(found.filter((line) => !meant.test(line))).toEqual([]);
      expect(found).not.toEqual([]);
    }
  });
});
