import { sql } from 'kysely'
import type { Db } from './database.ts'
import type { Schema } from './schema.ts'

/** Tables to which agents, time or their alerts add rows. */
const growing: (keyof Schema)[] = [
  'events',
  'idempotency_keys',
  'alerts',
  'alert_deliveries',
  'alert_messages',
  'honeypots',
  'honeypot_hits',
  'instances',
  'deleted_instances',
  'baselines',
  'baseline_episodes',
  'audit_log',
]
/** Counting on would keep other readers waiting, and says no more about who fills the database. */
const maxCounted = 1_000_000

/** The tables with the most rows, and how many these are, most first. */
export async function countLargest(db: Db, tables: number): Promise<[table: string, rows: number][]> {
  const counts: [string, number][] = []
  for (const table of growing) {
    const { rows } = await sql<{ count: number }>`select count(*) as count
      from (select 1 as one from ${sql.table(table)} limit ${maxCounted}) as counted`.execute(db)
    counts.push([table, Number(rows[0]!.count)])
  }
  return counts.sort(([, one], [, other]) => other - one).slice(0, tables)
}
