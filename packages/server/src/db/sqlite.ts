import { closeSync, existsSync, openSync } from 'node:fs'
import { dirname, join } from 'node:path'
import {
  CompiledQuery,
  type DatabaseConnection,
  type Driver,
  Kysely,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  sql,
} from 'kysely'
import { DatabaseError } from '../errors.ts'
import { createPrivate, makePrivate } from '../private-files.ts'
import type { Database, Dialect, Row } from './database.ts'
import { DiskReserve } from './disk-reserve.ts'
import { ScanLane } from './scan-lane.ts'
import type { Schema } from './schema.ts'
import { type RepeatedStatement, SqliteLink } from './sqlite-link.ts'

/** Older versions can corrupt a WAL file that several connections write (fixed in 3.51.3). */
const oldestVersion = '3.51.3'

export function isVersionSafe(version: string): boolean {
  return version.localeCompare(oldestVersion, 'en', { numeric: true }) >= 0
}

const dialect: Dialect = {
  ddl: {
    bigint: 'integer',
    text: 'text',
    clustered: 'without rowid',
    rewritten: '',
    daily: { key: 'seq', storage: '' },
    appendOnly: (table) => [
      `create trigger ${table}_no_update before update on ${table} begin select raise(abort, '${table} is append-only'); end`,
      `create trigger ${table}_no_delete before delete on ${table} begin select raise(abort, '${table} is append-only'); end`,
    ],
    counted: (table, counts) => {
      const add = (owner: string) => `insert into ${counts} (owner, count) values (${owner}, 1)
        on conflict (owner) do update set count = count + 1;`
      return [
        `create trigger ${table}_count_insert after insert on ${table} begin
          ${add("''")} ${add(`coalesce(new.owner, '-')`)} end`,
        `create trigger ${table}_count_delete after delete on ${table} begin
          update ${counts} set count = count - 1 where owner in ('', coalesce(old.owner, '-')); end`,
      ]
    },
  },
  rowsFromJson(json, columns) {
    const names = Object.keys(columns).map((name, index) => sql`value ->> ${sql.lit(index)} as ${sql.ref(name)}`)
    return sql`(select key as ordinal, ${sql.join(names)} from json_each(${json}))`
  },
  // A transaction has the only writer to itself: nothing needs to be locked, only asked for. The thread has these two.
  lockFound: (query) => ({ ...query, sql: `select assert_found(count(*)) from (${query.sql})` }),
  sha256Hex: (text) => sql`sha256_hex(${text})`,
  // Parsing the batch once and binding each row is a third faster here than taking every value out of JSON in SQL.
  insertSequenced(table, columns, counter, back = {}) {
    const names = Object.keys(columns)
    const behind = (name: string) => `(select value from counters where name = '${name}') - ?`
    const marks = names.map((name) => (back[name] === undefined ? '?' : behind(back[name]))).join(', ')
    const text = `insert into ${table} (seq, ${names.join(', ')}) values (?, ${marks})`
    const lastNumber = `select value from counters where name = '${counter}'`
    const statement = { ...CompiledQuery.raw(text), lastNumber }
    return (rows): RepeatedStatement => ({ ...statement, rows: JSON.stringify(rows) })
  },
  addCounts(table, keys) {
    const names = Object.keys(keys).join(', ')
    const marks = '?, '.repeat(Object.keys(keys).length)
    const statement = CompiledQuery.raw(`insert into ${table} (${names}, count) values (${marks}?)
      on conflict (${names}) do update set count = ${table}.count + excluded.count`)
    return (rows): RepeatedStatement => ({ ...statement, rows: JSON.stringify(rows) })
  },
}

/** Makes the files of a database private before it is opened. SQLite gives its log the mode of the database. */
function openPrivately(file: string): void {
  createPrivate(file)
  for (const suffix of ['-wal', '-shm', '-journal']) makePrivate(file + suffix)
  makePrivate(join(dirname(file), 'reserve'))
}

