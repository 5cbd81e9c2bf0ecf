import type { CompiledQuery, Kysely, RawBuilder, Transaction } from 'kysely'
import type { Schema } from './schema.ts'

export type Db = Kysely<Schema>
export type Trx = Transaction<Schema>
/** A statement with its parameters, ready to run. */
export type Statement = CompiledQuery & {
  /** JSON array of arrays: the statement runs for each, with the count of rows that follow and then the row as parameters. */
  rows?: string
}
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
  }
  /**
   * A row source over one JSON parameter: an array of arrays, with the named columns in their order.
   * It also has `ordinal`, counting from 0. One prepared statement thus serves every batch size.
   */
  rowsFromJson(json: string, columns: Record<string, 'text' | 'bigint' | 'double'>): RawBuilder<unknown>
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
}

/** A day whose events all expired. */
export interface Day {
  firstSeq: number
  lastSeq: number
  /** Removes all its events at once. Rejects when the table is in use just now. */
  drop(): Promise<void>
}

export interface ExpiredRows {
  /** Whole days that can be dropped; none where the engine does not store by day. */
  days: Day[]
  /** What was created before this instant and is in none of these days is to be deleted row by row. */
  rowsBefore: number
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
  batch(statements: readonly Statement[]): Promise<Row[][]>
  /** Runs statements that change the schema in one transaction, however long they take. */
  change(statements: readonly Statement[]): Promise<void>
  /** Makes room for the events of the days to come: at start and now and then. */
  prepareDays(now: number): Promise<void>
  /** Which events, created before the cutoff, are to go and how. */
  expired(cutoff: number): Promise<ExpiredRows>
  /** A consistent copy of the whole database, made while it is in use. Throws if the file exists. */
  backup(file: string): Promise<void>
  close(): Promise<void>
}
