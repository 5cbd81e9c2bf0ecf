import { escapeLiteral } from 'pg'
import { Session } from './postgres-session.ts'

/** A migrated schema with the means to reset it. */
interface Schema {
  name: string
  session: Session
  tables: string[]
  /** Deletes all rows and inserts those of the migrations. */
  empty: string
}

const quoted = (name: string) => `"${name}"`

/** Tables with rows: not the parents of partitions. */
async function readTables(session: Session): Promise<string[]> {
  const { rows } = await session.query(
    `select relname as name from pg_class where relnamespace = current_schema::regnamespace and relkind = 'r' order by relname`,
  )
  return rows.map(({ name }) => name as string)
}

async function describe(session: Session, name: string): Promise<Schema> {
  const tables = await readTables(session)
  const inserts: string[] = []
  for (const table of tables) {
    const { rows } = await session.query(`select json_agg(t)::text as rows from ${quoted(table)} t`)
    const text = rows[0].rows as string | null
    if (text === null) continue
    inserts.push(
      `insert into ${quoted(table)} select * from json_populate_recordset(null::${quoted(table)}, ${escapeLiteral(text)})`,
    )
  }
  // A session in replica mode runs no triggers: those of some tables refuse deletions, and counts are restored as rows.
  const deletes = tables.map((table) => `delete from ${quoted(table)}`)
  const empty = ['set session_replication_role = replica', 'begin', ...deletes, ...inserts, 'commit'].join('; ')
  return { name, session, tables, empty }
}

/** Schemas that no test is using. */
const unused: Schema[] = []

interface SchemaSource {
  /** Resolves with the name of an empty schema. */
  create(): Promise<string>
  /** URL of the database with this schema as search path. */
  url(schema: string): string
  migrate(url: string): Promise<void>
}

interface BorrowedSchema {
  /** Remains open for the next test that borrows the schema. */
  session: Session
  /** `isChanged`: not only rows may have changed. */
  giveBack(isChanged: boolean): Promise<void>
}

/**
 * Returns a migrated schema without rows. Migrating PostgreSQL takes a second of CPU time, emptying it some
 * milliseconds, so a process migrates only as many schemas as its tests use concurrently.
 */
export async function borrowSchema({ create, url: urlOf, migrate }: SchemaSource): Promise<BorrowedSchema> {
  const schema = unused.pop() ?? (await makeSchema({ create, url: urlOf, migrate }))
  const { name, session } = schema
  return {
    session,
    async giveBack(isChanged) {
      if (!isChanged && (await isEmptied(schema))) unused.push(schema)
      else {
        await session.query(`drop schema ${name} cascade`)
        await session.end()
      }
    },
  }
}

async function makeSchema({ create, url, migrate }: SchemaSource): Promise<Schema> {
  const name = await create()
  await migrate(url(name))
  return describe(new Session(url(name)), name)
}

/** Returns false if tables were created or dropped, or if the user of the tests may not empty them. */
async function isEmptied({ session, tables, empty }: Schema): Promise<boolean> {
  if ((await readTables(session)).join() !== tables.join()) return false
  try {
    await session.query(empty)
    return true
  } catch {
    // Otherwise the failed transaction would reject further statements.
    await session.end()
    return false
  }
}