/** One writer and one reader, each a connection in its own thread: a long read never delays a kill. */
class SqliteConnection implements DatabaseConnection {
  readonly #writer: SqliteLink
  readonly #reader: SqliteLink
  readonly #lock: Lock
  inTransaction = false
  release: (() => void) | undefined

  constructor(writer: SqliteLink, reader: SqliteLink, lock: Lock) {
    this.#writer = writer
    this.#reader = reader
    this.#lock = lock
  }

  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    const { rows, changes } = await this.#run(query)
    return { rows: rows as R[], numAffectedRows: BigInt(changes) }
  }

  async #run(query: CompiledQuery) {
    if (this.inTransaction) return (await this.#writer.run([query]))[0]!
    // A reader sees every commit that was answered before it asked.
    const reads = query.query.kind === 'SelectQueryNode' || /^\s*select\b/i.test(query.sql)
    if (reads) return (await this.#reader.run([query]))[0]!
    return (await this.#lock.exclusive(() => this.#writer.run([query])))[0]!
  }

  streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    return refuseStreaming()
  }
}

async function* refuseStreaming(): AsyncIterableIterator<never> {
  yield await Promise.reject(new Error('Read in pages instead.'))
}

/** Its holder has exclusive use of the writer; the others queue, control first. */
class Lock {
  #isTaken = false
  readonly #control: (() => void)[] = []
  readonly #others: (() => void)[] = []

