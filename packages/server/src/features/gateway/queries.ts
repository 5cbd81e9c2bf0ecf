import { sql } from 'kysely'
import type { Database, Db, Statement } from '../../db/database.ts'
import { deleteInPortions } from '../../db/portions.ts'
import type { Schema } from '../../db/schema.ts'
import type { Amount } from './charges.ts'

export type BudgetRow = Schema['model_budgets']
export type BudgetKey = Pick<BudgetRow, 'day' | 'budget' | 'instance_id'>

const rowOf = (key: BudgetKey) => ({
  ...key,
  tokens: 0,
  nano_usd: 0,
  reserved_tokens: 0,
  reserved_nano_usd: 0,
  warned_at: null,
  refused_at: null,
})

/** Reserves an amount if use and reservations stay within the limits; returns a row if so. */
export function reserveStatement(db: Db, key: BudgetKey, { tokens, nanoUsd }: Amount, max: Amount): Statement {
  return db
    .insertInto('model_budgets')
    .values({ ...rowOf(key), reserved_tokens: tokens, reserved_nano_usd: nanoUsd })
    .onConflict((conflict) =>
      conflict
        .columns(['day', 'budget', 'instance_id'])
        .doUpdateSet({
          reserved_tokens: sql`model_budgets.reserved_tokens + ${tokens}`,
          reserved_nano_usd: sql`model_budgets.reserved_nano_usd + ${nanoUsd}`,
        })
        .where(sql<boolean>`model_budgets.tokens + model_budgets.reserved_tokens <= ${max.tokens - tokens}
          and model_budgets.nano_usd + model_budgets.reserved_nano_usd <= ${max.nanoUsd - nanoUsd}`),
    )
    .returning('budget')
    .compile()
}

/** Charges an amount in place of what was reserved; returns the row. */
export function settleStatement(db: Db, key: BudgetKey, charged: Amount, reserved: Amount): Statement {
  return db
    .insertInto('model_budgets')
    .values({ ...rowOf(key), tokens: charged.tokens, nano_usd: charged.nanoUsd })
    .onConflict((conflict) =>
      conflict.columns(['day', 'budget', 'instance_id']).doUpdateSet({
        tokens: sql`model_budgets.tokens + ${charged.tokens}`,
        nano_usd: sql`model_budgets.nano_usd + ${charged.nanoUsd}`,
        reserved_tokens: sql`model_budgets.reserved_tokens - ${reserved.tokens}`,
        reserved_nano_usd: sql`model_budgets.reserved_nano_usd - ${reserved.nanoUsd}`,
      }),
    )
    .returningAll()
    .compile()
}

/** Notes that a budget was reported, in a batch that fails as stale if it was before. */
export function reportStatements(
  { db, dialect }: Pick<Database, 'db' | 'dialect'>,
  { day, budget, instance_id }: BudgetKey,
  column: 'warned_at' | 'refused_at',
  now: number,
): Statement[] {
  const unreported = db
    .selectFrom('model_budgets')
    .select('budget')
    .where('day', '=', day)
    .where('budget', '=', budget)
    .where('instance_id', '=', instance_id)
    .where(column, 'is', null)
  const note = db
    .updateTable('model_budgets')
    .set({ [column]: now })
    .where('day', '=', day)
    .where('budget', '=', budget)
    .where('instance_id', '=', instance_id)
  return [
    db
      .insertInto('model_budgets')
      .values(rowOf({ day, budget, instance_id }))
      .onConflict((conflict) => conflict.doNothing())
      .compile(),
    dialect.lockFound(unreported.compile()),
    note.compile(),
  ]
}

export function findBudgetRow(db: Db, { day, budget, instance_id }: BudgetKey): Promise<BudgetRow | undefined> {
  return db
    .selectFrom('model_budgets')
    .selectAll()
    .where('day', '=', day)
    .where('budget', '=', budget)
    .where('instance_id', '=', instance_id)
    .executeTakeFirst()
}

/** Returns the rows of a budget, the most used first. */
export function readBudgetRows(db: Db, day: string, budget: string, limit: number): Promise<BudgetRow[]> {
  return db
    .selectFrom('model_budgets')
    .selectAll()
    .where('day', '=', day)
    .where('budget', '=', budget)
    .orderBy(sql`tokens + reserved_tokens`, 'desc')
    .orderBy('instance_id')
    .limit(limit)
    .execute()
}

export const deleteBudgetsBefore = (db: Db, day: string, stopping?: AbortSignal): Promise<void> =>
  deleteInPortions(db, 'model_budgets', { key: ['day', 'budget', 'instance_id'], where: sql`day < ${day}` }, stopping)
