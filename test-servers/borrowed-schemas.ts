import { escapeLiteral } from 'pg'
import { Session } from './postgres-session.ts'

/** A migrated schema with the means to reset it. */
interface Schema {
  name: string
  session: Session
  tables: string[]
  /** Of everything but rows. */
  fingerprint: string
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

/** Hash of the definitions of tables, columns, indexes, constraints, triggers and functions. */
async function readFingerprint(session: Session): Promise<string> {
  const { rows } = await session.query(`with own as (
      select * from pg_class where relnamespace = current_schema::regnamespace
    ), lines as (
      select concat_ws(' ', 'relation', relname, relkind, relacl, reloptions, pg_get_expr(relpartbound, oid)) as line from own
      union all select concat_ws(' ', 'column', relname, attnum, attname, atttypid, attnotnull, attisdropped)
        from pg_attribute join own on own.oid = attrelid where attnum > 0
      union all select concat_ws(' ', 'default', relname, adnum, pg_get_expr(adbin, adrelid))
        from pg_attrdef join own on own.oid = adrelid
      union all select concat_ws(' ', 'index', pg_get_indexdef(indexrelid), indisvalid) from pg_index join own on own.oid = indrelid
      union all select concat_ws(' ', 'constraint', relname, conname, pg_get_constraintdef(pg_constraint.oid))
        from pg_constraint join own on own.oid = conrelid
      union all select concat_ws(' ', 'trigger', pg_get_triggerdef(pg_trigger.oid), tgenabled)
        from pg_trigger join own on own.oid = tgrelid where not tgisinternal
      union all select concat_ws(' ', 'function', proname, proargtypes, prosrc)
        from pg_proc where pronamespace = current_schema::regnamespace
    ) select md5(string_agg(line, '|' order by line)) as fingerprint from lines`)
  return rows[0].fingerprint
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
  return { name, session, tables, fingerprint: await readFingerprint(session), empty }
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
  /** `isChanged`: more may have changed than rows and the tables of days. */
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
      if (await isEmptied(schema, isChanged)) unused.push(schema)
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

/** Returns false if it is not as it was migrated: a table was dropped, or the user of the tests may not empty it. */
async function isEmptied({ session, tables, fingerprint, empty }: Schema, isChanged: boolean): Promise<boolean> {
  try {
    const present = await readTables(session)
    if (tables.some((table) => !present.includes(table))) return false
    // Those of days that the service began while the clock of the test went on.
    const added = present.filter((table) => !tables.includes(table))
    if (added.length > 0) await session.query(`drop table ${added.map(quoted).join(', ')}`)
    if (isChanged && (await readFingerprint(session)) !== fingerprint) return false
    await session.query(empty)
    return true
  } catch {
    // Otherwise the failed transaction would reject further statements.
    await session.end()
    return false
  }
}
