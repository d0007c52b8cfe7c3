/**
 * What must outlive the process, in SQLite: sessions, models, every accepted training operation, checkpoints. An operation is written, and on the disk,
 * before its submission is answered; a server that was killed replays what followed the last snapshot.
 */
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
export type OperationRow = { position: number; request: string; model: string; kind: string; body: Uint8Array };
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

const TABLES = `
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, created REAL, metadata TEXT, name TEXT, status TEXT);
CREATE TABLE IF NOT EXISTS models (id TEXT PRIMARY KEY, session TEXT, base TEXT, rank INTEGER, config TEXT, metadata TEXT, created REAL,
  used REAL, snapshot TEXT, position INTEGER);
CREATE TABLE IF NOT EXISTS operations (position INTEGER PRIMARY KEY AUTOINCREMENT, request TEXT UNIQUE, model TEXT, seq TEXT, kind TEXT, body BLOB,
  digest TEXT, UNIQUE (model, seq));
CREATE TABLE IF NOT EXISTS checkpoints (run TEXT, kind TEXT, name TEXT, folder TEXT, created REAL, bytes INTEGER, metadata TEXT, expires REAL,
  PRIMARY KEY (run, kind, name));
CREATE TABLE IF NOT EXISTS samplers (id TEXT PRIMARY KEY, session TEXT, base TEXT, path TEXT);
`;

export class Journal {
  readonly #database: Database;
  readonly #statements = new Map<string, Statement>();

  static async open(file: string): Promise<Journal> {
    // A native module: loaded only where it is needed.
    const { default: Sqlite } = (await import("libsql")) as unknown as { default: new (file: string) => Database };
    return new Journal(new Sqlite(file));
  }

  private constructor(database: Database) {
    this.#database = database;
    database.exec(TABLES);
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
