import { sql } from 'kysely'
import type { Db, Statement } from '../../db/database.ts'
import type { Schema } from '../../db/schema.ts'
import { isOfTeam, type Team } from '../../db/teams.ts'
import { instanceControls } from '../instances/control-statements.ts'

export type SuspensionRow = Schema['suspensions']

/** The suspensions of an instance, newest first. */
export function readSuspensions(db: Db, instanceId: string, limit: number): Promise<SuspensionRow[]> {
  return db
    .selectFrom('suspensions')
    .selectAll()
    .where('instance_id', '=', instanceId)
    .orderBy('version', 'desc')
    .limit(limit)
    .execute()
}

/** Returns the active suspensions of the given instances. */
export function readLasting(db: Db, instanceIds: readonly string[]): Promise<SuspensionRow[]> {
  return db
    .selectFrom('suspensions')
    .selectAll()
    .where('instance_id', 'in', instanceIds)
    .where('resumed_at', 'is', null)
    .orderBy('instance_id')
    .execute()
}

/**
 * Corrects suspensions after a process of an older version, which runs beside this one during an upgrade and does not
 * write these facts: its resume ends no suspension, and its kill inserts no row. Such a kill gets the same facts as in
 * the migration.
 */
export function alignmentStatements(db: Db, now: number): Statement[] {
  const changedAt = sql`coalesce(controls.control_changed_at, cast(${now} as bigint))`
  return [
    sql`update suspensions set look_at = ${now},
        resumed_at = case when requested_at > ${changedAt} then requested_at else ${changedAt} end
      from ${instanceControls} as controls where controls.id = suspensions.instance_id and suspensions.resumed_at is null
        and (controls.suspended = 0 or controls.control_version > suspensions.version)`.compile(db),
    sql`insert into suspensions
        (instance_id, version, reason, requested_at, acknowledged_at, can_acknowledge, result_reported, look_at)
      select id, control_version, coalesce(suspension_reason, ''), ${changedAt},
        case when applied_version = control_version then applied_at end,
        case when applied_version is null then 0 else 1 end,
        case when kill_result_version = control_version then kill_result end, ${changedAt}
      from ${instanceControls} as controls where suspended = 1 and not exists (select 1 from suspensions
        where suspensions.instance_id = controls.id and suspensions.version = controls.control_version)
      on conflict (instance_id, version) do nothing`.compile(db),
  ]
}

/** Returns active suspensions, by instance id after `after`. */
export function readLastingAfter(
  db: Db,
  after: string,
  limit: number,
): Promise<
  Pick<SuspensionRow, 'instance_id' | 'version' | 'requested_at' | 'containment_id' | 'key_containment_id'>[]
> {
  return db
    .selectFrom('suspensions')
    .select(['instance_id', 'version', 'requested_at', 'containment_id', 'key_containment_id'])
    .where('resumed_at', 'is', null)
    .where('instance_id', '>', after)
    .orderBy('instance_id')
    .limit(limit)
    .execute()
}

/** Returns those of the instances whose suspension holds their key. */
export async function readKeyHolders(db: Db, instanceIds: readonly string[]): Promise<string[]> {
  const rows = await db
    .selectFrom('suspensions')
    .select('instance_id')
    .where('instance_id', 'in', instanceIds)
    .where('resumed_at', 'is', null)
    .where((e) => e.or([e('containment_id', 'is not', null), e('key_containment_id', 'is not', null)]))
    .execute()
  return rows.map(({ instance_id }) => instance_id)
}

/** Returns the suspensions due for a decision, longest waiting first. */
export function readDue(db: Db, now: number, limit: number): Promise<SuspensionRow[]> {
  return db.selectFrom('suspensions').selectAll().where('look_at', '<=', now).orderBy('look_at').limit(limit).execute()
}

/** Returns the newest suspensions since an instant, with the columns that percentiles are computed from. */
export function readRecent(db: Db, since: number, limit: number, team: Team) {
  return db
    .selectFrom('suspensions')
    .select([
      'instance_id',
      'version',
      'requested_at',
      'stored_at',
      'published_at',
      'delivered_at',
      'delivered_by',
      'acknowledged_at',
      'enforced_at',
      'enforced_by',
      'silent_at',
      'quiet_at',
      'resumed_at',
      'can_acknowledge',
      'first_breach_at',
      'result_reported',
    ])
    .where('requested_at', '>=', since)
    .where(isOfTeam('instance_id', team))
    .orderBy('requested_at', 'desc')
    .limit(limit)
    .execute()
}

/** Columns computed from a suspension's facts and the event log. */
type Decided = Pick<
  SuspensionRow,
  | 'breaches'
  | 'first_breach_at'
  | 'last_breach_at'
  | 'last_activity_at'
  | 'silent_at'
  | 'quiet_at'
  | 'result_reported'
  | 'breaches_reported'
  | 'breach_reported_at'
  | 'checked_seq'
  | 'look_at'
>

const guards = [
  'look_at',
  'checked_seq',
  'delivered_at',
  'delivered_by',
  'acknowledged_at',
  'resumed_at',
  'last_activity_at',
  'breaches',
  'breaches_reported',
  'result_reported',
] as const

/** Writes the decision, unless a fact has changed since the row was read. Returns the instance id if it was written. */
export function decisionStatement(db: Db, row: SuspensionRow, decided: Decided): Statement {
  let update = db
    .updateTable('suspensions')
    .set(decided)
    .where('instance_id', '=', row.instance_id)
    .where('version', '=', row.version)
  for (const column of guards) {
    const value = row[column]
    update = update.where(column, value === null ? 'is' : '=', value as never)
  }
  return update.returning('instance_id as decided').compile()
}

/**
 * Records activity that the event log does not show under the instance's id. What is a breach:
 * see `breachAfter` in states.ts.
 */
export function activityStatement(
  db: Db,
  { instanceId, at, count }: { instanceId: string; at: number; count: number },
  { graceMs, deliveryMs }: { graceMs: number; deliveryMs: number },
): Statement {
  const received = sql`coalesce(case when delivered_by = 'answer' then null else delivered_at end, acknowledged_at)`
  const isBreach = sql`(${at} > ${received} + ${graceMs}
    or ${at} > requested_at + ${deliveryMs} + case when ${received} is null then 0 else ${graceMs} end
    or (silent_at is not null and ${at} > acknowledged_at))`
  const time = sql<number>`cast(${at} as bigint)`
  return db
    .updateTable('suspensions')
    .set({
      last_activity_at: sql<number>`case when last_activity_at > ${at} then last_activity_at else ${time} end`,
      breaches: sql<number>`breaches + case when ${isBreach} then cast(${count} as bigint) else 0 end`,
      first_breach_at: sql<number>`case when ${isBreach} then coalesce(first_breach_at, ${time}) else first_breach_at end`,
      last_breach_at: sql<number>`case when ${isBreach} then ${time} else last_breach_at end`,
      look_at: time,
    })
    .where('instance_id', '=', instanceId)
    .where('requested_at', '<', at)
    .where((e) => e.or([e('resumed_at', 'is', null), e('resumed_at', '>', at)]))
    .where('version', '=', (e) =>
      e
        .selectFrom('suspensions as latest')
        .select((of) => of.fn.max('latest.version').as('version'))
        .where('latest.instance_id', '=', instanceId),
    )
    .compile()
}
