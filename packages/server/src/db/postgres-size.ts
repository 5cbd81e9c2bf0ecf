import { CompiledQuery, sql } from 'kysely'
import { dayMs } from '../clock.ts'
import type { Db, Statement } from './database.ts'
import { partitionName, readPartitions, startOfDay } from './postgres-days.ts'

/** Bytes of a row's header and line pointer (https://www.postgresql.org/docs/current/storage-page-layout.html). */
const rowBytes = 28
/** Factor for the unused space in pages. */
const packing = 1.1

/**
 * Returns the size of the database without the space of deleted rows, which PostgreSQL keeps for the table. The size of
 * event tables is estimated from the rows left at their last ANALYZE; a table never analysed counts in full.
 */
export async function usedBytes(db: Db): Promise<number> {
  const { rows } = await sql<{ bytes: number }>`
    with shrinking as (
      select oid, relname, reltuples, relpages from pg_class
      where relpages > 0 and reltuples >= 0 and (oid = 'event_refs'::regclass
        or oid in (select inhrelid from pg_inherits where inhparent = 'events'::regclass))
    ), widths as (
      select tablename, sum(avg_width * (1 - null_frac)) as width from pg_stats
      where schemaname = current_schema() group by tablename
    )
    select pg_database_size(current_database()) - ceil(coalesce(sum(pg_total_relation_size(oid) * greatest(0,
      1 - reltuples * (coalesce(width, 0) + ${rowBytes}::numeric) * ${packing}::numeric
        / (relpages * current_setting('block_size')::numeric))), 0)) as bytes
    from shrinking left join widths on tablename = relname`.execute(db)
  return rows[0]!.bytes
}

/** Analyses the tables that contained events created between these times. */
export async function noteDeleted(
  db: Db,
  run: (statement: Statement) => Promise<void>,
  from: number,
  to: number,
): Promise<void> {
  const known = new Set(await readPartitions(db))
  const names = ['event_refs', 'events_otherwise']
  for (let day = startOfDay(from); day <= to; day += dayMs) names.push(partitionName(day))
  for (const name of names) {
    if (name === 'event_refs' || known.has(name)) await run(CompiledQuery.raw(`analyze ${name}`))
  }
}
