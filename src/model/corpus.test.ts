import { expect, test } from "vitest";
import { listEnvs, protocolNames } from "../envs/index.ts";
import { collectCorpus } from "./corpus.ts";
import { PRESETS } from "./presets.ts";
import { Tokenizer } from "./tokenizer.ts";
import { trainTokenizer } from "./train-tokenizer.ts";

test("the corpus hears every world in every protocol and makes our words short", async () => {
  const corpus = await collectCorpus();
  const prompts = corpus.filter((said) => said.startsWith("user\n"));
  expect(prompts.length).toBeGreaterThan(listEnvs().length * protocolNames.length * 2);
  expect(corpus.some((said) => said.startsWith("assistant\n"))).toBe(true);
  const tokenizer = new Tokenizer(trainTokenizer(corpus, PRESETS.micro.vocab));
  expect(tokenizer.size).toBe(PRESETS.micro.vocab);
  const letters = corpus.reduce((sum, said) => sum + said.length, 0);
  const ids = corpus.reduce((sum, said) => sum + tokenizer.encodeText(said).length, 0);
  expect(letters / ids).toBeGreaterThan(2.5);
  expect(tokenizer.encodeText("user\n").length + tokenizer.encodeText("assistant\n").length).toBeLessThanOrEqual(4);
});
