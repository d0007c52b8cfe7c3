/**
 * For tests: the Gymnasium server of `python/`, started with the Python that SACCADE_GYM_PYTHON names, or with `python3` where that has gymnasium.
 * SACCADE_REQUIRE=gymnasium makes its absence a failure.
 */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

const SCRIPT = fileURLToPath(new URL("../../python/saccade_gym.py", import.meta.url));
export const gymPython = findPython();
export const gymRequired = (process.env.SACCADE_REQUIRE ?? "").split(",").includes("gymnasium");

export type GymServer = { readonly url: string; readonly pid: number; close(): Promise<void> };

function findPython(): string | undefined {
  const python = process.env.SACCADE_GYM_PYTHON ?? "python3";
  try {
    execFileSync(python, ["-c", "import gymnasium, pygame"], { stdio: "pipe" });
    return python;
  } catch {
    return undefined;
  }
}

export async function startGym(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<GymServer> {
  const child = spawn(gymPython as string, [SCRIPT, ...args, "--port", "0"], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let errors = "";
  child.stderr.on("data", (data: Buffer) => {
    errors += data.toString();
  });
  const url = await new Promise<string>((found, fail) => {
    child.stdout.once("data", (data: Buffer) => found(data.toString().trim()));
    child.once("exit", () => fail(new Error(errors)));
  });
  return {
    url,
    pid: child.pid as number,
    async close() {
      if (child.exitCode !== null) return;
      child.kill();
      await once(child, "exit");
    },
  };
}

/** The same replies played in Python, without any server: rewards and a digest of each image. */
const DIRECT = `
import hashlib, json, sys
sys.path.insert(0, ${JSON.stringify(fileURLToPath(new URL("../../python", import.meta.url)))})
import gymnasium as gym, numpy as np
from gym_server.observations import as_image
name, options, seed, actions = json.loads(sys.argv[1])
env = gym.make(name, render_mode="rgb_array", **options)
seen = lambda: hashlib.sha256(np.ascontiguousarray(as_image(env.render())).tobytes()).hexdigest()
env.reset(seed=seed)
told = [[None, False, seen()]]
for action in actions:
    action = np.array(action, dtype=env.action_space.dtype) if isinstance(action, list) else action
    _, reward, terminated, truncated, _ = env.step(action)
    told.append([float(reward), bool(terminated or truncated), seen()])
    if terminated or truncated: break
print(json.dumps(told))
`;

export type Told = readonly [reward: number | null, over: boolean, image: string];

export function playDirectly(name: string, options: object, seed: number, actions: readonly unknown[]): Told[] {
  const env = { ...process.env, SDL_VIDEODRIVER: "dummy" };
  const given = JSON.stringify([name, options, seed, actions]);
  const out = execFileSync(gymPython as string, ["-c", DIRECT, given], { encoding: "utf8", stdio: "pipe", env });
  return JSON.parse(out.trim().split("\n").at(-1) as string) as Told[];
}
