import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as pause } from 'node:timers/promises'
import { inject } from 'vitest'
import { borrowSchema } from './borrowed-schemas.ts'
import { openPglite } from './pglite.ts'
import { connect, Session } from './postgres-session.ts'

/** A separate, empty database for a test, with access to it outside the service. */
export interface EmptyDatabase extends AsyncDisposable {
  /** Value for DATABASE_URL. */
  url: string
  /** Reads committed rows. Numbers of any size are returned as numbers. */
  rows<Row = Record<string, unknown>>(statement: string): Promise<Row[]>
  /** Runs statements separated by semicolons, over a new connection. */
  execute(statements: string): Promise<void>
  /** Names of all tables. */
  tables(): Promise<string[]>
  /** Makes such changes of the table fail like a violated constraint, until the returned function is called. */
  refuse(change: 'insert' | 'update', table: string): Promise<() => Promise<void>>
}

/** SQLITE_BUSY: https://sqlite.org/rescode.html */
const busy = 5

/** Engine of the test project. */
function engineOfRun(): 'sqlite' | 'postgres' | 'pglite' {
  const engine = process.env.TEST_ENGINE
  if (engine === 'sqlite' || engine === 'postgres' || engine === 'pglite') return engine
  throw new Error(`TEST_ENGINE is ${engine}; the projects of vitest.config.ts set it to sqlite, postgres or pglite`)
}

/** Begins a transaction; returns false if another connection is writing. */
function begins(connection: DatabaseSync): boolean {
  try {
    connection.exec('begin immediate')
    return true
  } catch (fault) {
    if ((fault as { errcode?: number }).errcode === busy) return false
    throw fault
  }
}

function sqliteIn(folder: string): EmptyDatabase {
  const file = join(folder, 'wardline.db')
  const open = () => new DatabaseSync(file)
  /** Kept open, because some tests read hundreds of times. Tests that replace the file do so before they read. */
  let reader: DatabaseSync | undefined
  const execute = async (statements: string) => {
    const connection = open()
    try {
      // The service may be in a transaction. It needs this thread to finish it, so SQLite itself must not wait here.
      while (!begins(connection)) await pause(5)
      connection.exec(statements)
      connection.exec('commit')
    } finally {
      connection.close()
    }
  }
  const rows = async <Row>(statement: string) => {
    reader ??= open()
    return reader.prepare(statement).all() as Row[]
  }
  return {
    url: `sqlite:${file}`,
    rows,
    execute,
    async refuse(change, table) {
      await execute(
        `create trigger refused before ${change} on ${table} begin select raise(abort, 'refused by a test'); end`,
      )
      return () => execute('drop trigger refused')
    },
    async tables() {
      const found = await rows<{ name: string }>(`select name from sqlite_schema where type = 'table' order by name`)
      return found.map(({ name }) => name)
    },
    async [Symbol.asyncDispose]() {
      reader?.close()
    },
  }
}

async function query(url: string, statements: string): Promise<void> {
  const client = await connect(url)
  try {
    await client.query(statements)
  } finally {
    await client.end()
  }
}

/**
 * Returns the database of a URL on a server. `dispose` is called with whether `execute` or `refuse` changed it. A
 * passed `session` stays open.
 */
function through(url: string, dispose: (isChanged: boolean) => PromiseLike<unknown>, session?: Session): EmptyDatabase {
  const reader = session ?? new Session(url)
  let isChanged = false
  const execute = async (statements: string) => {
    isChanged = true
    await query(url, statements)
  }
  const rows = async <Row>(statement: string) => (await reader.query(statement)).rows as Row[]
  return {
    url,
    rows,
    execute,
    async refuse(change, table) {
      await execute(`create function refused() returns trigger language plpgsql as
          $$ begin raise exception 'refused by a test' using errcode = 'integrity_constraint_violation'; end $$;
        create trigger refused before ${change} on ${table} for each row execute function refused()`)
      return () => execute(`drop trigger refused on ${table}; drop function refused()`)
    },
    async tables() {
      const found = await rows<{ name: string }>(
        'select tablename as name from pg_tables where schemaname = current_schema order by tablename',
      )
      return found.map(({ name }) => name)
    },
    async [Symbol.asyncDispose]() {
      if (reader !== session) await reader.end()
      await dispose(isChanged)
    },
  }
}

function sharedPostgres(): { url: string; schemaPrefix: string } {
  const url = inject('postgresUrl')
  if (url === undefined) throw new Error(`${inject('postgresMissing')}. The projects unit and unit-pglite need none.`)
  return { url, schemaPrefix: inject('schemaPrefix') }
}

async function createSchema(): Promise<string> {
  const { url, schemaPrefix } = sharedPostgres()
  const schema = `${schemaPrefix}${randomBytes(6).toString('hex')}`
  await query(url, `create schema ${schema}`)
  return schema
}

function schemaUrl(schema: string): string {
  const url = new URL(sharedPostgres().url)
  url.searchParams.set('options', `-c search_path=${schema}`)
  return url.href
}

/** Creates a schema in the shared database, which takes a few milliseconds. */
async function postgresSchema(): Promise<EmptyDatabase> {
  const schema = await createSchema()
  return through(schemaUrl(schema), () => query(sharedPostgres().url, `drop schema ${schema} cascade`))
}

/** Returns a schema with the tables of `migrate`, and only the rows that it inserts. */
async function migratedSchema(migrate: (url: string) => Promise<void>): Promise<EmptyDatabase> {
  const schema = await borrowSchema({ create: createSchema, url: schemaUrl, migrate })
  return through(schema.session.url, (isChanged) => schema.giveBack(isChanged), schema.session)
}

/** Creates a separate database on the shared server, so that rows of other tests do not count towards its size. */
async function postgresDatabase(migrate?: (url: string) => Promise<void>): Promise<EmptyDatabase> {
  const { url, schemaPrefix } = sharedPostgres()
  const name = `${schemaPrefix}${randomBytes(6).toString('hex')}`
  await query(url, `create database ${name}`)
  const own = new URL(url)
  own.pathname = name
  await migrate?.(own.href)
  return through(own.href, () => query(url, `drop database ${name} with (force)`))
}

async function pgliteInstance(): Promise<EmptyDatabase> {
  const pglite = await openPglite()
  return through(pglite.url, () => pglite[Symbol.asyncDispose]())
}

interface EmptyDatabaseOptions {
  migrate?: ((url: string) => Promise<void>) | undefined
  /** Its size is measured, so on PostgreSQL it gets a separate database. */
  isMeasured?: boolean | undefined
}

/**
 * The folder is for SQLite. Close all users of the database before disposing of it. With `migrate`, which migrates the
 * schema of an empty database to the newest version, PostgreSQL is migrated; other engines are empty.
 */
export async function makeEmptyDatabase(
  folder: string,
  { migrate, isMeasured = false }: EmptyDatabaseOptions = {},
): Promise<EmptyDatabase> {
  const engine = engineOfRun()
  if (engine === 'sqlite') return sqliteIn(folder)
  if (engine === 'pglite') return pgliteInstance()
  if (isMeasured) return postgresDatabase(migrate)
  return migrate ? migratedSchema(migrate) : postgresSchema()
}
