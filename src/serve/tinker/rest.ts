/** The Tinker API's listings: sessions, training runs, checkpoints, in the shapes its clients check strictly. */
import { type CheckpointRow, type Journal, type ModelRow, readMetadata } from "./journal.ts";
import { removeSaved } from "./training.ts";

const TYPES: Readonly<Record<string, string>> = {
  weights: "training",
  sampler_weights: "sampler",
  external_weights: "external",
};

export function iso(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}

export function checkpointJson(row: CheckpointRow) {
  return {
    checkpoint_id: `${row.kind}/${row.name}`,
    checkpoint_type: TYPES[row.kind],
    time: iso(row.created),
    tinker_path: `tinker://${row.run}/${row.kind}/${row.name}`,
    size_bytes: row.bytes,
    public: false,
    user_metadata: readMetadata(row.metadata),
    expires_at: row.expires === null ? null : iso(row.expires),
  };
}

export function runJson(journal: Journal, row: ModelRow) {
  const last = (kind: string) => {
    const found = journal.one<CheckpointRow>(
      "SELECT * FROM checkpoints WHERE run = ? AND kind = ? ORDER BY created DESC LIMIT 1",
      row.id,
      kind,
    );
    return found === undefined ? null : checkpointJson(found);
  };
  return {
    training_run_id: row.id,
    base_model: row.base,
    model_owner: "saccade",
    is_lora: row.rank > 0,
    corrupted: false,
    lora_rank: row.rank > 0 ? row.rank : null,
    last_request_time: iso(row.used),
    last_checkpoint: last("weights"),
    last_sampler_checkpoint: last("sampler_weights"),
    user_metadata: readMetadata(row.metadata),
  };
}

export function page(query: URLSearchParams): { limit: number; offset: number } {
  const number = (name: string, usual: number, most: number) => {
    const value = Number(query.get(name) ?? usual);
    return Number.isSafeInteger(value) && value >= 0 ? Math.min(value, most) : usual;
  };
  return { limit: number("limit", 100, 1000), offset: number("offset", 0, Number.MAX_SAFE_INTEGER) };
}

export async function deleteCheckpoint(journal: Journal, row: CheckpointRow): Promise<void> {
  journal.run("DELETE FROM checkpoints WHERE run = ? AND kind = ? AND name = ?", row.run, row.kind, row.name);
  await removeSaved(row.folder);
}
