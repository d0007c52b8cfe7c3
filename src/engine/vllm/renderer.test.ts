/** Rendering survives its servers: what one can't say, another does. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { text, user } from "../../core/message.ts";
import { fromOpenAI } from "../../images/openai.ts";
import { type ChatFolder, loadChat } from "../../model/chat.ts";
import { createFolder } from "../../model/folder.ts";
import { TINY_CORPUS, temporaryFolder } from "../../model/test-folder.ts";
import { ServerLost, ServerRefused } from "./http.ts";
import { type RenderServer, VllmRenderer } from "./renderer.ts";

let root = "";
let chat: ChatFolder;
beforeAll(async () => {
  root = await temporaryFolder();
  await createFolder(join(root, "model"), { corpus: TINY_CORPUS, vocab_size: 300, seed: 1 });
  chat = await loadChat(join(root, "model"));
});
afterAll(() => rm(root, { recursive: true, force: true }));

/** Renders as the folder does, until `fault` says something. */
class Server implements RenderServer {
  asked = 0;
  fault: (asked: number) => Error | undefined = () => undefined;
  readonly url: string;
  constructor(name: string) {
    this.url = `http://${name}`;
  }

  async render(messages: unknown, { addGenerationPrompt }: { readonly addGenerationPrompt: boolean }) {
    this.asked += 1;
    const fault = this.fault(this.asked);
    if (fault !== undefined) throw fault;
    const said = await fromOpenAI(messages, () => Promise.reject(new Error("no images here")));
    const continues = { generationPrompt: addGenerationPrompt };
    return { ids: [...chat.renderer.prompt(said, continues).ids], images: [] };
  }
}

async function pair(contextTokens?: number) {
  const servers = [new Server("a"), new Server("b")] as const;
  const limit = contextTokens === undefined ? {} : { contextTokens };
  const renderer = await VllmRenderer.open(servers, chat, { patienceMs: 5000, everyMs: 5, ...limit });
  const prompt = async (words: string) => [...(await renderer.prompt([user(text(words))])).ids];
  const expected = (words: string) => [...chat.renderer.prompt([user(text(words))]).ids];
  return { servers, renderer, prompt, expected };
}

describe("a lost render server", () => {
  test("is passed over, and play goes on with the other", async () => {
    const { servers, prompt, expected } = await pair();
    const [dead, alive] = servers;
    dead.fault = () => new ServerLost("gone");
    const before = alive.asked;
    for (let i = 0; i < 6; i++) expect(await prompt(`look ${i}`)).toEqual(expected(`look ${i}`));
    expect(alive.asked - before).toBe(6);
  });

  test("is waited for when it was the last", async () => {
    const { servers, prompt, expected } = await pair();
    for (const server of servers) {
      const from = server.asked;
      server.fault = (asked) => (asked < from + 4 ? new ServerLost("gone") : undefined);
    }
    expect(await prompt("look")).toEqual(expected("look"));
  });

  test("is not what a conversation finds that no server can render", async () => {
    const { servers, prompt } = await pair();
    const from = servers.map(({ asked }) => asked);
    for (const server of servers) server.fault = () => new ServerRefused(server.url, 500, "odd");
    await expect(prompt("look")).rejects.toThrow("odd");
    expect(servers.map(({ asked }, i) => asked - (from[i] as number)).reduce((a, b) => a + b)).toBe(3);
    for (const server of servers) server.fault = () => new ServerRefused(server.url, 400, "wrong");
    await expect(prompt("look")).rejects.toThrow("wrong");
  });
});

describe("messages over the servers' limit", () => {
  const words = "look ".repeat(60);
  /** As vLLM 0.32 refuses them: the reply's one token counts, too. */
  const refuse = (servers: readonly Server[], limit: number) => {
    for (const server of servers)
      server.fault = () => new ServerRefused(server.url, 400, `Input length exceeds ${limit}`);
  };

  test("are never sent: their ids come from the folder, so that the ledger can say what does not fit", async () => {
    const length = chat.renderer.prompt([user(text(words))]).ids.length;
    const { servers, renderer, prompt, expected } = await pair(length);
    refuse(servers, length);
    expect(await prompt(words)).toEqual(expected(words));
    // This one fits, but not behind the stub that servers render it with.
    const short = [user(text(words.slice(10)))];
    const delta = chat.renderer.delta(short, { ended: true }).ids;
    expect(delta.length).toBeLessThan(length);
    expect((await renderer.delta(short, { ended: true })).ids).toEqual(delta);
  });

  test("and those just under it are", async () => {
    const length = chat.renderer.prompt([user(text(words))]).ids.length;
    const { servers, prompt, expected } = await pair(length + 1);
    expect(await prompt(words)).toEqual(expected(words));
    refuse(servers, length);
    await expect(prompt(`${words}.`)).resolves.toHaveLength(length + 1);
    await expect(prompt("look")).rejects.toThrow("Input length");
  });
});
