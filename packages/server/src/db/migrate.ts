import { CompiledQuery, sql } from 'kysely'
import { DatabaseError } from '../errors.ts'
import type { Database, Dialect } from './database.ts'
import { initial } from './migrations/0001-initial.ts'
import { controlChanges } from './migrations/0002-control-changes.ts'
import { alerts } from './migrations/0003-alerts.ts'

interface Migration {
  version: number
  name: string
  statements(ddl: Dialect['ddl']): string[]
}

/** Forward only, in order. A version once released is never edited. */
const migrations: Migration[] = [
  { version: 1, name: 'initial', statements: initial },
  { version: 2, name: 'control-changes', statements: controlChanges },
  { version: 3, name: 'alerts', statements: alerts },
]

const newest = migrations.at(-1)!.version

/** Two programs that create a table at the same moment trip over each other; the second try finds it. */
async function createVersionTable({ db, dialect }: Pick<Database, 'db' | 'dialect'>, isFirstTry = true): Promise<void> {
  const { bigint, text } = dialect.ddl
  try {
    await sql`create table if not exists schema_version (
      version integer primary key, name ${sql.raw(text)} not null, applied_at ${sql.raw(bigint)} not null
    )`.execute(db)
  } catch (fault) {
    if (!isFirstTry || !(fault instanceof DatabaseError && fault.constraint)) throw fault
    await createVersionTable({ db, dialect }, false)
  }
}

/**
 * Brings the schema to the newest version, each step in one transaction.
 * Rejects with DatabaseError when the schema is newer than this program.
 */
export async function migrate(database: Database, now: number): Promise<void> {
  const { db, dialect } = database
  await createVersionTable(database)
  const { current } = await db
    .selectFrom('schema_version')
    .select((e) => e.fn.coalesce(e.fn.max('version'), sql.lit(0)).as('current'))
    .executeTakeFirstOrThrow()
  if (current > newest) {
    throw new DatabaseError(
      `The database has schema ${current}, this program knows up to ${newest}: install a newer one.`,
    )
  }
  const step = migrations.find(({ version }) => version > current)
  if (!step) return
  const { version, name } = step
  // The version row goes first: of two programs that start together one fails there, changes nothing, and looks again.
  const mark = db.insertInto('schema_version').values({ version, name, applied_at: now }).compile()
  try {
    await database.change([mark, ...step.statements(dialect.ddl).map((statement) => CompiledQuery.raw(statement))])
  } catch (fault) {
    if (!(fault instanceof DatabaseError && fault.constraint)) throw fault
  }
  await migrate(database, now)
}
