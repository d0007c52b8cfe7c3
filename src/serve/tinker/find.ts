/** What requests name, from the journal; what is not there is answered with 404 and the name. */
import { HttpError } from "../../http/errors.ts";
import type { CheckpointRow, Journal, ModelRow, SamplerRow, SessionRow } from "./journal.ts";

const PATH = /^tinker:\/\/([^/]+)\/(weights|sampler_weights|external_weights)\/([^/]+)$/;

export function findSession(journal: Journal, id: string): SessionRow {
  const row = journal.one<SessionRow>("SELECT * FROM sessions WHERE id = ?", id);
  return row ?? missing(`session ${shown(id)}`);
}

export function findModel(journal: Journal, id: string): ModelRow {
  const row = journal.one<ModelRow>("SELECT * FROM models WHERE id = ?", id);
  return row ?? missing(`model ${shown(id)}`);
}

export function findSampler(journal: Journal, id: string): SamplerRow {
  const row = journal.one<SamplerRow>("SELECT * FROM samplers WHERE id = ?", id);
  return row ?? missing(`sampling session ${shown(id)}`);
}

/** The checkpoint of a tinker:// path. */
export function findCheckpoint(journal: Journal, path: string, kinds?: readonly string[]): CheckpointRow {
  const [, run, kind, name] = PATH.exec(path) ?? [];
  if (run === undefined || kind === undefined || name === undefined)
    throw new HttpError(400, `"${shown(path)}" is not a path such as tinker://run/weights/name.`);
  if (kinds !== undefined && !kinds.includes(kind))
    throw new HttpError(400, `${shown(path)} is not a checkpoint of ${kinds.join(" or ")}.`);
  const row = journal.one<CheckpointRow>(
    "SELECT * FROM checkpoints WHERE run = ? AND kind = ? AND name = ?",
    ...[run, kind, name],
  );
  return row ?? missing(`checkpoint ${shown(path)}`);
}

function missing(what: string): never {
  throw new HttpError(404, `There is no ${what}.`);
}

function shown(name: string): string {
  return name.slice(0, 200);
}
