/**
 * What must outlive the process, in SQLite: sessions, models, every accepted training operation, checkpoints. An operation is written, and on the disk,
 * before its submission is answered; a server that was killed replays what followed the last snapshot.
 */
import { DataError } from "../../core/errors.ts";
import type { JsonObject } from "../../core/json.ts";

type Value = string | number | bigint | Uint8Array | null;
type Statement = {
  run(...values: Value[]): unknown;
  get(...values: Value[]): unknown;
  all(...values: Value[]): unknown[];
};
type Database = { prepare(sql: string): Statement; exec(sql: string): unknown; close(): unknown };

export type SessionRow = { id: string; created: number; metadata: string; name: string | null; status: string };
export type ModelRow = {
  id: string;
  session: string;
  base: string;
  rank: number;
  config: string;
  metadata: string;
  created: number;
  used: number;
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
};
export type SamplerRow = {
  id: string;
  session: string;
  base: string;
  /** Absent: the base model, or weights that were saved without a name. */
  path: string | null;
  folder: string;
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
};

const VERSION = 2;
const TABLES = `
PRAGMA user_version = ${VERSION};
CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, created REAL, metadata TEXT, name TEXT, status TEXT);
CREATE TABLE IF NOT EXISTS models (id TEXT PRIMARY KEY, session TEXT, base TEXT, rank INTEGER, config TEXT, metadata TEXT, created REAL,
  used REAL, snapshot TEXT, position INTEGER);
CREATE TABLE IF NOT EXISTS operations (position INTEGER PRIMARY KEY AUTOINCREMENT, request TEXT UNIQUE, model TEXT, seq TEXT, kind TEXT, body BLOB,
  digest TEXT, outcome, done REAL, UNIQUE (model, seq));
CREATE TABLE IF NOT EXISTS checkpoints (run TEXT, kind TEXT, name TEXT, folder TEXT, created REAL, bytes INTEGER, metadata TEXT, expires REAL,
  PRIMARY KEY (run, kind, name));
CREATE TABLE IF NOT EXISTS samplers (id TEXT PRIMARY KEY, session TEXT, base TEXT, path TEXT, folder TEXT, model TEXT);
`;

export class Journal {
  readonly #database: Database;
  readonly #statements = new Map<string, Statement>();

  static async open(file: string): Promise<Journal> {
    // A native module: loaded only where it is needed.
    const { default: Sqlite } = (await import("libsql")) as unknown as { default: new (file: string) => Database };
    return new Journal(new Sqlite(file), file);
  }

  private constructor(database: Database, file: string) {
    this.#database = database;
    database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;");
    const { user_version: version } = database.prepare("PRAGMA user_version").get() as { user_version: number };
    const isNew = database.prepare("SELECT name FROM sqlite_master").get() === undefined;
    if (!isNew && version !== VERSION) {
      throw new DataError(`${file} was written by another version of Saccade; name another --store.`);
    }
    database.exec(TABLES);
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

  close(): void {
    this.#database.close();
  }

  #prepared(sql: string): Statement {
    const known = this.#statements.get(sql) ?? this.#database.prepare(sql);
    this.#statements.set(sql, known);
    return known;
  }
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
