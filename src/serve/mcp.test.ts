/** Environments as an MCP server: the official client starts the command, sees the world and plays it to success. */
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { expect, test } from "vitest";
import { imagesOf } from "../core/message.ts";
import { makeEnv } from "../envs/index.ts";
import { decodeImage } from "../images/decode.ts";

const JITI = join(dirname(createRequire(import.meta.url).resolve("jiti/package.json")), "lib/jiti-cli.mjs");
const SERVER = fileURLToPath(new URL("test-mcp.ts", import.meta.url));

type Content = { type: string; text?: string; data?: string };

test("the official client plays the lake to success, and sees the frames of local play", async () => {
  const client = new Client({ name: "test", version: "1" });
  await client.connect(
    new StdioClientTransport({ command: "node", args: [JITI, SERVER, "frozen_lake"], stderr: "ignore" }),
  );
  const env = await makeEnv("frozen_lake");
  try {
    const call = async (name: string, args: Record<string, unknown>) => {
      const result = await client.callTool({ name, arguments: args });
      return result as unknown as { content: Content[]; isError?: boolean; structuredContent?: object };
    };
    const hashes = async (content: readonly Content[]) => {
      const images = content.filter(({ type }) => type === "image");
      return Promise.all(
        images.map(async ({ data }) => (await decodeImage(Buffer.from(data as string, "base64"))).hash),
      );
    };
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(["start_episode", "reply"]);
    expect(await call("reply", { text: "left" })).toMatchObject({ isError: true });
    const first = await call("start_episode", { seed: 3 });
    expect(await hashes(first.content)).toEqual((await env.reset(3)).flatMap(imagesOf).map(({ hash }) => hash));
    for (;;) {
      const text = (await env.builtinReply?.("oracle", 0)) as string;
      const [step, answer] = [await env.step(text), await call("reply", { text })];
      expect(await hashes(answer.content)).toEqual(step.observation.flatMap(imagesOf).map(({ hash }) => hash));
      expect(answer.structuredContent).toMatchObject({ done: step.terminated });
      if (!step.terminated) continue;
      expect(answer.structuredContent).toMatchObject({ success: true });
      expect(answer.content.at(-1)?.text).toContain("The episode is over: success.");
      return;
    }
  } finally {
    await client.close();
    await env.close?.();
  }
}, 60_000);
