/**
 * What must outlive the process, in SQLite: sessions, models, every accepted training operation, checkpoints. An operation is written, and on the disk,
 * before its submission is answered; a server that was killed replays what followed the last snapshot. Folders are named from the journal's own, so that
 * a store can be moved. One server has it open; the lock of one that was killed is void.
 */
import { chmod, open } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import { ConfigError, DataError } from "../../core/errors.ts";
import type { JsonObject } from "../../core/json.ts";
import { lockFolder } from "../../run/lock.ts";
import type { ReceivedBatch } from "../../tinker/messages.ts";

type Value = string | number | bigint | Uint8Array | null;
type Statement = {
  run(...values: Value[]): unknown;
  get(...values: Value[]): unknown;
  all(...values: Value[]): unknown[];
};
type Database = { prepare(sql: string): Statement; exec(sql: string): unknown; close(): unknown };

export type SessionRow = {
  id: string;
  created: number;
  metadata: string;
  name: string | null;
  project: string;
  /** What the client said when it was done, as JSON. */
  finish: string | null;
};
export type ModelRow = {
  id: string;
  session: string;
  base: string;
  rank: number;
  config: string;
  metadata: string;
  created: number;
  used: number;
  /** From the store, as all folders here. */
  snapshot: string | null;
  position: number;
};
export type OperationRow = {
  position: number;
  request: string;
  model: string;
  kind: string;
  body: Uint8Array;
  /** Of what must not be done again: JSON as text, protobuf as bytes. */
  outcome: string | Uint8Array | null;
  /** The body of `forward_backward`, where the request has just been decoded. */
  batch?: ReceivedBatch;
};
export type SamplerRow = {
  id: string;
  session: string;
  base: string;
  /** Absent: the base model, or weights that were saved without a name. */
  path: string | null;
  /** Absent: the base model's. */
  folder: string | null;
  /** The model whose unnamed weights these are. */
  model: string | null;
};
export type CheckpointRow = {
  run: string;
  kind: string;
  name: string;
  folder: string;
  created: number;
  bytes: number;
  metadata: string;
  expires: number | null;
  public: number;
};

const VERSION = 3;
/** Of sessions that name none. */
export const DEFAULT_PROJECT = "default";
const JOURNAL_FILE = "journal.sqlite";
const TABLES = `
PRAGMA user_version = ${VERSION};
CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, created REAL, metadata TEXT, name TEXT, project TEXT, finish TEXT);
CREATE TABLE IF NOT EXISTS models (id TEXT PRIMARY KEY, session TEXT, base TEXT, rank INTEGER, config TEXT, metadata TEXT, created REAL,
  used REAL, snapshot TEXT, position INTEGER);
CREATE TABLE IF NOT EXISTS operations (position INTEGER PRIMARY KEY AUTOINCREMENT, request TEXT UNIQUE, model TEXT, seq TEXT, kind TEXT, body BLOB,
  digest TEXT, outcome, done REAL, UNIQUE (model, seq));
CREATE TABLE IF NOT EXISTS checkpoints (run TEXT, kind TEXT, name TEXT, folder TEXT, created REAL, bytes INTEGER, metadata TEXT, expires REAL,
  public INTEGER DEFAULT 0, PRIMARY KEY (run, kind, name));
CREATE TABLE IF NOT EXISTS samplers (id TEXT PRIMARY KEY, session TEXT, base TEXT, path TEXT, folder TEXT, model TEXT);
`;
/** Version 2 named folders from the root of the file system. */
const FROM_2 = `
ALTER TABLE sessions ADD COLUMN project TEXT;
ALTER TABLE sessions ADD COLUMN finish TEXT;
UPDATE sessions SET project = '${DEFAULT_PROJECT}', finish = CASE status WHEN 'active' THEN NULL ELSE '{"reason":{"type":"success"}}' END;
ALTER TABLE sessions DROP COLUMN status;
ALTER TABLE checkpoints ADD COLUMN public INTEGER DEFAULT 0;
UPDATE samplers SET folder = NULL WHERE path IS NULL AND model IS NULL;
`;
const FOLDERS = [
  { table: "models", column: "snapshot", owner: "id" },
  { table: "checkpoints", column: "folder", owner: "run" },
  { table: "samplers", column: "folder", owner: "COALESCE(model, substr(path, 10))" },
];

export class Journal {
  readonly #database: Database;
  readonly #store: string;
  readonly #unlock: () => Promise<void>;
  readonly #statements = new Map<string, Statement>();

