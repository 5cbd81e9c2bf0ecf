import { sql } from 'kysely'
import type { Db } from './database.ts'
import type { Schema } from './schema.ts'

/** Tables that grow with time or with the events and alerts of agents. */
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
/** Counting further would block other readers and would not help to find what fills the database. */
const maxCounted = 1_000_000

/** Returns the largest tables with their row counts (capped at one million), in descending order. */
export async function countLargest(db: Db, tables: number): Promise<[table: string, rows: number][]> {
  const counts: [string, number][] = []
  for (const table of growing) {
    const { rows } = await sql<{ count: number }>`select count(*) as count
      from (select 1 as one from ${sql.table(table)} limit ${maxCounted}) as counted`.execute(db)
    counts.push([table, Number(rows[0]!.count)])
  }
  return counts.sort(([, one], [, other]) => other - one).slice(0, tables)
}
