import { appendFile, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { encodeGif } from "../images/gif.ts";
import { decodePng } from "../images/png.ts";
import { record, withFolder } from "../run/test-run.ts";
import type {
  CompareReply,
  ErrorReply,
  EvaluationsReply,
  GroupReply,
  LiveMessage,
  PinnedReply,
  PlayState,
  RunOverview,
  RunsReply,
  SeriesReply,
  SightReply,
  TimelineReply,
  TrajectoryPage,
  TrajectoryReply,
} from "./api.ts";
import { routes } from "./api.ts";
import { startViewer } from "./server.ts";
import { CONFIG, follow, frame, get, sharedViewer, withViewer, writeRun, writeStep } from "./test-viewer.ts";

describe("what the routes say of a run", () => {
  test("runs are listed newest first with how they stand, and compared by what differs", () =>
    withViewer(async (viewer, folder) => {
      const other = await writeRun(join(folder, "other"), { steps: 1, name: "other" });
      await other.close("stopped", "by hand");
      const { runs } = await get<RunsReply>(viewer, routes.runs());
      expect(runs.map(({ id, status, step }) => [id, status, step])).toEqual([
        ["other", "stopped", 1],
        ["small", "finished", 3],
      ]);
      const manifest = JSON.parse(await readFile(join(folder, "other/run.json"), "utf8"));
      manifest.config.seed = 2;
      await writeFile(join(folder, "other/run.json"), JSON.stringify(manifest));
      const { rows } = await get<CompareReply>(viewer, routes.compare(["small", "other"]));
      expect(rows).toEqual([{ key: "seed", values: [1, 2] }]);
    }));

  test("the overview has the first episode that failed, until the run goes on", () =>
    withViewer(async (viewer, folder) => {
      const run = await writeRun(join(folder, "broken"), { steps: 1, name: "broken" });
      const failure = { env: "lake.ts", seed: 7, end: "env_error", error: "It broke.", stack: "at act (lake.ts:3:9)" };
      run.log("failure", 1, {}, { message: failure.error, data: failure });
      run.log("failure", 1, {}, { message: "later", data: { ...failure, error: "later" } });
      await run.flush();
      const overview = async () => get<RunOverview>(viewer, routes.overview("broken"));
      expect((await overview()).failure).toEqual({ ...failure, step: 1 });
      expect((await overview()).log.map(({ kind }) => kind)).toContain("failure");
      await appendFile(
        join(folder, "broken", "events.jsonl"),
        `${JSON.stringify({ step: 1, time: 9, kind: "resume", metrics: {}, from: 1e9 })}\n`,
      );
      expect((await overview()).failure).toBeUndefined();
      await run.close("stopped");
    }));

  test("the overview has the manifest, the metrics in order, the alarms and the log", () =>
    withViewer(async (viewer) => {
      const overview = await get<RunOverview>(viewer, routes.overview("small"));
      expect(overview.steps).toBe(3);
      expect(overview.manifest?.config.seed).toBe(1);
      expect(overview.metrics["train/success"]).toBe(0.3);
      expect(overview.metricNames.map(({ name, points }) => [name, points]).slice(0, 2)).toEqual([
        ["train/success", 3],
        ["eval/success", 2],
      ]);
      expect(overview.log.map(({ kind }) => kind)).toEqual(["start", "end"]);
      expect(overview.missing).toEqual([]);
    }));

  test("curves come by name, and a long one thinned out keeps its extremes and both ends", () =>
    withFolder(async (folder) => {
      const run = await writeRun(join(folder, "long"), { steps: 0 });
      for (let step = 1; step <= 5000; step++) {
        run.log("train", step, { "policy/loss": step === 1234 ? 99 : Math.sin(step), "policy/ratio": 1 });
      }
      run.log("train", 5001, { "policy/loss": Number.NaN });
      await run.close("finished");
      const viewer = await startViewer({ folder });
      try {
        const route = `${routes.series("long")}?metric=policy/loss&points=100`;
        const { series } = await get<SeriesReply>(viewer, route);
        expect(series.map(({ name, total }) => [name, total])).toEqual([["policy/loss", 5001]]);
        const { steps, values, high } = series[0]!;
        expect(steps.length).toBeLessThanOrEqual(100);
        expect(high).toContain(99);
        expect([steps[0], steps.at(-1), values.at(-1)]).toEqual([1, 5001, null]);
      } finally {
        await viewer.close();
      }
    }));

  test("a trajectory has its whole record, its siblings, its neighbours and the frames that are missing", () =>
    withViewer(async (viewer, folder) => {
      await rm(join(folder, `small/frames/${frame(102).hash}.png`));
      const { rows } = await get<TrajectoryPage>(
        viewer,
        `${routes.trajectories("small")}?stepMin=2&stepMax=2&order=asc`,
      );
      const reply = await get<TrajectoryReply>(viewer, routes.trajectory("small", rows[0]!.key));
      expect(reply.record.tokens?.[0]?.ids).toEqual([1, 2, 3, 4]);
      expect(reply.siblings.map(({ sibling }) => sibling)).toEqual([0, 1, 2, 3]);
      expect(reply.next).toBe(rows[1]!.key);
      expect(reply.previous).toBeDefined();
      expect(reply.missingFrames).toEqual([frame(102).hash]);
    }));

  test("a group is its members by sibling without tokens, and the turn where they part", () =>
    withViewer(async (viewer) => {
      const { rows } = await get<TrajectoryPage>(viewer, `${routes.trajectories("small")}?stepMax=1&split=train`);
      const { members, divergence } = await get<GroupReply>(viewer, routes.group("small", rows[0]!.key));
      expect(members.map(({ row }) => row.sibling)).toEqual([0, 1, 2, 3]);
      expect(divergence).toBe(0);
      expect(members.every(({ record }) => !("tokens" in record))).toBe(true);
    }));

  test("a pinned seed is found at every evaluation", () =>
    withViewer(async (viewer) => {
      const { seeds } = await get<EvaluationsReply>(viewer, routes.evaluations("small"));
      expect(seeds).toEqual([{ env: "maze", seed: 900, temperature: 0, steps: [1, 3], successes: [false, true] }]);
      const route = `${routes.pinned("small")}?env=maze&seed=900&temperature=0`;
      const { episodes } = await get<PinnedReply>(viewer, route);
      expect(episodes.map(({ record }) => [record.step, record.success])).toEqual([
        [1, false],
        [3, true],
      ]);
    }));

  test("sight has the probes, the frames that differ, and the episodes that looked past the image first", () =>
    withViewer(async (viewer) => {
      const sight = await get<SightReply>(viewer, routes.sight("small"));
      expect(sight.probes.map(({ step, gap, low, turns }) => [step, gap, low, turns])).toEqual([
        [1, 0.5, 0.2, [0.5]],
        [3, 0.5, 0.2, [0.5]],
      ]);
      expect(sight.frames).toEqual({ checked: 3, mismatched: 1 });
      expect(sight.mismatched.map(({ step }) => step)).toEqual([2]);
      expect(sight.blind).toBe(3);
      expect(sight.probed[0]).toMatchObject({ looked: -0.5, row: { sibling: 0 } });
    }));

  test("the timeline has the spans of a range of steps, and Perfetto gets all of them", () =>
    withViewer(async (viewer) => {
      const timeline = await get<TimelineReply>(viewer, `${routes.timeline("small")}?from=2&to=3`);
      expect(timeline.lanes).toEqual(["sample", "learn"]);
      expect(timeline.range).toEqual([1, 3]);
      expect(timeline.steps.map(({ step, start, ms }) => [step, start, ms])).toEqual([
        [2, 2000, 900],
        [3, 3000, 900],
      ]);
      const trace = await get<{ traceEvents: { ph: string; ts: number; dur: number }[] }>(
        viewer,
        routes.perfetto("small"),
      );
      const spans = trace.traceEvents.filter(({ ph }) => ph === "X");
      expect(spans).toHaveLength(6);
      expect(spans[5]).toMatchObject({ ts: 2_400_000, dur: 500_000 });
    }));

  test("frames are PNGs that never change, and an episode is a GIF of what was seen", () =>
    withViewer(async (viewer) => {
      const base = `http://127.0.0.1:${viewer.port}`;
      const response = await fetch(base + routes.frame("small", frame(2).hash));
      expect(response.headers.get("content-type")).toBe("image/png");
      expect(response.headers.get("cache-control")).toContain("immutable");
      expect(decodePng(new Uint8Array(await response.arrayBuffer())).hash).toBe(frame(2).hash);
      const { rows } = await get<TrajectoryPage>(
        viewer,
        `${routes.trajectories("small")}?stepMax=1&split=train&order=asc`,
      );
      const gif = await fetch(`${base}${routes.gif("small", rows[2]!.key)}?delay=100`);
      const expected = encodeGif([frame(2), frame(101)], { delayMs: [100, 2000] });
      expect(Buffer.from(await gif.arrayBuffer()).equals(expected)).toBe(true);
    }));
});

describe("lists of trajectories", () => {
  const shared = sharedViewer();
  const cases: [query: string, found: [step: number, sibling: number][]][] = [
    [
      "split=eval",
      [
        [3, 0],
        [1, 0],
      ],
    ],
    ["env=elsewhere", []],
    ["seed=900&success=true", [[3, 0]]],
    ["end=max_turns", [[1, 0]]],
    [
      "stepMin=2&stepMax=2&rewardMin=2",
      [
        [2, 2],
        [2, 3],
      ],
    ],
    [
      "parseFailure=true&order=asc",
      [
        [1, 3],
        [2, 3],
        [3, 3],
      ],
    ],
    ["stepMax=1&success=true&parseFailure=false", [[1, 2]]],
    [
      "text=wei%C3%9F%20nicht",
      [
        [3, 3],
        [2, 3],
        [1, 3],
      ],
    ],
    [
      "text=maze%23900",
      [
        [3, 0],
        [1, 0],
      ],
    ],
    ["text=nowhere", []],
    [
      "sort=reward&order=desc&limit=2",
      [
        [1, 3],
        [2, 3],
      ],
    ],
    [
      "sort=drift&limit=3",
      [
        [3, 0],
        [2, 0],
        [1, 0],
      ],
    ],
    [
      "sort=step&order=asc&offset=4&limit=2",
      [
        [1, 0],
        [2, 0],
      ],
    ],
  ];
  test.each(cases)("%s finds exactly its trajectories in order", async (query, found) => {
    const { viewer } = shared;
    const page = await get<TrajectoryPage>(viewer, `${routes.trajectories("small")}?${query}`);
    expect(page.rows.map(({ step, sibling }) => [step, sibling])).toEqual(found);
    expect(page.all).toBe(14);
    expect(page.facets).toMatchObject({
      envs: ["maze"],
      ends: ["done", "max_turns", "solved"],
      steps: [1, 3],
      rewards: [0, 3],
    });
  });

  test.each(["sort=colour", "limit=-1", "success=maybe", "stepMin=abc"])("%s is refused in words", async (query) => {
    const { viewer } = shared;
    const response = await fetch(`http://127.0.0.1:${viewer.port}${routes.trajectories("small")}?${query}`);
    expect(response.status).toBe(400);
    expect(((await response.json()) as ErrorReply).error).toContain(query.split("=")[0]);
  });
});

describe("a run whose writer was killed", () => {
  test("lines cut in half are left out, the rest is shown, and what is missing is said", () =>
    withViewer(async (viewer, folder) => {
      const run = join(folder, "small");
      const events = await readFile(join(run, "events.jsonl"));
      await truncate(join(run, "events.jsonl"), events.length - 20);
      const rows = await readFile(join(run, "trajectories/step-2.jsonl"));
      await truncate(join(run, "trajectories/step-2.jsonl"), rows.length - 30);
      await writeFile(join(run, "run.json"), '{"format":1,"na');
      const page = await get<TrajectoryPage>(viewer, `${routes.trajectories("small")}?stepMin=2&stepMax=2`);
      expect(page.total).toBe(3);
      expect(page.missing.join()).toContain("step-2.jsonl: the last line is cut off");
      const overview = await get<RunOverview>(viewer, routes.overview("small"));
      expect(overview.steps).toBe(3);
      expect(overview.status).toBe("interrupted");
      expect(overview.missing.join()).toMatch(/run\.json is damaged.*events\.jsonl: the last line is cut off/s);
    }));

  test("a run without trajectories, frames or events is shown as what it is", () =>
    withViewer(async (viewer, folder) => {
      for (const name of ["trajectories", "frames", "events.jsonl"])
        await rm(join(folder, "small", name), { recursive: true });
      const overview = await get<RunOverview>(viewer, routes.overview("small"));
      expect(overview.missing.join()).toContain("events.jsonl");
      expect((await get<TrajectoryPage>(viewer, routes.trajectories("small"))).total).toBe(0);
      expect((await get<SightReply>(viewer, routes.sight("small"))).probes).toEqual([]);
    }));
});

describe("a run that trains", () => {
  test("what is logged arrives, with trajectories and the end, and a lost connection goes on where it was", () =>
    withFolder(async (folder) => {
      const run = await writeRun(join(folder, "live"), { steps: 1 });
      const viewer = await startViewer({ folder });
      try {
        const { position, status } = await get<RunOverview>(viewer, routes.overview("live"));
        expect(status).toBe("running");
        const stream = await follow(viewer, `${routes.live("live")}?from=${position}`);
        expect(stream.response.headers.get("content-type")).toBe("text/event-stream");
        writeStep(run, 2);
        await run.flush();
        const first = await stream.next<LiveMessage>((message) => message.type === "event");
        expect(first).toMatchObject({ event: { kind: "train", step: 2, metrics: { "train/success": 0.2 } } });
        const rows = await stream.next<LiveMessage>((message) => message.type === "trajectories");
        expect(rows).toMatchObject({ total: 9 });
        stream.stop();
        writeStep(run, 3);
        await run.close("finished");
        const again = await follow(viewer, `${routes.live("live")}?from=${position}`);
        const steps: number[] = [];
        await again.next<LiveMessage>((message) => {
          if (message.type === "event" && message.event.kind === "train") steps.push(message.event.step);
          return message.type === "event" && message.event.kind === "end";
        });
        expect(steps).toEqual([2, 3]);
        again.stop();
        const page = await get<TrajectoryPage>(viewer, routes.trajectories("live"));
        expect(page.total).toBe(14);
      } finally {
        await viewer.close();
      }
    }));

  test("half a line says nothing until its other half is there", () =>
    withViewer(async (viewer, folder) => {
      const path = join(folder, "small/events.jsonl");
      const line = `${JSON.stringify({ step: 4, time: 1, kind: "note", metrics: {}, message: "späte Notiz" })}\n`;
      const bytes = Buffer.from(line);
      const stream = await follow(viewer, routes.live("small"));
      await appendFile(path, bytes.subarray(0, 60));
      expect((await get<RunOverview>(viewer, routes.overview("small"))).log.at(-1)?.kind).toBe("end");
      await appendFile(path, bytes.subarray(60));
      const message = await stream.next<LiveMessage>((one) => one.type === "event");
      expect(message).toMatchObject({ event: { message: "späte Notiz" } });
      stream.stop();
    }));

  test("a resumed run replaces what it plays again, however much it has played when it is looked at", () =>
    withFolder(async (folder) => {
      const path = join(folder, "again");
      const run = await writeRun(path, { steps: 1 });
      await run.saveCheckpoint(1, (place) => writeFile(join(place, "w"), "1"));
      for (let step = 2; step <= 7; step++) writeStep(run, step);
      await run.close("failed");
      const viewer = await startViewer({ folder });
      try {
        expect((await get<TrajectoryPage>(viewer, routes.trajectories("again"))).total).toBe(32);
        const resumed = await writeRun(path, { steps: 0 });
        resumed.trajectories.append(2, [record(2, 5)]);
        for (let step = 3; step <= 6; step++) writeStep(resumed, step);
        await resumed.close("stopped");
        const second = await get<TrajectoryPage>(viewer, `${routes.trajectories("again")}?stepMin=2&stepMax=2`);
        expect(second.rows.map(({ sibling }) => sibling)).toEqual([5]);
        expect(second.all).toBe(5 + 1 + 4 * 4 + 2);
        expect((await get<RunOverview>(viewer, routes.overview("again"))).steps).toBe(5);
      } finally {
        await viewer.close();
      }
    }));
});

describe("playing", () => {
  async function post(port: number, route: string, body: unknown): Promise<PlayState & ErrorReply> {
    const headers = { "content-type": "application/json" };
    const init = { method: "POST", headers, body: JSON.stringify(body) };
    return (await (await fetch(`http://127.0.0.1:${port}${route}`, init)).json()) as PlayState & ErrorReply;
  }

  test("an environment is played by command, by reply and by the oracle to its end", () =>
    withViewer(async ({ port }) => {
      const options = { minSteps: 3, cellSize: 16 };
      let state = await post(port, routes.play(), { env: "frozen_lake", seed: 5, options });
      expect(state.commands).toEqual(expect.arrayContaining(["left", "right", "up", "down"]));
      const testImage = state.observation.find((part) => part.type === "image")!;
      const shown = await fetch(`http://127.0.0.1:${port}${routes.playFrame(state.session, testImage.hash)}`);
      expect(decodePng(new Uint8Array(await shown.arrayBuffer())).hash).toBe(testImage.hash);
      state = await post(port, routes.act(state.session), { reply: "what?" });
      expect(state.turns.at(-1)).toMatchObject({ reply: "what?", parsed: false });
      state = await post(port, routes.act(state.session), { command: "up" });
      expect(state.turns.at(-1)).toMatchObject({ parsed: true });
      while (!state.over) state = await post(port, routes.act(state.session), { auto: "oracle" });
      expect(state.success).toBe(true);
      expect((await post(port, routes.act(state.session), { command: "up" })).error).toContain("over");
    }));

  test("a saved episode is taken over at a turn, on the same board with the same options", () =>
    withViewer(async ({ port }, folder) => {
      const { options } = CONFIG.envs[0]!;
      let played = await post(port, routes.play(), { env: "frozen_lake", seed: 7, options });
      for (let t = 0; t < 2; t++) played = await post(port, routes.act(played.session), { auto: "oracle" });
      const hashes = (parts: PlayState["observation"]) => parts.flatMap((p) => (p.type === "image" ? [p.hash] : []));
      const saved = {
        id: "frozen_lake#7/0",
        env: "frozen_lake",
        seed: 7,
        group: "g",
        sibling: 0,
        split: "train",
        step: 9,
        temperature: 1,
        reward: 0,
        success: false,
        end: "done",
        turns: played.turns.map((one) => ({ ...one, frames: hashes(one.observation), observation: "<image>" })),
        final: { observation: "<image>", frames: hashes(played.observation) },
      };
      await writeFile(join(folder, "small/trajectories/step-9.jsonl"), `${JSON.stringify(saved)}\n`);
      const page = await get<TrajectoryPage>({ port } as never, `${routes.trajectories("small")}?env=frozen_lake`);
      const state = await post(port, routes.play(), { run: "small", key: page.rows[0]!.key, turn: 1 });
      expect(state.turns).toHaveLength(1);
      expect(state.warning).toBeUndefined();
      expect(hashes(state.observation)).toEqual(saved.turns[1]!.frames);
    }));

  test("a file is not loaded because a request names it", () =>
    withViewer(async ({ port }) => {
      const { error } = await post(port, routes.play(), { env: "./evil.ts", seed: 1 });
      expect(error).toContain("--env ./evil.ts");
    }));

  test("no key is sent and no file is read because a request, or somebody else's run, says so", () =>
    withViewer(async ({ port }) => {
      const ask = async (options: object) =>
        (await post(port, routes.play(), { env: "remote", seed: 1, options })).error;
      expect(await ask({ url: "http://127.0.0.1:9", keyVariable: "HOME" })).toContain("options.url");
      expect(await ask({})).toContain("saccade play remote");
      const data = { env: "geometry3k", seed: 1, options: { data: "/etc/hosts" } };
      expect((await post(port, routes.play(), data)).error).toContain("options.data names a file");
      const { envs } = (await (await fetch(`http://127.0.0.1:${port}${routes.envs()}`)).json()) as {
        envs: { id: string }[];
      };
      expect(envs.map(({ id }) => id)).not.toContain("remote");
      expect(envs.map(({ id }) => id)).toContain("frozen_lake");
    }));
});
