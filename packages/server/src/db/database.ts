import type { CompiledQuery, Kysely, RawBuilder, Transaction } from 'kysely'
import type { Schema } from './schema.ts'

export type Db = Kysely<Schema>
export type Trx = Transaction<Schema>
/** A statement with its parameters, ready to run. */
export type Statement = CompiledQuery
/** A row read by hand-written SQL. */
export type Row = Record<string, unknown>

/** Where engines differ: named capabilities, never a question of which engine it is. */
export interface Dialect {
  ddl: {
    /** Type of a 64-bit integer column; as a lone primary key it must not cost a second index. */
    bigint: string
    /** Type of a text column that is compared byte by byte. */
    text: string
    /** Ends a `create table` whose rows are stored in the order of the primary key, where the engine can do so. */
    clustered: string
    /** Ends a `create table` whose rows are rewritten all the time. */
    rewritten: string
    /** Primary key and end of a `create table` of rows with `seq` and `created_at` that are kept by day. */
    daily: { key: string; storage: string }
    /** Statements after which rows of the table can be neither changed nor removed. */
    appendOnly(table: string): string[]
    /** Statements after which the table `<counts>` (owner, count) holds the number of rows by owner, '' for all. */
    counted(table: string, counts: string): string[]
  }
  /**
   * A row source over one JSON parameter: an array of arrays, with the named columns in their order.
   * It also has `ordinal`, counting from 0. One prepared statement thus serves every batch size.
   */
  rowsFromJson(json: string, columns: Record<string, 'text' | 'bigint' | 'double'>): RawBuilder<unknown>
  /**
   * Makes a statement that locks the row which a query finds until the transaction ends, and that fails the transaction
   * with a DatabaseError that is `stale` when it finds none. A batch can thus depend on what was read before it.
   */
  lockFound(query: CompiledQuery): Statement
  /** SHA-256 of a text as UTF-8, in hexadecimal digits. */
  sha256Hex(text: RawBuilder<string>): RawBuilder<string>
  /**
   * Makes the hottest statements there are: they insert rows, given as arrays in the order of the columns, whose `seq`
   * are the last values of a counter. Columns in `back` are given as how far their value lies behind another counter.
   */
  insertSequenced(
    table: string,
    columns: Record<string, 'text' | 'bigint' | 'double'>,
    counter: Schema['counters']['name'],
    back?: Record<string, Schema['counters']['name']>,
  ): (rows: readonly (readonly unknown[])[]) => Statement
  /**
   * Makes statements that add to the column `count` of a table. A row: the values of the keys, which are its primary key,
   * and what is added.
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
  /** Space that it takes. */
  bytes: number
  /** Removes all its events at once. Rejects when the table is in use just now. */
  drop(): Promise<void>
}

export interface ExpiredRows {
  /** Whole days that can be dropped; none where the engine does not store by day. */
  days: Day[]
  /** What was created before this instant and is in none of these days is to be deleted row by row. */
  rowsBefore: number
}

interface BatchOptions {
  /** A change of control: may use the reserved disk space when the disk is full. */
  isControl?: boolean
}

export interface Database {
  db: Db
  dialect: Dialect
  /** Whether other processes may write it too: what is kept in memory may then be out of date. */
  isShared: boolean
  /**
   * Runs compiled statements in one transaction and one round trip; all or nothing.
   * Resolves after the commit is on disk, with the rows of each statement.
   */
  batch(statements: readonly Statement[], options?: BatchOptions): Promise<Row[][]>
  /** Takes answers that have arrived, where they would else wait for the next turn of the event loop. Costs next to nothing. */
  collect(): void
  /**
   * Runs reads of many rows on separate connections, so that no agent waits for them. Callers, such as keys, take
   * turns. Rejects with AppError `overloaded` when too many are waiting.
   */
  scan<Result>(caller: string, read: (db: Db) => Promise<Result>): Promise<Result>
  /** Runs statements that change the schema in one transaction, however long they take. */
  change(statements: readonly Statement[]): Promise<void>
  /** The database's clock in epoch milliseconds; undefined where it is this machine's. */
  serverTime(): Promise<number | undefined>
  /** Makes room for the events of the days to come: at start and now and then. */
  prepareDays(now: number): Promise<void>
  /** Which events, created before the cutoff, are to go and how. */
  expired(cutoff: number): Promise<ExpiredRows>
  /** Bytes that the data takes; space of what was deleted does not count, though the engine may keep it for later. */
  usedBytes(): Promise<number>
  /** Lets `usedBytes` see that events of these times were deleted. */
  noteDeleted(from: number, to: number): Promise<void>
  /** A consistent copy of the whole database, made while it is in use. Throws if the file exists. */
  backup(file: string): Promise<void>
  close(): Promise<void>
}
