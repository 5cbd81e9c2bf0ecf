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
import { createPrivate, makePrivate, syncFolder } from '../private-files.ts'
import type { Database, Dialect, Row } from './database.ts'
import { DiskReserve } from './disk-reserve.ts'
import { ScanLane } from './scan-lane.ts'
import type { Schema } from './schema.ts'
import { type RepeatedStatement, SqliteLink } from './sqlite-link.ts'

/** Older versions can corrupt a WAL file written by several connections (fixed in 3.51.3). */
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
    listed: (table, column, rows) => {
      const remove = `delete from ${rows} where instance_id = old.id;`
      const add = `insert into ${rows} (tag, instance_id)
        select distinct value, new.id from json_each(coalesce(new.${column}, '[]'));`
      return [
        `insert into ${rows} (tag, instance_id)
          select distinct value, ${table}.id from ${table}, json_each(coalesce(${table}.${column}, '[]'))`,
        `create trigger ${table}_${column}_insert after insert on ${table} when new.${column} is not null begin ${add} end`,
        `create trigger ${table}_${column}_update after update of ${column} on ${table}
          when new.${column} is not old.${column} begin ${remove} ${add} end`,
        `create trigger ${table}_${column}_delete after delete on ${table} when old.${column} is not null begin ${remove} end`,
      ]
    },
  },
  rowsFromJson(json, columns) {
    const names = Object.keys(columns).map((name, index) => sql`value ->> ${sql.lit(index)} as ${sql.ref(name)}`)
    return sql`(select key as ordinal, ${sql.join(names)} from json_each(${json}))`
  },
  jsonField: (column, name) => sql`${column} ->> ${sql.lit(name)}`,
  jsonRows: (columns) =>
    sql`nullif(json_group_array(json_array(${sql.join(columns.map((column) => sql.ref(column)))}) order by ${sql.ref(columns[0])}), '[]')`,
  // A transaction has exclusive use of the only writer, so checking suffices and no lock is needed.
  // The worker thread defines assert_found and sha256_hex.
  lockFound: (query) => ({ ...query, sql: `select assert_found(count(*)) from (${query.sql})` }),
  sha256Hex: (text) => sql`sha256_hex(${text})`,
  // In SQLite, parsing the batch once and binding each row is a third faster than extracting every value in SQL.
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

/** Makes the database files private before opening. SQLite gives its log the mode of the database file. */
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
    // A read sees every commit that was confirmed before the read started.
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

/** Grants exclusive use of the writer. Waiters queue, control first. */
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
    // Without a queue the worker keeps the order, so waiting for a turn of the event loop is unnecessary.
    if (!this.#isTaken) return work()
    const release = await this.acquire(isControl)
    try {
      return await work()
    } finally {
      release()
    }
  }
}

/** Lets reads run during a transaction. By default Kysely assumes that SQLite has a single connection. */
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
      // The reply may only be late. A transaction left open would capture every later write.
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

/** Reads over one connection, opened by the first read so that an idle service saves the thread's memory. */
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
 * Opens the embedded database. Calls `onFatal` on errors that require a restart of the process.
 * Rejects with DatabaseError if the file cannot be opened or the SQLite version is not safe.
 */
export async function openSqlite(file: string, onFatal: (fault: Error) => void): Promise<Database> {
  // An in-memory database would lose every acknowledged event.
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
  // The thread runs one query at a time. A second scan would wait inside it and bypass the turns of the callers.
  const scanLane = new ScanLane(1)
  return {
    db,
    dialect,
    isShared: false,
    change: async (statements) => void (await lock.exclusive(() => writer.change(statements))),
    serverTime: async () => undefined,
    timeline: async () => undefined,
    async prepareDays() {},
    expired: async (cutoff) => ({ days: [], rowsBefore: cutoff }),
    async batch(statements, { isControl = false } = {}) {
      // The remaining disk space is reserved for control.
      if (reserve.isFull && !isControl) throw new DatabaseError('The disk is full.')
      const results = await lock.exclusive(() => {
        if (isControl) reserve.makeRoom()
        return writer.run(statements, isControl)
      }, isControl)
      return results.map(({ rows }) => rows as Row[])
    },
    async withLateSync(work) {
      await lock.exclusive(() => writer.setLateSync(true))
      try {
        return await work()
      } finally {
        await lock.exclusive(() => writer.setLateSync(false))
      }
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
      // SQLite deletes the journal of the copy without syncing the folder: after a power cut it would undo the copy.
      syncFolder(dirname(target))
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
