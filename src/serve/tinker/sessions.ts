/** Sessions of clients: which are alive, how they ended, and how they are found again. */
import { randomUUID } from "node:crypto";
import { findSession } from "./find.ts";
import { DEFAULT_PROJECT, iso, type Journal, metadataText, now, readMetadata, type SessionRow } from "./journal.ts";
import type { Finish, Search } from "./schemas.ts";

/** Clients give a sign every 10 seconds. */
const ALIVE_SECONDS = 60;
/** There are no accounts here: whatever the key is good for belongs to one. */
export const OWNER = "saccade";

type Status = { readonly type: "active" } | ({ readonly type: "client_finished" } & Finish) | null;
type Made = {
  readonly user_metadata?: unknown;
  readonly display_name?: string | null | undefined;
  readonly project_id?: string | null | undefined;
};

export class Sessions {
  readonly #journal: Journal;
  /** The last sign of those that gave one; signs are too many to be written down. */
  readonly #seen = new Map<string, number>();

  constructor(journal: Journal) {
    this.#journal = journal;
  }

  create({ user_metadata: metadata, display_name: name, project_id: project }: Made): string {
    const id = randomUUID();
    this.#journal.run(
      "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, NULL)",
      ...[id, now(), metadataText(metadata), name ?? null, project ?? DEFAULT_PROJECT],
    );
    this.beat(id);
    return id;
  }

  beat(id: string): void {
    for (const [other, at] of this.#seen) {
      if (at > now() - ALIVE_SECONDS) break;
      this.#seen.delete(other);
    }
    if (this.#journal.one("SELECT id FROM sessions WHERE id = ?", id) === undefined) return;
    // The one that was heard last is last.
    this.#seen.delete(id);
    this.#seen.set(id, now());
  }

  /** What was said first stays. */
  finish(id: string, said: Finish): void {
    findSession(this.#journal, id);
    const finish = JSON.stringify({ reason: { type: said.reason.type }, detail: said.detail ?? null });
    this.#journal.run("UPDATE sessions SET finish = ? WHERE id = ? AND finish IS NULL", finish, id);
    this.#seen.delete(id);
  }

  /** One page, the newest first. */
  search(wanted: Search) {
    const { limit, cursor } = wanted;
    const { last_created_at: at, last_session_id: last } = cursor ?? {};
    const before = at === undefined ? Number.MAX_VALUE : Date.parse(at) / 1000;
    const rows = this.#journal
      .all<SessionRow>(
        "SELECT * FROM sessions WHERE created < ? OR (created = ? AND id < ?) ORDER BY created DESC, id DESC",
        ...[before, before, last ?? ""],
      )
      .filter((row) => this.#fits(row, wanted));
    const page = rows.slice(0, limit);
    const end = rows.length > limit ? page.at(-1) : undefined;
    return {
      sessions: page.map((row) => this.#summary(row)),
      next_cursor: end === undefined ? null : { last_created_at: iso(end.created), last_session_id: end.id },
    };
  }

  #fits(row: SessionRow, wanted: Search): boolean {
    const { session_id: id, display_name: words, project_ids: projects, user_metadata, owner, statuses } = wanted;
    const metadata = readMetadata(row.metadata);
    const isNamed = (words && hasWords(row.name ?? "", words)) || row.id === id;
    return (
      (isNamed || (!id && !words)) &&
      (!projects || projects.includes(row.project)) &&
      Object.entries(user_metadata ?? {}).every(([key, value]) => metadata[key] === value) &&
      (owner?.type !== "user" || owner.owner_urns?.includes(OWNER) === true) &&
      (!statuses || statuses.some((one) => isStatus(this.#status(row), one)))
    );
  }

  #status({ id, finish }: SessionRow): Status {
    if (finish !== null) return { type: "client_finished", ...(JSON.parse(finish) as Finish) };
    const isAlive = (this.#seen.get(id) ?? 0) > now() - ALIVE_SECONDS;
    return isAlive ? { type: "active" } : null;
  }

  #summary(row: SessionRow) {
    const kept = this.#journal.one<{ count: number; bytes: number | null }>(
      "SELECT COUNT(*) AS count, SUM(bytes) AS bytes FROM checkpoints WHERE run IN (SELECT id FROM models WHERE session = ?)",
      row.id,
    );
    return {
      session_id: row.id,
      created_at: iso(row.created),
      owner: OWNER,
      project_id: row.project,
      status: this.#status(row),
      checkpoints_count: kept?.count ?? 0,
      checkpoint_storage_bytes: kept?.bytes ?? 0,
      display_name: row.name,
      user_metadata: readMetadata(row.metadata),
    };
  }
}

/** Each word is somewhere in the name, in capitals or not. */
function hasWords(name: string, words: string): boolean {
  const text = name.toLowerCase();
  return words
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

function isStatus(status: Status, asked: NonNullable<Search["statuses"]>[number]): boolean {
  if (status?.type !== asked.type) return false;
  if (status.type !== "client_finished" || asked.type !== "client_finished") return true;
  return !asked.reasons || asked.reasons.includes(status.reason.type);
}
