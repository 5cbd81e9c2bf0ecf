import { limits } from '@wardline/contract'
import { sql } from 'kysely'
import type { Database, Db, Statement } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'
import { isOfTeam, type Team } from '../../db/teams.ts'

export type BrakeRow = Schema['brake']

export function readBrakeRow(db: Db): Promise<BrakeRow> {
  return db.selectFrom('brake').selectAll().executeTakeFirstOrThrow()
}

/** Reads the refusals since the brake was engaged, latest first; unlisted instances have the id ''. */
export function readRefusals(db: Db, team?: Team) {
  return db
    .selectFrom('brake_refusals')
    .selectAll()
    .where(isOfTeam('instance_id', team))
    .orderBy('last_at', 'desc')
    .execute()
}

/**
 * Changes the brake, in a batch that fails as stale if another process changed it since it was read: of concurrent
 * processes one succeeds, and the others count again. Must come first in a batch.
 */
export function brakeStatements(
  { db, dialect }: Database,
  read: BrakeRow,
  change: Partial<Pick<BrakeRow, 'engaged_at' | 'engaged_by_event'>> = {},
): Statement[] {
  const asRead = db.selectFrom('brake').select('id').where('id', '=', read.id).where('version', '=', read.version)
  const update = db
    .updateTable('brake')
    .set({ version: read.version + 1, ...change })
    .where('id', '=', read.id)
  return [dialect.lockFound(asRead.compile()), update.compile()]
}

/**
 * Counts a refusal while the brake is engaged. Does not lock the brake, and comes after the events of its transaction:
 * locks taken in different orders could deadlock.
 */
export function refusalStatement(
  { db }: Pick<Database, 'db'>,
  instanceId: string,
  eventId: string,
  now: number,
): Statement {
  return sql`insert into brake_refusals (instance_id, count, event_id, last_at)
    select case when exists (select 1 from brake_refusals where instance_id = ${instanceId})
        or (select count(*) from brake_refusals where instance_id <> '') < ${sql.lit(limits.listedRefusals)}
      then ${instanceId} else '' end, 1, ${eventId}, cast(${now} as bigint)
    from brake where engaged_at is not null
    on conflict (instance_id) do update
      set count = brake_refusals.count + 1, event_id = excluded.event_id, last_at = excluded.last_at`.compile(db)
}

/** Must come after the events of its transaction, like refusals. */
export const forgetRefusals = (db: Db): Statement => db.deleteFrom('brake_refusals').compile()
