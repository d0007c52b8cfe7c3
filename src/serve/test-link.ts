/**
 * For tests: a link between a client and a server that loses requests on the way there, loses answers on the way back, delays both, and repeats requests,
 * at once or much later. What it does is decided by a seed and the order of requests.
 */
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { NumpyRandom } from "../core/random-numpy.ts";

export type BadLink = {
  readonly url: string;
  readonly faults: Record<"lost request" | "lost answer" | "repeated" | "repeated late", number>;
  close(): Promise<void>;
};

export async function badLink(target: string, seed: number): Promise<BadLink> {
  const random = new NumpyRandom(seed);
  const faults: BadLink["faults"] = { "lost request": 0, "lost answer": 0, repeated: 0, "repeated late": 0 };
  const late: Promise<unknown>[] = [];
  const server = createServer(async (request, response) => {
    const body = await readAll(request);
    const send = () =>
      fetch(`${target}${request.url}`, {
        method: request.method as string,
        headers: { "content-type": request.headers["content-type"] ?? "" },
        body,
      });
    const draw = random.random();
    const wait = random.random() * 8;
    const fault =
      draw < 0.15
        ? "lost request"
        : draw < 0.3
          ? "lost answer"
          : draw < 0.4
            ? "repeated"
            : draw < 0.5
              ? "repeated late"
              : undefined;
    if (fault !== undefined) faults[fault] += 1;
    await sleep(wait);
    if (fault === "lost request") return response.destroy();
    const [answer] = await Promise.all([send(), ...(fault === "repeated" ? [send()] : [])]);
    const bytes = Buffer.from(await answer.arrayBuffer());
    if (fault === "repeated late") late.push(sleep(20 + 10 * wait).then(send));
    if (fault === "lost answer") return response.destroy();
    await sleep(wait / 2);
    const headers = { "content-type": answer.headers.get("content-type") ?? "", "content-length": bytes.length };
    return response.writeHead(answer.status, headers).end(bytes);
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    faults,
    async close() {
      await Promise.all(late);
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
}

async function readAll(request: IncomingMessage): Promise<Buffer<ArrayBuffer>> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}
