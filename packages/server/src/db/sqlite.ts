import { existsSync } from 'node:fs'
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
    appendOnly: (table) => [
      `create trigger ${table}_no_update before update on ${table} begin select raise(abort, '${table} is append-only'); end`,
      `create trigger ${table}_no_delete before delete on ${table} begin select raise(abort, '${table} is append-only'); end`,
    ],
  },
  rowsFromJson(json, columns) {
    const names = Object.keys(columns).map((name, index) => sql`value ->> ${sql.lit(index)} as ${sql.ref(name)}`)
    return sql`(select key as ordinal, ${sql.join(names)} from json_each(${json}))`
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

class SqliteDriver implements Driver {
  readonly #connect: () => SqliteConnection
  readonly #lock: Lock

  constructor(connect: () => SqliteConnection, lock: Lock) {
    this.#connect = connect
    this.#lock = lock
  }

  async init() {}

  async acquireConnection() {
    return this.#connect()
  }

  async beginTransaction(connection: SqliteConnection) {
    connection.release = await this.#lock.acquire()
    connection.inTransaction = true
    await connection.executeQuery(CompiledQuery.raw('begin immediate'))
  }

  async commitTransaction(connection: SqliteConnection) {
    await connection.executeQuery(CompiledQuery.raw('commit'))
  }

  async rollbackTransaction(connection: SqliteConnection) {
    await connection.executeQuery(CompiledQuery.raw('rollback'))
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
  const { link: writer, version } = await SqliteLink.open({ file, readOnly: false }, onFatal)
  if (!isVersionSafe(version)) {
    await writer.close()
    throw new DatabaseError(`SQLite ${version} can corrupt its log; ${oldestVersion} or newer is needed.`)
  }
  const { link: reader } = await SqliteLink.open({ file, readOnly: true }, onFatal)
  const lock = new Lock()
  const db = new Kysely<Schema>({
    dialect: {
      createAdapter: () => new SqliteAdapter(),
      createDriver: () => new SqliteDriver(() => new SqliteConnection(writer, reader, lock), lock),
      createIntrospector: (kysely) => new SqliteIntrospector(kysely),
      createQueryCompiler: () => new SqliteQueryCompiler(),
    },
  })
  return {
    db,
    dialect,
    async batch(statements) {
      const results = await lock.hold(() => writer.run(statements.map(({ sql, parameters }) => ({ sql, parameters }))))
      return results.map(({ rows }) => rows as Row[])
    },
    async backup(target) {
      if (existsSync(target)) throw new DatabaseError(`${target} exists already.`)
      await writer.backup(target)
    },
    async close() {
      await db.destroy()
      await reader.close()
      await writer.close()
    },
  }
}
