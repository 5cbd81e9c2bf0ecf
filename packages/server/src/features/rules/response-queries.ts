import { sql } from 'kysely'
import type { Db, Statement } from '../../db/database.ts'
import type { PendingResponse, ResponseRow } from './runner-queries.ts'

/** Reads pending responses, oldest first. */
export async function readPending(db: Db, limit: number): Promise<PendingResponse[]> {
  const rows = await db
    .selectFrom('rule_responses as response')
    .innerJoin('rule_firings as firing', (join) =>
      join.onRef('firing.rule_id', '=', 'response.rule_id').onRef('firing.seq', '=', 'response.seq'),
    )
    .leftJoin('rules as rule', 'rule.id', 'response.rule_id')
    .selectAll('response')
    .select(['firing.version', 'firing.event_id', 'firing.instance_id', 'rule.title'])
    .where('response.state', '=', sql.lit('pending') as never)
    .orderBy('response.created_at')
    .limit(limit)
    .execute()
  return rows.map((row) => ({ ...row, title: row.title ?? row.rule_id }))
}

/** Stores the result of a response, once. */
export function settledStatement(
  db: Db,
  { rule_id, seq, position }: Pick<ResponseRow, 'rule_id' | 'seq' | 'position'>,
  state: ResponseRow['state'],
  detail: string | null,
): Statement {
  return db
    .updateTable('rule_responses')
    .set({ state, detail })
    .where('rule_id', '=', rule_id)
    .where('seq', '=', seq)
    .where('position', '=', position)
    .where('state', '=', 'pending')
    .compile()
}

/** Deletes up to `limit` firings with their responses; resolves with their number. Keeps firings with a pending response. */
export async function deleteFiringsBefore(db: Db, cutoff: number, limit: number): Promise<number> {
  const old = await db
    .selectFrom('rule_firings as firing')
    .select(['rule_id', 'seq'])
    .where('created_at', '<', cutoff)
    .where((e) =>
      e.not(
        e.exists(
          e
            .selectFrom('rule_responses as response')
            .select('response.seq')
            .whereRef('response.rule_id', '=', 'firing.rule_id')
            .whereRef('response.seq', '=', 'firing.seq')
            .where('response.state', '=', 'pending'),
        ),
      ),
    )
    .orderBy('created_at')
    .limit(limit)
    .execute()
  const byRule = new Map<string, number[]>()
  for (const { rule_id, seq } of old) byRule.set(rule_id, [...(byRule.get(rule_id) ?? []), seq])
  for (const [ruleId, seqs] of byRule) {
    await db.deleteFrom('rule_responses').where('rule_id', '=', ruleId).where('seq', 'in', seqs).execute()
    await db.deleteFrom('rule_firings').where('rule_id', '=', ruleId).where('seq', 'in', seqs).execute()
  }
  return old.length
}

export async function deleteFiringHoursBefore(db: Db, hour: number): Promise<void> {
  await db.deleteFrom('rule_hours').where('hour', '<', hour).execute()
}
