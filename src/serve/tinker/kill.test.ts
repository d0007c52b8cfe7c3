/**
 * A Tinker server that is killed under its clients: they go on, and every step is applied once. CI kills twice under a few clients of ours, and one of the
 * official SDK where SACCADE_TINKER_PYTHON names it; kill.prove.ts kills twenty times under sixty-four.
 */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../model/test-folder.ts";
import { createServable } from "../test-serve.ts";
import { live } from "./test-kill.ts";

const python = process.env.SACCADE_TINKER_PYTHON ?? "";

test("clients of a killed server go on, and end with the weights of an undisturbed run", async () => {
  const root = await temporaryFolder();
  try {
    const model = join(root, "model");
    await createServable(model);
    const plan = { model, clients: 4, sdks: python ? 1 : 0, python, steps: 12, kills: [] };
    const calm = await live({ ...plan, store: join(root, "calm") });
    const killed = await live({ ...plan, store: join(root, "killed"), kills: [300, 20] });
    expect(killed.kills).toBe(2);
    expect(killed.broken).toEqual([]);
    const said = ({ clients }: typeof calm) => clients.map(({ losses, tokens }) => ({ losses, tokens }));
    expect(said(killed)).toEqual(said(calm));
    expect(killed.files).toEqual(calm.files);
    expect(Object.keys(calm.files[0]!).sort()).toEqual(["model.state.safetensors", "model/adapter_model.safetensors"]);
  } finally {
    await rm(root, { recursive: true, force: true });
  }
}, 300_000);
