/** `saccade vllm start` with servers that are made up. */
import { expect, test, vi } from "vitest";
import { startVllm, type VllmOptions, type VllmServer } from "../engine/vllm/launch.ts";
import { vllmCommand } from "./vllm.ts";

vi.mock("../engine/vllm/launch.ts", () => ({ startVllm: vi.fn() }));

/** A server that ends when it is told to, or when it is closed. */
function serverOn(port: number): VllmServer & { die(): void; closed: boolean } {
  let die = () => {};
  const ended = new Promise<void>((done) => {
    die = done;
  });
  const install = { python: "python3", version: "1", cpu: true };
  const server = { url: `http://x:${port}`, name: "policy", install, pid: 1, ended, die, closed: false };
  const close = async () => {
    server.closed = true;
    die();
    await ended;
  };
  return Object.assign(server, { close });
}

test("a server that can't be started again ends the others, and none is started after that", async () => {
  const [first, second] = [serverOn(8000), serverOn(8001)];
  const starts: (number | undefined)[] = [];
  vi.mocked(startVllm).mockImplementation(async ({ port }: VllmOptions) => {
    starts.push(port);
    if (starts.length > 2) throw new Error("no memory");
    return port === 8000 ? first : second;
  });
  const said = vi.spyOn(process.stdout, "write").mockReturnValue(true);
  try {
    const running = vllmCommand().parseAsync(["start", "models/maze-2d", "--servers", "2"], { from: "user" });
    await vi.waitFor(() => expect(said).toHaveBeenCalledTimes(2));
    first.die();
    await expect(running).rejects.toThrow("no memory");
    expect(second.closed).toBe(true);
    await new Promise((done) => setImmediate(done));
    expect(starts).toEqual([8000, 8001, 8000]);
  } finally {
    said.mockRestore();
  }
});
