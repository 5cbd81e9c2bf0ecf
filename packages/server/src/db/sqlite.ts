import { closeSync, existsSync, openSync } from 'node:fs'
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
import type { Database, Dialect, Row } from './database.ts'
import { DiskReserve } from './disk-reserve.ts'
import type { Schema } from './schema.ts'
import { SqliteLink } from './sqlite-link.ts'

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
  },
  rowsFromJson(json, columns) {
    const names = Object.keys(columns).map((name, index) => sql`value ->> ${sql.lit(index)} as ${sql.ref(name)}`)
    return sql`(select key as ordinal, ${sql.join(names)} from json_each(${json}))`
  },
  // Parsing the batch once and binding each row is a third faster here than taking every value out of JSON in SQL.
  insertSequenced(table, columns, counter, back = {}) {
    const names = Object.keys(columns)
    const behind = (name: string) => `(select value from counters where name = '${name}') - ?`
    const marks = names.map((name) => (back[name] === undefined ? '?' : behind(back[name]))).join(', ')
    const seq = behind(counter)
    const text = `insert into ${table} (seq, ${names.join(', ')}) values (${seq}, ${marks})`
    return (rows) => ({ ...CompiledQuery.raw(text), rows: JSON.stringify(rows) })
  },
}

/** One writer and one reader, each a connection in a thread of its own: a long read never holds up a kill. */
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
    return (await this.#lock.hold(() => this.#writer.run([query])))[0]!
  }

  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    yield await Promise.reject(new Error('Read in pages instead.'))
  }
}

/** Whoever holds it has the writer to itself; the others wait in line. */
class Lock {
  #tail: Promise<unknown> = Promise.resolve()
  #waiting = 0

  async acquire(): Promise<() => void> {
    let release = () => {}
    const before = this.#tail
    this.#tail = new Promise<void>((resolve) => {
      release = resolve
    })
    this.#waiting += 1
    await before
    return () => {
      this.#waiting -= 1
      release()
    }
  }

  async hold<T>(work: () => Promise<T>): Promise<T> {
    // Nobody waits: the worker keeps the order, so no turn of the event loop is spent.
    if (this.#waiting === 0) return work()
    const release = await this.acquire()
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
      // The answer may only be late: a transaction that nobody ends would swallow every later write.
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

/**
 * Opens the embedded database. `onFatal` hears of faults after which only a new process may go on.
 * Rejects with DatabaseError when the file cannot be opened, or SQLite is too old to be trusted with it.
 */
export async function openSqlite(file: string, onFatal: (fault: Error) => void): Promise<Database> {
  const events = { onFatal, onDiskFull: () => reserve.noteFull() }
  const { link: writer, version } = await SqliteLink.open({ file, readOnly: false }, events)
  if (!isVersionSafe(version)) {
    await writer.close()
    throw new DatabaseError(`SQLite ${version} can corrupt its log; ${oldestVersion} or newer is needed.`)
  }
  const { link: reader } = await SqliteLink.open({ file, readOnly: true }, events)
  const reserve = new DiskReserve(file)
  const lock = new Lock()
  const db = new Kysely<Schema>({
    dialect: {
      createAdapter: () => new ConcurrentAdapter(),
      createDriver: () => new SqliteDriver(writer, reader, lock, reserve),
      createIntrospector: (kysely) => new SqliteIntrospector(kysely),
      createQueryCompiler: () => new SqliteQueryCompiler(),
    },
  })
  return {
    db,
    dialect,
    isShared: false,
    change: async (statements) => void (await lock.hold(() => writer.change(statements))),
    async prepareDays() {},
    expired: async (cutoff) => ({ days: [], rowsBefore: cutoff }),
    async batch(statements) {
      // What is left of the disk is for control.
      if (reserve.isFull) throw new DatabaseError('The disk is full.')
      const results = await lock.hold(() => writer.run(statements))
      return results.map(({ rows }) => rows as Row[])
    },
    async backup(target) {
      if (existsSync(target)) throw new DatabaseError(`${target} exists already.`)
      // It holds everything that the database holds: nobody else may read it.
      closeSync(openSync(target, 'wx', 0o600))
      await writer.backup(target)
    },
    async close() {
      reserve.close()
      await db.destroy()
      await reader.close()
      await writer.close()
    },
  }
}
