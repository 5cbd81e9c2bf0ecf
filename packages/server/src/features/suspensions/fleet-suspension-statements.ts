import { sql } from 'kysely'
import type { Database, Db, Statement } from '../../db/database.ts'
import { isSuspended } from '../instances/parent-statements.ts'

interface FleetSuspensions {
  /** The containment, or the parent, that they belong to. */
  containmentId: string | null
  throughId?: string
  reason: string
  actor: string
  now: number
  members: readonly { id: string; version: number; canAcknowledge: boolean }[]
}

/** Inserts the suspensions of one containment, or through one parent, within the batch that suspends. */
export function fleetSuspensionsStatement({ db, dialect }: Database, fleet: FleetSuspensions): Statement {
  const { containmentId, throughId = null, reason, actor, now, members } = fleet
  const cells = members.map(({ id, version, canAcknowledge }) => [id, version, canAcknowledge ? 1 : 0])
  const columns = { instance_id: 'text', version: 'bigint', can_acknowledge: 'bigint' } as const
  return sql`insert into suspensions
      (instance_id, version, can_acknowledge, reason, actor, containment_id, through_id, requested_at, look_at)
    select instance_id, version, can_acknowledge, cast(${reason} as text), cast(${actor} as text),
      cast(${containmentId} as text), cast(${throughId} as text), cast(${now} as bigint), cast(${now} as bigint)
    from ${dialect.rowsFromJson(JSON.stringify(cells), columns)} as batch`.compile(db)
}

const ofIds = ({ dialect }: Pick<Database, 'dialect'>, ids: readonly string[]) =>
  sql<boolean>`instance_id in (select id from ${dialect.rowsFromJson(JSON.stringify(ids.map((id) => [id])), { id: 'text' })} as named)`

/** Ends the suspensions of these instances, within the batch that resumes or takes over. */
export function fleetResumptionsStatement(database: Database, ids: readonly string[], now: number): Statement {
  return database.db
    .updateTable('suspensions')
    .set({ resumed_at: now, look_at: now })
    .where(ofIds(database, ids))
    .where('resumed_at', 'is', null)
    .compile()
}

/**
 * Reads suspensions that last although the parent through which they were made is not suspended, by instance id;
 * `parents`: only of these.
 */
export async function readEndedThrough(
  { db, dialect }: Pick<Database, 'db' | 'dialect'>,
  parents: readonly string[] | undefined,
  limit: number,
): Promise<Map<string, { parent: string; version: number }>> {
  const cells = JSON.stringify((parents ?? []).map((id) => [id]))
  const named = sql`and through_id in (select named.id from ${dialect.rowsFromJson(cells, { id: 'text' })} as named)`
  const query = sql<{ id: string; parent: string; version: number }>`select instance_id as id, through_id as parent,
      version from suspensions
    where resumed_at is null and through_id is not null ${parents ? named : sql``}
      and not ${isSuspended('suspensions.through_id')}
    limit ${limit}`
  return new Map((await query.execute(db)).rows.map(({ id, ...row }) => [id, row]))
}

/** Lets the suspensions of these instances hold their keys for a containment, unless they are held already. */
export function holdKeysStatement(database: Database, ids: readonly string[], containmentId: string): Statement {
  return database.db
    .updateTable('suspensions')
    .set({ key_containment_id: containmentId })
    .where(ofIds(database, ids))
    .where('resumed_at', 'is', null)
    .where('containment_id', 'is', null)
    .where('key_containment_id', 'is', null)
    .compile()
}

/**
 * Reads which of the instances are suspended, but neither by a containment nor with a parent, or by one that took over
 * such a suspension: each of these had its own alert.
 */
export async function readSuspendedAlone(database: Pick<Database, 'db' | 'dialect'>, ids: readonly string[]) {
  const rows = await database.db
    .selectFrom('suspensions')
    .select('instance_id')
    .where(ofIds(database, ids))
    .where('resumed_at', 'is', null)
    .where((e) =>
      e.or([
        e.and([e('containment_id', 'is', null), e('through_id', 'is', null)]),
        e.exists(
          e
            .selectFrom('suspensions as before')
            .select('before.version')
            .whereRef('before.instance_id', '=', 'suspensions.instance_id')
            .whereRef('before.resumed_at', '=', 'suspensions.requested_at')
            .where('before.containment_id', 'is', null)
            .where('before.through_id', 'is', null),
        ),
      ]),
    )
    .orderBy('instance_id')
    .execute()
  return rows.map(({ instance_id }) => instance_id)
}

/** Returns the containments that hold the key of an instance with an id like one of these patterns. */
export async function readHoldingLike(
  { db, dialect }: Pick<Database, 'db' | 'dialect'>,
  patterns: readonly string[],
): Promise<{ pattern: string; containmentId: string }[]> {
  const given = dialect.rowsFromJson(JSON.stringify(patterns.map((pattern) => [pattern])), { pattern: 'text' })
  const query = sql<{ pattern: string; containmentId: string }>`select distinct given.pattern,
      coalesce(suspensions.containment_id, suspensions.key_containment_id) as "containmentId"
    from suspensions join ${given} as given on suspensions.instance_id like given.pattern escape '\\'
    where suspensions.resumed_at is null
      and (suspensions.containment_id is not null or suspensions.key_containment_id is not null)`
  return (await query.execute(db)).rows
}

/** Counts the suspensions of a containment by what was observed of them; `overdue`: missing, and requested before. */
export async function countContained(db: Db, containmentId: string, lateBefore: number) {
  const isMissing = sql`acknowledged_at is null and resumed_at is null`
  const row = await db
    .selectFrom('suspensions')
    .select((e) => [
      e.fn.count<number>('acknowledged_at').as('confirmed'),
      sql<number | null>`sum(case when (silent_at is not null or enforced_by = 'supervisor')
        and first_breach_at is null then 1 else 0 end)`.as('proven'),
      sql<number | null>`sum(case when ${isMissing} then 1 else 0 end)`.as('missing'),
      sql<number | null>`sum(case when ${isMissing} and requested_at <= ${lateBefore} then 1 else 0 end)`.as('overdue'),
      e.fn.count<number>('first_breach_at').as('violated'),
      sql<number>`count(*) - count(resumed_at)`.as('lasting'),
      e.fn.max('acknowledged_at').as('last'),
    ])
    .where('containment_id', '=', containmentId)
    .executeTakeFirstOrThrow()
  return {
    confirmed: Number(row.confirmed),
    proven: Number(row.proven ?? 0),
    missing: Number(row.missing ?? 0),
    overdue: Number(row.overdue ?? 0),
    violated: Number(row.violated),
    lasting: Number(row.lasting),
    lastConfirmedAt: row.last,
  }
}

/** Reads the ids of instances that a containment suspended and that have not acknowledged it, in ascending order. */
export async function readUnacknowledged(db: Db, containmentId: string, limit: number): Promise<string[]> {
  const rows = await db
    .selectFrom('suspensions')
    .select('instance_id')
    .where('containment_id', '=', containmentId)
    .where('acknowledged_at', 'is', null)
    .where('resumed_at', 'is', null)
    .orderBy('instance_id')
    .limit(limit)
    .execute()
  return rows.map(({ instance_id }) => instance_id)
}
