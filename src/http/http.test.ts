/** The kit over real connections: what a face of ours can rely on, whatever it serves. */
import { connect } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { ConfigError } from "../core/errors.ts";
import { errorResponse, HttpError } from "./errors.ts";
import { EventStream, eventText } from "./event-stream.ts";
import { Guard, keyOf } from "./guard.ts";
import { readBody, readJson, Slots } from "./limits.ts";
import { isPlainTarget, segmentsOf } from "./paths.ts";
import { json, pieces } from "./responses.ts";
import { type Handler, type HttpServer, listen } from "./server.ts";

let server: HttpServer | undefined;
afterEach(async () => {
  await server?.close();
  server = undefined;
});

async function start(handle: Handler): Promise<string> {
  server = await listen({ handle, headers: { "X-Always": "yes" } });
  return server.url;
}

/** A promise and the function that fulfils it. */
function later<T = void>(): { promise: Promise<T>; done: (value: T) => void } {
  let done: (value: T) => void = () => {};
  const promise = new Promise<T>((resolve) => {
    done = resolve;
  });
  return { promise, done };
}

describe("A server", () => {
  test("hands method, path, query, headers and body to the handler, and its answer back", async () => {
    const url = await start(async (request) => {
      const { pathname, search } = new URL(request.url);
      const { method, headers } = request;
      const body = Buffer.from(await readBody(request, 100)).toString("utf8");
      return json([method, pathname, search, headers.get("x-mine"), headers.get("host"), body], { status: 201 });
    });
    const answer = await fetch(`${url}/a%20b/c?d=e`, { method: "PUT", headers: { "X-Mine": "1" }, body: "grüß" });
    expect(answer.status).toBe(201);
    expect(answer.headers.get("x-always")).toBe("yes");
    expect(await answer.json()).toEqual(["PUT", "/a%20b/c", "?d=e", "1", new URL(url).host, "grüß"]);
  });

  test("answers HEAD with the length and no body, and keeps cookies apart", async () => {
    const url = await start(() => {
      const answer = json({ a: 1 });
      answer.headers.append("Set-Cookie", "a=1");
      answer.headers.append("Set-Cookie", "b=2");
      return answer;
    });
    const answer = await fetch(url, { method: "HEAD" });
    expect([answer.headers.get("content-length"), await answer.text()]).toEqual(["7", ""]);
    expect(answer.headers.getSetCookie()).toEqual(["a=1", "b=2"]);
  });

  test.each<[string, unknown, number, string]>([
    ["an HttpError, with its headers", new HttpError(429, "slowly", { "Retry-After": "3" }), 429, "slowly"],
    ["what Saccade throws on purpose", new ConfigError("a wrong field"), 400, "a wrong field"],
    ["anything else", new TypeError("oh"), 500, "oh"],
  ])("turns %s into JSON", async (_, error, status, message) => {
    const url = await start(() => {
      throw error;
    });
    const answer = await fetch(url);
    expect([answer.status, await answer.json()]).toEqual([status, { error: message }]);
    expect(answer.headers.get("retry-after")).toBe(status === 429 ? "3" : null);
  });

  test("sends pieces as they come, and a reader that leaves ends their source and aborts the request", async () => {
    const left = later();
    const ended = later();
    const url = await start((request) => {
      request.signal.addEventListener("abort", () => left.done());
      async function* source() {
        try {
          for (let i = 0; ; i++) yield `${i};${" ".repeat(1 << 16)}`;
        } finally {
          ended.done();
        }
      }
      return pieces(source(), { type: "text/plain" });
    });
    const stop = new AbortController();
    const answer = await fetch(url, { signal: stop.signal });
    const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
    const { value } = await reader.read();
    expect(new TextDecoder().decode(value)).toMatch(/^0;/);
    stop.abort();
    await Promise.all([left.promise, ended.promise]);
  });

  test("a long answer goes out as it is read, also when its length is known before", async () => {
    const piece = new Uint8Array(256 * 1024);
    const count = 256;
    let made = 0;
    const url = await start(() => {
      const body = new ReadableStream<Uint8Array>({
        pull(to) {
          if (made === count) return to.close();
          made += 1;
          to.enqueue(piece);
        },
      });
      return new Response(body, { headers: { "Content-Length": String(piece.length * count) } });
    });
    const answer = await fetch(url);
    expect(answer.headers.get("content-length")).toBe(String(piece.length * count));
    const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
    let read = (await reader.read()).value?.length ?? 0;
    // Whoever reads has hardly begun: what fills the buffers between is made, not all.
    expect(made).toBeLessThan(count);
    for (let next = await reader.read(); !next.done; next = await reader.read()) read += next.value.length;
    expect([read, made]).toEqual([piece.length * count, count]);
  });

  test("a body that is too long is refused, and what is left of it is not read as a request", async () => {
    let asked = 0;
    const url = await start(async (request) => {
      asked += 1;
      return json((await readBody(request, 10)).length);
    });
    expect(await (await fetch(url, { method: "POST", body: "0123456789" })).json()).toBe(10);
    expect((await fetch(url, { method: "POST", body: "0123456789a" })).status).toBe(413);
    // Chunked: its length is not known before it is read. The second request hides in the rest.
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    const text = later<string>();
    let got = "";
    socket.on("data", (chunk: Buffer) => {
      got += chunk.toString();
    });
    socket.on("close", () => text.done(got));
    const hidden = "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n";
    socket.write("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    socket.write(`14\r\n${"x".repeat(20)}\r\n${hidden.length.toString(16)}\r\n${hidden}`);
    expect(await text.promise).toMatch(/^HTTP\/1\.1 413[\s\S]*connection: close/i);
    expect(got.match(/HTTP\/1\.1/g)).toHaveLength(1);
    expect(asked).toBe(3);
  });

  test("bodies of all requests have so much room together; one that stops coming makes way, a short one never waits", async () => {
    const reading: number[] = [];
    const uploads = { short: 100, maxShort: 200, maxLong: 2000, stallMs: 300, waitMs: 60_000 };
    server = await listen({
      uploads,
      handle: async (request) => {
        let size = 0;
        for await (const part of request.body ?? []) {
          reading.push(part.length);
          size += part.length;
        }
        return json(size);
      },
    });
    const { port, url } = server;
    const stalled = Array.from({ length: 6 }, () => {
      const socket = connect(port, "127.0.0.1");
      socket.write(`POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1500\r\n\r\n${"x".repeat(1000)}`);
      return socket;
    });
    const answers = stalled.map(async (socket) => {
      let said = "";
      for await (const part of socket) said += String(part);
      return said.split("\r\n", 1)[0];
    });
    // Room for one of them, until it is given up.
    await expect.poll(() => reading.length).toBeGreaterThan(0);
    expect(await (await fetch(url, { method: "POST", body: "short" })).json()).toBe(5);
    const read = reading.reduce((sum, length) => sum + length, 0);
    expect(read).toBeLessThan(3 * 1500);
    expect(await (await fetch(url, { method: "POST", body: "y".repeat(1600) })).json()).toBe(1600);
    expect(await Promise.all(answers)).toEqual(stalled.map(() => "HTTP/1.1 408 Request Timeout"));
  });

  test("a body without a length has less room, and one that finds none in time is told to come back", async () => {
    const go = later();
    server = await listen({
      uploads: { short: 10, maxLong: 100, maxUnsized: 80, waitMs: 50 },
      handle: async (request) => {
        const { length } = await readBody(request, 1000);
        if (length === 90) await go.promise;
        return json(length);
      },
    });
    const { url } = server;
    const send = (size: number) => fetch(url, { method: "POST", body: "x".repeat(size) });
    async function* unsized(size: number) {
      for (let i = 0; i < size; i += 20) yield new TextEncoder().encode("x".repeat(20));
    }
    const chunked = (size: number) =>
      fetch(url, { method: "POST", body: ReadableStream.from(unsized(size)), duplex: "half" } as RequestInit);
    expect((await chunked(60)).status).toBe(200);
    expect((await chunked(200)).status).toBe(413);
    const holder = send(90);
    await expect.poll(async () => (await send(50)).status).toBe(503);
    expect((await send(50)).headers.get("retry-after")).toBe("1");
    go.done();
    expect(await (await holder).json()).toBe(90);
    expect((await send(50)).status).toBe(200);
  });

  test("a port that is taken, and a host that is none of ours, are told with what to do", async () => {
    await start(() => json(1));
    const { port } = server as HttpServer;
    await expect(listen({ handle: () => json(1), port })).rejects.toThrow(/Port \d+ is taken.*--port/);
    await expect(listen({ handle: () => json(1), host: "192.0.2.1" })).rejects.toThrow(
      /not an address of this machine/,
    );
  });
});

describe("JSON of a request", () => {
  const post = (type: string, body: string) =>
    readJson(new Request("http://x", { method: "POST", headers: { "Content-Type": type }, body }), 100);
  test("is read when it says that it is, and refused otherwise", async () => {
    expect(await post("application/json; charset=utf-8", '{"a":[1]}')).toEqual({ a: [1] });
    await expect(post("text/plain", "{}")).rejects.toThrow("Content-Type: application/json");
    await expect(post("application/json", "{")).rejects.toThrow("not JSON");
    await expect(post("application/json", `"${"x".repeat(100)}"`)).rejects.toMatchObject({ status: 413 });
  });
});

describe("Slots", () => {
  test("at most so many work, the others follow in order, and one too many is told when to come back", async () => {
    const slots = new Slots({ most: 2, waiting: 2, retryAfterSeconds: 5 });
    const gates = [later(), later(), later(), later()];
    const began: number[] = [];
    const work = gates.map((gate, i) =>
      slots.run(async () => {
        began.push(i);
        await gate.promise;
        return i;
      }),
    );
    const refused = await slots.run(async () => {}).catch((error: unknown) => errorResponse(error));
    expect(refused).toMatchObject({ status: 503 });
    expect((refused as Response).headers.get("retry-after")).toBe("5");
    expect(began).toEqual([0, 1]);
    gates[1]?.done();
    expect(await work[1]).toBe(1);
    await Promise.resolve();
    expect(began).toEqual([0, 1, 2]);
    for (const gate of gates) gate.done();
    expect(await Promise.all(work)).toEqual([0, 1, 2, 3]);
  });

  test("work that fails gives its slot back, and who left while waiting does not get one", async () => {
    const slots = new Slots({ most: 1, waiting: 9 });
    const gate = later();
    const first = slots.run(() => gate.promise.then(() => Promise.reject(new Error("broken"))));
    const gone = new AbortController();
    const second = slots.run(async () => "never", gone.signal);
    const third = slots.run(async () => "third");
    gone.abort(new Error("left"));
    await expect(second).rejects.toThrow("left");
    gate.done();
    await expect(first).rejects.toThrow("broken");
    expect(await third).toBe("third");
    expect(await slots.run(async () => "fourth")).toBe("fourth");
  });
});

describe("Server-sent events", () => {
  test("have their fields in lines of their own, data of several lines included", () => {
    expect(eventText({ data: "a\nb", id: 7, event: "tick" })).toBe("event: tick\nid: 7\ndata: a\ndata: b\n\n");
  });

  test("arrive over a connection while it is open; the end of the reader is noticed once", async () => {
    const closed = later();
    let ends = 0;
    const streams: EventStream[] = [];
    const url = await start(() => {
      const stream = new EventStream({
        onClose: () => {
          ends += 1;
          closed.done();
        },
      });
      streams.push(stream);
      return stream.response;
    });
    const stop = new AbortController();
    const answer = await fetch(url, { signal: stop.signal });
    expect(answer.headers.get("content-type")).toBe("text/event-stream");
    const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
    let text = "";
    const until = async (end: string) => {
      while (!text.endsWith(end)) text += new TextDecoder().decode((await reader.read()).value);
    };
    await until(":\n\n");
    streams[0]?.send({ data: "1", id: 1 });
    await until("id: 1\ndata: 1\n\n");
    stop.abort();
    await closed.promise;
    expect(streams[0]?.open).toBe(false);
    streams[0]?.send({ data: "to nobody" });
    streams[0]?.close();
    expect(ends).toBe(1);
  });

  test("a reader that does not read is let go", async () => {
    let ended = false;
    const stream = new EventStream({
      maxUnreadBytes: 1000,
      onClose: () => {
        ended = true;
      },
    });
    for (let i = 0; i < 10; i++) stream.send({ data: "x".repeat(90) });
    expect(ended).toBe(false);
    stream.send({ data: "x".repeat(200) });
    expect([ended, stream.open]).toEqual([true, false]);
    await expect(stream.response.text()).rejects.toThrow("too slow");
  });
});

describe("A key", () => {
  const asked = (headers: Record<string, string>) => new Request("http://x", { headers });
  test("comes in the header, or in the cookie where one is named", () => {
    expect(keyOf(asked({ Authorization: "Bearer abc" }))).toBe("abc");
    expect(keyOf(asked({ Cookie: "a=b; mine=x%2Fy" }), "mine")).toBe("x/y");
    expect(keyOf(asked({ Cookie: "mine=x" }))).toBeUndefined();
    expect(keyOf(asked({ Cookie: "mine=%E0%A4%A" }), "mine")).toBeUndefined();
  });

  test("is needed beyond this machine, long enough, and exact", () => {
    expect(() => new Guard({ host: "0.0.0.0" })).toThrow("give a key (--api-key-file or SACCADE_API_KEY)");
    expect(() => new Guard({ host: "127.0.0.1", key: "short" })).toThrow(
      "A key (--api-key-file or SACCADE_API_KEY) has at least 16 characters.",
    );
    const guard = new Guard({ host: "0.0.0.0", key: "0123456789abcdef" });
    expect([undefined, "", "0123456789abcdeF", "0123456789abcdef"].map((key) => guard.isKey(key))).toEqual([
      false,
      false,
      false,
      true,
    ]);
    expect(new Guard({ host: "127.0.0.1" }).isKey(undefined)).toBe(true);
  });
});

describe("A name that others use for this machine", () => {
  const key = "0123456789abcdef";
  const from = (host: string, more: Record<string, string> = {}) => ({
    method: "GET",
    url: "http://localhost/",
    headers: { get: (name: string) => ({ host, ...more })[name] ?? null },
    signal: AbortSignal.abort(),
    body: null,
  });

  test("is answered where it was allowed, and no other is", () => {
    const guard = new Guard({ host: "0.0.0.0", key, names: ["Policy.Example", "*.svc.cluster.local"] });
    for (const host of ["policy.example", "POLICY.example:8000", "a.b.svc.cluster.local:80", "10.0.0.7", "localhost"]) {
      expect(() => guard.checkSource(from(host), true), host).not.toThrow();
    }
    const others = ["example", "x.policy.example", "svc.cluster.local", "a.svc.cluster.local.evil.com", "", "*"];
    for (const host of [...others, "evil.com#policy.example"]) {
      expect(() => guard.checkSource(from(host), true), host).toThrow("--allow-host");
    }
    const page = { origin: "https://policy.example" };
    expect(() => guard.checkSource(from("policy.example", page), true)).not.toThrow();
    expect(() => guard.checkSource(from("10.0.0.7", page), true)).toThrow("other sites");
  });

  test("is allowed on loopback too, behind a proxy, and always needs a key", () => {
    const guard = new Guard({ host: "127.0.0.1", key, names: ["policy.example"] });
    expect(() => guard.checkSource(from("policy.example"), true)).not.toThrow();
    expect(() => guard.checkSource(from("10.0.0.7"), true)).toThrow("--allow-host");
    expect(() => new Guard({ host: "127.0.0.1", names: ["policy.example"] })).toThrow(
      "give a key (--api-key-file or SACCADE_API_KEY)",
    );
    for (const name of ["", "*", "*.", "http://a", "a b", "a:80", "a/b", "a.*"]) {
      expect(() => new Guard({ host: "127.0.0.1", key, names: [name] }), name).toThrow("--allow-host");
    }
  });
});

describe("Paths", () => {
  test.each(["/", "/a/b?x=/../", "/a..b/.c", "/%2f"])("%s is a plain target", (target) => {
    expect(isPlainTarget(target)).toBe(true);
  });
  test.each(["", "*", "a", "http://x/", "/../a", "/a/%2E%2e/b", "/.", "/a\\b", "/a\u0000", "/a#b"])(
    "%j is none",
    (target) => {
      expect(isPlainTarget(target)).toBe(false);
    },
  );
  test("segments are decoded, and hidden separators refused", () => {
    expect(segmentsOf("/api/a%20b/")).toEqual(["api", "a b", ""]);
    for (const path of ["/a%2fb", "/a%5cb", "/%2e%2e", "/a%00", "/%c0%ae"]) expect(segmentsOf(path)).toBeUndefined();
  });
});
