import { Client } from 'pg'

/** A migrated schema, and how to bring it back to that state. */
interface Schema {
  name: string
  tables: string[]
  /** Deletes all rows and inserts those that the migrations leave. */
  empty: string
}

const quoted = (name: string) => `"${name}"`

async function use<Result>(url: string, work: (client: Client) => Promise<Result>): Promise<Result> {
  const client = new Client({ connectionString: url })
  client.on('error', () => {})
  try {
    await client.connect()
    return await work(client)
  } finally {
    await client.end()
  }
}

/** Tables that hold rows: not those whose rows are in partitions. */
async function readTables(client: Client): Promise<string[]> {
  const { rows } = await client.query(
    `select relname as name from pg_class where relnamespace = current_schema::regnamespace and relkind = 'r' order by relname`,
  )
  return rows.map(({ name }) => name as string)
}

async function describe(url: string, name: string): Promise<Schema> {
  return use(url, async (client) => {
    const tables = await readTables(client)
    const inserts: string[] = []
    for (const table of tables) {
      const { rows } = await client.query(`select json_agg(t)::text as rows from ${quoted(table)} t`)
      const text = rows[0].rows as string | null
      if (text === null) continue
      inserts.push(
        `insert into ${quoted(table)} select * from json_populate_recordset(null::${quoted(table)}, ${client.escapeLiteral(text)})`,
      )
    }
    // As a replica a session runs no triggers: some tables refuse deletions by one, and counts are restored as rows.
    const deletes = tables.map((table) => `delete from ${quoted(table)}`)
    const empty = ['set session_replication_role = replica', 'begin', ...deletes, ...inserts, 'commit'].join('; ')
    return { name, tables, empty }
  })
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
  url: string
  /** `isChanged`: more than its rows may be different from what they were. */
  giveBack(isChanged: boolean): Promise<void>
}

/**
 * A migrated schema without rows. To migrate PostgreSQL takes a second of processor time, to empty it some milliseconds:
 * a process migrates as many schemas as its tests use at the same time.
 */
export async function borrowSchema({ create, url: urlOf, migrate }: SchemaSource): Promise<BorrowedSchema> {
  const schema = unused.pop() ?? (await makeSchema({ create, url: urlOf, migrate }))
  const url = urlOf(schema.name)
  return {
    url,
    giveBack: (isChanged) =>
      use(url, async (client) => {
        if (!isChanged && (await isEmptied(client, schema))) unused.push(schema)
        else await client.query(`drop schema ${schema.name} cascade`)
      }),
  }
}

async function makeSchema({ create, url, migrate }: SchemaSource): Promise<Schema> {
  const name = await create()
  await migrate(url(name))
  return describe(url(name), name)
}

/** False when tables came or went, or the user of the tests may not empty them. */
async function isEmptied(client: Client, { tables, empty }: Schema): Promise<boolean> {
  if ((await readTables(client)).join() !== tables.join()) return false
  try {
    await client.query(empty)
    return true
  } catch {
    return false
  }
}
