import { type RawBuilder, sql } from 'kysely'
import type { Db } from './database.ts'
import type { Schema } from './schema.ts'

/** Rows per statement: a few milliseconds, which a kill may have to wait. */
const portionRows = 500
/** Rows per run, so that the other work of a job is not delayed for long. The next run continues. */
const runRows = 200_000

/**
 * Calls `remove` until it removes fewer rows than it may, for at most one run, or until `stopping` is aborted, because a
 * shutdown waits for it.
 */
export async function inPortions(remove: (limit: number) => Promise<number>, stopping?: AbortSignal): Promise<void> {
  for (let rows = 0; rows < runRows && !stopping?.aborted; rows += portionRows)
    if ((await remove(portionRows)) < portionRows) return
}

interface OldRows<Table extends keyof Schema> {
  key: readonly (keyof Schema[Table] & string)[]
  where: RawBuilder<unknown>
  /** The column by which the index finds the rows. */
  orderBy?: keyof Schema[Table] & string
}

/** Deletes the rows of a table that meet a condition, in portions. */
export function deleteInPortions<Table extends keyof Schema & string>(
  db: Db,
  table: Table,
  { key, where, orderBy }: OldRows<Table>,
  stopping?: AbortSignal,
): Promise<void> {
  const columns = sql.join(key.map((column) => sql.ref(column)))
  const order = orderBy === undefined ? sql`` : sql`order by ${sql.ref(orderBy)}`
  return inPortions(async (limit) => {
    const found = sql`select ${columns} from ${sql.table(table)} where ${where} ${order} limit ${limit}`
    // The condition is repeated for rows that were changed after they were found.
    const deletion = sql`delete from ${sql.table(table)} where (${columns}) in (${found}) and (${where})`
    return Number((await deletion.execute(db)).numAffectedRows)
  }, stopping)
}

/** Yields pages until one has fewer than `rows`. `read` returns the page after a row, or the first one. */
export async function* pagesOf<Row>(
  rows: number,
  read: (last: Row | undefined) => Promise<Row[]>,
): AsyncGenerator<Row[], void> {
  for (let last: Row | undefined; ; ) {
    const page = await read(last)
    if (page.length > 0) yield page
    if (page.length < rows) return
    last = page.at(-1)
  }
}
