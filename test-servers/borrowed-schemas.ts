import { escapeLiteral } from 'pg'
import { Session } from './postgres-session.ts'

/** A migrated schema, and how to bring it back to that state. */
interface Schema {
  name: string
  session: Session
  tables: string[]
  /** Deletes all rows and inserts those that the migrations leave. */
  empty: string
}

const quoted = (name: string) => `"${name}"`

/** Tables that hold rows: not those whose rows are in partitions. */
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
  // As a replica a session runs no triggers: some tables refuse deletions by one, and counts are restored as rows.
  const deletes = tables.map((table) => `delete from ${quoted(table)}`)
  const empty = ['set session_replication_role = replica', 'begin', ...deletes, ...inserts, 'commit'].join('; ')
  return { name, session, tables, empty }
}

/** Schemas that no test uses at the moment. */
const unused: Schema[] = []

interface SchemaSource {
  /** Resolves with the name of an empty schema. */
  create(): Promise<string>
  /** Of the database, with the schema as the one to use. */
  url(schema: string): string
  migrate(url: string): Promise<void>
}

interface BorrowedSchema {
  /** Stays open for the next test that borrows the schema. */
  session: Session
  /** `isChanged`: more than its rows may be different from what they were. */
  giveBack(isChanged: boolean): Promise<void>
}

/**
 * A migrated schema without rows. To migrate PostgreSQL takes a second of processor time, to empty it some milliseconds:
 * a process migrates as many schemas as its tests use at the same time.
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

/** False when tables came or went, or the user of the tests may not empty them. */
async function isEmptied({ session, tables, empty }: Schema): Promise<boolean> {
  if ((await readTables(session)).join() !== tables.join()) return false
  try {
    await session.query(empty)
    return true
  } catch {
    // Without it, the transaction that failed would refuse what follows.
    await session.end()
    return false
  }
}
