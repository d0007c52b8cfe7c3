/**
 * What programs cost a whole step: the same recipe, once with the talk as an environment in this process and once with programs that call the model over HTTP.
 * Both play 64 episodes of eight turns with an image each and learn from all of them; the first step warms up. `npm run bench -- agents`.
 * BENCH_ENGINE: the recipe's engine, JSON ("native"); BENCH_MODEL: its model, JSON, or "2b" for random weights in the shape of Qwen3-VL-2B
 * ({"preset":"nano"}); BENCH_FOLDER: where that model is made, and left for the next time; BENCH_STEPS: how many steps (4); BENCH_PROGRAMS: how many programs (64).
 * Where there is an NVIDIA GPU, its idle share is printed.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { benchModel, earned, Gpu, median, trainUnsaved } from "./gpu.ts";
import { table } from "./peer.ts";
import {
  defineEnv,
  defineRecipe,
  type Env,
  encodePng,
  type Image,
  image,
  isImage,
  type Metrics,
  makeWorld,
  type RecipeInput,
  register,
  resolveRecipe,
  user,
} from "./saccade.ts";

const STEPS = Number(process.env.BENCH_STEPS ?? 4);
const PROGRAMS = Number(process.env.BENCH_PROGRAMS ?? 64);
const TOKENS = Number(process.env.BENCH_TOKENS ?? 64);
const EPISODES = 64;
const SIBLINGS = 8;
const TURNS = 8;

const engine: RecipeInput["engine"] = JSON.parse(process.env.BENCH_ENGINE ?? '"native"');

const folder = mkdtempSync(join(tmpdir(), "saccade-agents-"));
/** One for both sides. */
const model = await benchModel(process.env.BENCH_MODEL ?? '{"preset":"nano"}', folder);
/** A maze for each turn, so that every turn brings pixels that the model has not seen. */
const maze = await makeWorld("maze_2d/easy");
const frames: Image[] = [];
for (let seed = 0; seed < TURNS; seed++) {
  await maze.reset(seed);
  const seen = await maze.observe("image");
  if (!isImage(seen)) throw new Error("expected an image");
  frames.push(seen);
}
writeFileSync(
  join(folder, "agent.cjs"),
  `
const urls = ${JSON.stringify(frames.map((frame) => `data:image/png;base64,${Buffer.from(encodePng(frame)).toString("base64")}`))};
const earned = ${earned};
require("node:readline").createInterface({ input: process.stdin }).on("line", async (line) => {
  const { baseURL, apiKey } = JSON.parse(line);
  const headers = { "content-type": "application/json", authorization: "Bearer " + apiKey };
  const messages = [];
  let text = "";
  for (const url of urls) {
    messages.push({ role: "user", content: [{ type: "image_url", image_url: { url } }] });
    const answer = await fetch(baseURL + "/chat/completions", { method: "POST", headers, body: JSON.stringify({ model: "m", messages }) });
    if (!answer.ok) { console.log(JSON.stringify({ reward: 0 })); return; }
    const { choices } = await answer.json();
    messages.push(choices[0].message);
    text = choices[0].message.content ?? "";
  }
  console.log(JSON.stringify({ reward: earned(text) }));
});
`,
);
writeFileSync(join(folder, "tasks.jsonl"), Array.from({ length: 64 }, (_, i) => JSON.stringify({ i })).join("\n"));

register(
  defineEnv({
    id: "bench_talk",
    options: z.strictObject({}),
    create: (): Env => {
      let turn = 0;
      const show = () => [user(image(frames[turn] as Image))];
      return {
        reset: () => {
          turn = 0;
          return show();
        },
        step: (reply) => {
          turn += 1;
          const over = turn === TURNS;
          return {
            observation: over ? [] : show(),
            rewards: [{ name: "task", value: over ? earned(reply) : 0 }],
            terminated: over,
            truncated: false,
            info: { actions: [], parsed: true, wellFormed: true, valid: true },
          };
        },
      };
    },
  }),
);

type Side = { readonly steps: Metrics[]; readonly cpu: number[]; readonly idle: number | undefined };

async function play(name: string, envs: RecipeInput["envs"]): Promise<Side> {
  const recipe = resolveRecipe(
    defineRecipe({
      name,
      model,
      engine,
      envs,
      steps: STEPS + 1,
      groups: EPISODES / SIBLINGS,
      siblings: SIBLINGS,
      sampling: { maxTokens: TOKENS, contextTokens: 2048 },
      evaluate: { every: 0 },
      sight: { every: 0 },
      optimizer: { name: "adamw", learningRate: 1e-5 },
      rollout: { live: EPISODES },
    }),
  );
  const gpu = new Gpu();
  const steps: Metrics[] = [];
  const cpu: number[] = [];
  let used = process.cpuUsage();
  await trainUnsaved({ recipe, folder: join(folder, name) }, async (metrics) => {
    const { user: own, system } = process.cpuUsage(used);
    used = process.cpuUsage();
    steps.push(metrics);
    cpu.push((own + system) / 1e6);
    if (steps.length === 1) gpu.forget();
    const spent = (metric: string) => (metrics[`time/${metric}`] ?? Number.NaN).toFixed(2);
    console.error(
      `${name}: step ${steps.length} of ${STEPS}, ${spent("step")} s (playing ${spent("sample")}, learning ${spent("learn")}), ` +
        `${cpu.at(-1)?.toFixed(2)} s of CPU, GPU idle so far: ${gpu.idle?.toFixed(0) ?? "–"} %`,
    );
    return steps.length === STEPS;
  });
  const { idle } = gpu;
  gpu.close();
  return { steps: steps.slice(1), cpu: cpu.slice(1), idle };
}

const program = {
  command: [process.execPath, join(folder, "agent.cjs")],
  tasks: join(folder, "tasks.jsonl"),
  persistent: true,
  concurrency: PROGRAMS,
};
try {
  const outside = await play("programs", [{ program }]);
  const sides = { "in this process": await play("local", [{ env: "bench_talk" }]), [`${PROGRAMS} programs`]: outside };
  const local = sides["in this process"] as Side;
  const times = ["time/step", "time/sample", "time/learn", "time/wait", "time/other"] as const;
  const of = (side: Side, metric: string) => median(side.steps.map((step) => step[metric] ?? Number.NaN));
  table(
    [
      "seconds of a step",
      ...times.map((metric) => metric.slice(5)),
      "CPU of this process",
      "tokens a reply",
      "failed",
      "GPU idle",
    ],
    Object.entries(sides).map(([side, found]) => [
      side,
      ...times.map((metric) => of(found, metric).toFixed(2)),
      median(found.cpu).toFixed(2),
      of(found, "train/reply_tokens").toFixed(1),
      String(of(found, "train/failed")),
      found.idle === undefined ? "–" : `${found.idle.toFixed(0)} %`,
    ]),
  );
  const programs = sides[`${PROGRAMS} programs`] as Side;
  const longer = of(programs, "time/step") - of(local, "time/step");
  const cpu = median(programs.cpu) - median(local.cpu);
  const share = (seconds: number) => `${((100 * seconds) / of(programs, "time/step")).toFixed(1)} % of the step`;
  console.log(
    `The endpoint adds ${longer.toFixed(2)} s (${share(longer)}) and ${cpu.toFixed(2)} s of CPU (${share(cpu)}) to ${EPISODES * TURNS} requests. ` +
      `Median of ${STEPS - 1} steps, ${cpus().length} cores, load ${loadavg()[0]?.toFixed(1)}.`,
  );
} finally {
  rmSync(folder, { recursive: true, force: true });
}