  static async open(store: string): Promise<Journal> {
    // A native module: loaded only where it is needed.
    const { default: Sqlite } = (await import("libsql")) as unknown as { default: new (file: string) => Database };
    const file = join(store, JOURNAL_FILE);
    // Files that SQLite makes beside it get the same rights.
    await (await open(file, "a", 0o600)).close();
    await chmod(file, 0o600);
    const unlock = await lockFolder(store, "store.lock", inUse);
    const database = new Sqlite(file);
    try {
      return new Journal(database, store, unlock);
    } catch (error) {
      database.close();
      await unlock();
      throw error;
    }
  }

  private constructor(database: Database, store: string, unlock: () => Promise<void>) {
    this.#database = database;
    this.#store = store;
    this.#unlock = unlock;
    database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;");
    const { user_version: version } = database.prepare("PRAGMA user_version").get() as { user_version: number };
    const isNew = database.prepare("SELECT name FROM sqlite_master").get() === undefined;
    if (!isNew && version === 2) this.#upgrade();
    else if (!isNew && version !== VERSION) {
      throw new DataError(
        `${join(store, JOURNAL_FILE)} was written by another version of Saccade; name another --store.`,
      );
    }
    database.exec(TABLES);
  }

  /** Where a folder is that the journal names. */
  place(folder: string): string {
    return join(this.#store, ...folder.split("/"));
  }

  /** How the journal names a folder in the store. */
  nameOf(place: string): string {
    return relative(this.#store, place).split(sep).join("/");
  }

  /** All or nothing, and one write to the disk. */
  together(work: () => void): void {
    this.#database.exec("BEGIN");
    try {
      work();
      this.#database.exec("COMMIT");
    } catch (error) {
      this.#database.exec("ROLLBACK");
      throw error;
    }
  }

  run(sql: string, ...values: Value[]): void {
    this.#prepared(sql).run(...values);
  }

  one<T>(sql: string, ...values: Value[]): T | undefined {
    return (this.#prepared(sql).get(...values) as T | null) ?? undefined;
  }

  all<T>(sql: string, ...values: Value[]): T[] {
    // Blobs come as bare buffers.
    return (this.#prepared(sql).all(...values) as Record<string, unknown>[]).map(
      (row) =>
        Object.fromEntries(
          Object.entries(row).map(([key, value]) => [
            key,
            value instanceof ArrayBuffer ? new Uint8Array(value) : value,
          ]),
        ) as T,
    );
  }

  async close(): Promise<void> {
    this.#database.close();
    await this.#unlock();
  }

  #upgrade(): void {
    this.together(() => {
      this.#database.exec(FROM_2);
      for (const { table, column, owner } of FOLDERS) {
        const rows = this.all<{ rowid: number; folder: string; owner: string }>(
          `SELECT rowid, ${column} AS folder, ${owner} AS owner FROM ${table} WHERE ${column} IS NOT NULL`,
        );
        for (const { rowid, folder, owner } of rows) {
          // Every folder lies below its model's, wherever the store was.
          const parts = folder.split(/[/\\]/);
          const from = parts.lastIndexOf(safe(owner.split("/")[0] as string));
          this.run(`UPDATE ${table} SET ${column} = ? WHERE rowid = ?`, parts.slice(from).join("/"), rowid);
        }
      }
      this.#database.exec(`PRAGMA user_version = ${VERSION}`);
    });
  }

  #prepared(sql: string): Statement {
    const known = this.#statements.get(sql) ?? this.#database.prepare(sql);
    this.#statements.set(sql, known);
    return known;
  }
}

function inUse(path: string, pid: number | undefined): ConfigError {
  const who = pid === undefined ? "Another server" : `Another server (process ${pid})`;
  return new ConfigError(
    `${who} has the store ${dirname(dirname(path))} open. Stop it, or name another folder with --store; if no such server exists, delete ${path}.`,
  );
}

/** The name of a model's folder: colons are no part of a file's name everywhere. */
export function safe(id: string): string {
  return id.replaceAll(":", "_");
}

/** Values of user metadata are text on this wire. */
export function metadataText(metadata: unknown): string {
  const entries = typeof metadata === "object" && metadata !== null ? Object.entries(metadata) : [];
  return JSON.stringify(
    Object.fromEntries(entries.map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)])),
  );
}

export function readMetadata(text: string): JsonObject {
  return JSON.parse(text) as JsonObject;
}

/** Seconds, as the journal keeps times. */
export function now(): number {
  return Date.now() / 1000;
}

export function iso(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}
