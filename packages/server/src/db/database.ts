import type { CompiledQuery, Kysely, RawBuilder, Transaction } from 'kysely'
import type { Schema } from './schema.ts'

export type Db = Kysely<Schema>
export type Trx = Transaction<Schema>
/** A statement with its parameters, ready to run. */
export type Statement = CompiledQuery
/** A row read by hand-written SQL. */
export type Row = Record<string, unknown>

/** Rows of a statement of a batch. */
export type RowsOf = (statement: Statement) => readonly Row[]

export const rowsOf =
  (statements: readonly Statement[], rows: readonly Row[][]): RowsOf =>
  (statement) =>
    rows[statements.indexOf(statement)]!

/** Differences between the engines, as named capabilities, so that callers never check which engine is in use. */
export interface Dialect {
  ddl: {
    /** Type of a 64-bit integer column. As the only primary key column it must not need a second index. */
    bigint: string
    /** Type of a text column that is compared byte by byte. */
    text: string
    /** Suffix of a `create table` that stores rows in primary key order, if the engine supports it. */
    clustered: string
    /** Suffix of a `create table` whose rows are updated constantly. */
    rewritten: string
    /** Primary key and suffix of a `create table` that stores rows with `seq` and `created_at` by day. */
    daily: { key: string; storage: string }
    /** Statements that prevent updates and deletes of the table's rows. */
    appendOnly(table: string): string[]
    /** Statements that keep row counts by owner in the table `<counts>` (owner, count); owner '' counts all rows. */
    counted(table: string, counts: string): string[]
    /**
     * Statements that keep the texts of a column, JSON arrays or null, as rows of the table `<rows>` (tag, instance_id).
     * `table` has a column `id`.
     */
    listed(table: string, column: string, rows: string): string[]
  }
  /**
   * Row source over one JSON parameter: an array of arrays, whose values match `columns` in order.
   * Adds `ordinal`, counting from 0. One prepared statement thus serves every batch size.
   */
  rowsFromJson(json: string, columns: Record<string, 'text' | 'bigint' | 'double'>): RawBuilder<unknown>
  /** Text of a field of a JSON object in a text column; null if it is missing. */
  jsonField(column: RawBuilder<unknown>, name: string): RawBuilder<string | null>
  /** Aggregates columns into the text of a JSON array of arrays, ordered by the first column; null without rows. */
  jsonRows(columns: readonly [string, ...string[]]): RawBuilder<string | null>
  /**
   * Returns a statement that locks the row found by the query until the transaction ends. If there is no such row, the
   * transaction fails with a `stale` DatabaseError. A batch can thus depend on data that was read before it.
   */
  lockFound(query: CompiledQuery): Statement
  /** SHA-256 of the UTF-8 text, in hexadecimal. */
  sha256Hex(text: RawBuilder<string>): RawBuilder<string>
  /**
   * Returns a function that builds the most frequent inserts. Rows are arrays in column order; their `seq` values are
   * the last ones of the counter. A column in `back` is given as its distance below another counter's value.
   */
  insertSequenced(
    table: string,
    columns: Record<string, 'text' | 'bigint' | 'double'>,
    counter: Schema['counters']['name'],
    back?: Record<string, Schema['counters']['name']>,
  ): (rows: readonly (readonly unknown[])[]) => Statement
  /**
   * Returns a function that builds statements adding to the column `count` of a table. Each row is the values of
   * `keys` (the primary key) followed by the amount to add.
   */
  addCounts(
    table: string,
    keys: Record<string, 'text' | 'bigint'>,
  ): (rows: readonly (readonly (string | number)[])[]) => Statement
}

/** A day whose events all expired. */
export interface Day {
  firstSeq: number
  lastSeq: number
  bytes: number
  /** Removes all events of the day at once. Rejects if the table is in use. */
  drop(): Promise<void>
}

export interface ExpiredRows {
  /** Whole days that can be dropped; empty if the engine does not store events by day. */
  days: Day[]
  /** Rows created before this time and not part of `days` must be deleted one by one. */
  rowsBefore: number
}

export interface BatchOptions {
  /** Control changes, such as a kill, may use the reserved space when the disk is full. */
  isControl?: boolean
}

export interface Database {
  db: Db
  dialect: Dialect
  /** Whether other processes may write to the database, so that state cached in memory can be out of date. */
  isShared: boolean
  /**
   * Runs compiled statements atomically, in one transaction and one round trip.
   * Resolves with the rows of each statement after the commit is on disk.
   */
  batch(statements: readonly Statement[], options?: BatchOptions): Promise<Row[][]>
  /**
   * Runs work of many small commits, which may reach the disk later: a power failure may take the last of them. All are on
   * disk once it resolves.
   */
  withLateSync<Result>(work: () => Promise<Result>): Promise<Result>
  /** Processes results that have already arrived, instead of in the next turn of the event loop. Very cheap. */
  collect(): void
  /**
   * Runs reads of many rows on separate connections, so that agents never wait for them. Callers (for example API
   * keys) take turns. Rejects with AppError `overloaded` when too many scans are waiting.
   */
  scan<Result>(caller: string, read: (db: Db) => Promise<Result>): Promise<Result>
  /** Runs schema changes in one transaction, without a time limit. */
  change(statements: readonly Statement[]): Promise<void>
  /** Time of the database server in epoch milliseconds; undefined if the database uses this machine's clock. */
  serverTime(): Promise<number | undefined>
  /** A number that grows when another server is promoted; undefined for a file. */
  timeline(): Promise<number | undefined>
  /** Prepares storage for the events of the next days. Call at startup and periodically. */
  prepareDays(now: number): Promise<void>
  /** Returns the events created before the cutoff, by how to delete them. */
  expired(cutoff: number): Promise<ExpiredRows>
  /** Bytes used by data, without the space of deleted rows that the engine keeps for reuse. */
  usedBytes(): Promise<number>
  /** Updates the basis of `usedBytes` after events created between these times were deleted. */
  noteDeleted(from: number, to: number): Promise<void>
  /** Writes a consistent copy of the whole database while it is in use. Rejects if the file exists. */
  backup(file: string): Promise<void>
  close(): Promise<void>
}