  async acquire(isControl = false): Promise<() => void> {
    if (this.#isTaken) await new Promise<void>((resolve) => (isControl ? this.#control : this.#others).push(resolve))
    this.#isTaken = true
    return () => {
      const next = this.#control.shift() ?? this.#others.shift()
      if (next) next()
      else this.#isTaken = false
    }
  }

  async exclusive<T>(work: () => Promise<T>, isControl = false): Promise<T> {
    // The queue is empty: the worker keeps the order, so no turn of the event loop is spent.
    if (!this.#isTaken) return work()
    const release = await this.acquire(isControl)
    try {
      return await work()
    } finally {
      release()
    }
  }
}

/** Without this every read would wait for the transaction under way: the builder takes SQLite for a single connection. */
class ConcurrentAdapter extends SqliteAdapter {
  override get supportsMultipleConnections() {
    return true
  }
}

class SqliteDriver implements Driver {
  readonly #writer: SqliteLink
  readonly #reader: SqliteLink
  readonly #lock: Lock
  readonly #reserve: DiskReserve

  constructor(writer: SqliteLink, reader: SqliteLink, lock: Lock, reserve: DiskReserve) {
    this.#writer = writer
    this.#reader = reader
    this.#lock = lock
    this.#reserve = reserve
  }

  async init() {}

  async acquireConnection() {
    return new SqliteConnection(this.#writer, this.#reader, this.#lock)
  }

  async beginTransaction(connection: SqliteConnection) {
    connection.release = await this.#lock.acquire()
    connection.inTransaction = true
    this.#reserve.makeRoom()
    try {
      await connection.executeQuery(CompiledQuery.raw('begin immediate'))
    } catch (fault) {
      // The answer may only be late: a transaction left open would take every later write.
      this.#writer.rollback().catch(() => {})
      throw fault
    }
  }

  async commitTransaction(connection: SqliteConnection) {
    await connection.executeQuery(CompiledQuery.raw('commit'))
  }

  async rollbackTransaction() {
    await this.#writer.rollback()
  }

  async releaseConnection(connection: SqliteConnection) {
    connection.inTransaction = false
    connection.release?.()
    connection.release = undefined
  }

  async destroy() {}
}

/** Reads over one connection. It is opened by the first read: a thread takes memory that an idle service saves. */
class ScanDriver implements Driver {
  readonly #open: () => Promise<SqliteLink>
  #link: Promise<SqliteLink> | undefined

  constructor(open: () => Promise<SqliteLink>) {
    this.#open = open
  }

  async init() {}

  async acquireConnection(): Promise<DatabaseConnection> {
    this.#link ??= this.#open()
    const link = await this.#link.catch((fault) => {
      this.#link = undefined
      throw fault
    })
    return {
      executeQuery: async <R>(query: CompiledQuery) => {
        const { rows } = (await link.run([query]))[0]!
        return { rows: rows as R[] }
      },
      streamQuery: () => refuseStreaming(),
    }
  }

  async beginTransaction() {
    throw new Error('Scans only read.')
  }
  async commitTransaction() {}
  async rollbackTransaction() {}
  async releaseConnection() {}

  async destroy() {
    await (await this.#link)?.close()
  }
}

const adapt = (driver: Driver) =>
  new Kysely<Schema>({
    dialect: {
      createAdapter: () => new ConcurrentAdapter(),
      createDriver: () => driver,
      createIntrospector: (kysely) => new SqliteIntrospector(kysely),
      createQueryCompiler: () => new SqliteQueryCompiler(),
    },
  })

/**
 * Opens the embedded database. `onFatal` hears of faults after which only a new process may go on.
 * Rejects with DatabaseError when the file cannot be opened, or SQLite is too old to be trusted with it.
 */
export async function openSqlite(file: string, onFatal: (fault: Error) => void): Promise<Database> {
  // SQLite would open a database in memory, which forgets every acknowledged event.
  if (file === ':memory:') throw new DatabaseError(`':memory:' is not a file: give the path of a database file.`)
  openPrivately(file)
  const events = { onFatal, onDiskFull: () => reserve.noteFull() }
  const { link: writer, version } = await SqliteLink.open({ file, readOnly: false }, events)
  if (!isVersionSafe(version)) {
    await writer.close()
    throw new DatabaseError(`SQLite ${version} can corrupt its log; ${oldestVersion} or newer is needed.`)
  }
  const openReader = async () => (await SqliteLink.open({ file, readOnly: true }, events)).link
  const reader = await openReader()
  const reserve = new DiskReserve(file)
  const lock = new Lock()
  const db = adapt(new SqliteDriver(writer, reader, lock, reserve))
  const scans = adapt(new ScanDriver(openReader))
  // One thread runs one query at a time: a second scan would only wait in it, past the turns of the callers.
  const scanLane = new ScanLane(1)
  return {
    db,
    dialect,
    isShared: false,
    change: async (statements) => void (await lock.exclusive(() => writer.change(statements))),
    serverTime: async () => undefined,
    async prepareDays() {},
    expired: async (cutoff) => ({ days: [], rowsBefore: cutoff }),
    async batch(statements, { isControl = false } = {}) {
      // What is left of the disk is for control.
      if (reserve.isFull && !isControl) throw new DatabaseError('The disk is full.')
      const results = await lock.exclusive(() => {
        if (isControl) reserve.makeRoom()
        return writer.run(statements, isControl)
      }, isControl)
      return results.map(({ rows }) => rows as Row[])
    },
    collect: () => writer.collect(),
    scan: (caller, read) => scanLane.run(caller, () => read(scans)),
    async usedBytes() {
      const { rows } = await sql<{ bytes: number }>`select (page_count - freelist_count) * page_size as bytes
        from pragma_page_count, pragma_freelist_count, pragma_page_size`.execute(db)
      return rows[0]!.bytes
    },
    async noteDeleted() {},
    async backup(target) {
      if (existsSync(target)) throw new DatabaseError(`${target} already exists.`)
      // The backup contains everything in the database: only its owner may read it.
      closeSync(openSync(target, 'wx', 0o600))
      await writer.backup(target)
    },
    async close() {
      reserve.close()
      await db.destroy()
      await scans.destroy()
      await reader.close()
      await writer.close()
    },
  }
}
