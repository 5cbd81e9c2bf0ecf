import { sql } from 'kysely'
import type { Database, Db, Statement, Trx } from '../../db/database.ts'
import { claimRows, isFree, type LeasedQueue, type TimedClaim, unclaimed } from '../../db/lease.ts'
import type { Schema } from '../../db/schema.ts'
import type { Attempted } from '../../delivery/delivery.ts'
import { isCurrent, isOutdated, taggedInstances } from '../instances/fleet-statements.ts'

/** The response of a point to one attempt. */
export interface Answer {
  delivered: boolean
  /** HTTP status; null: no response. */
  status: number | null
  /** One plain sentence without the URL or the secret; null after a 2xx. */
  error: string | null
  /** Seconds of Retry-After. */
  retryAfterSeconds?: number
}

/** Instances that are suspended or resumed in one transaction, with their new control versions. */
export interface EnforcedChange {
  action: 'suspend' | 'resume'
  instances: readonly { id: string; version: number }[]
  reason: string | null
  containmentId: string | null
  now: number
}

export type CallRow = Schema['enforcement_calls']
export type CallAttempt = Attempted<CallRow, Answer>

/** Calls that are neither confirmed, failed nor superseded. Literals as in the partial index. */
const isPending = sql<boolean>`confirmed_at is null and failed_at is null and superseded_at is null`
/** A superseded call may still be running, and a resume waits for it. */
export const calls: LeasedQueue = {
  table: 'enforcement_calls',
  isOpen: isPending,
  mayBeLeased: sql<boolean>`leased_until > 0`,
}
/** Calls that are not confirmed and still needed. */
const isOpen = sql<boolean>`confirmed_at is null and superseded_at is null`

/** Inserts calls of a point, for instances that have one of its tags. */
export function callsStatement(
  { db, dialect }: Pick<Database, 'db' | 'dialect'>,
  point: { name: string; tags: readonly string[] | undefined },
  calls: readonly (readonly [id: string, instanceId: string, version: number])[],
  { action, reason, containmentId, now }: EnforcedChange,
): Statement {
  const columns = { call_id: 'text', called_instance: 'text', called_version: 'bigint' } as const
  const at = sql`cast(${now} as bigint)`
  return sql`insert into enforcement_calls (id, instance_id, version, point, action, reason, containment_id,
      agent_tags, operator_tags, requested_at, next_at)
    select call_id, called_instance, called_version, cast(${point.name} as text), cast(${action} as text),
      cast(${reason} as text), cast(${containmentId} as text), agent_tags, operator_tags, ${at}, ${at}
    from ${dialect.rowsFromJson(JSON.stringify(calls), columns)} as batch
    join ${taggedInstances(point.tags)} as tagged on tagged.id = batch.called_instance where true
    on conflict (instance_id, version, point) do nothing`.compile(db)
}

/** Ends due calls that are superseded because their instance was changed since. */
export async function supersede(db: Db, points: readonly string[], now: number): Promise<void> {
  await db
    .updateTable('enforcement_calls')
    .set({ superseded_at: now })
    .where('point', 'in', points)
    .where('next_at', '<=', now)
    .where(isPending)
    .where(isOutdated('enforcement_calls.instance_id', 'enforcement_calls.version'))
    .execute()
}

/**
 * Claims due calls of a point, oldest first: until the lease ends no other process makes them. A resume waits for a running
 * attempt of the previous suspension, so that they do not overtake each other.
 */
export function claimCalls(db: Db, point: string, claim: TimedClaim, limit: number): Promise<CallRow[]> {
  const { now } = claim
  const due = db
    .selectFrom('enforcement_calls as due')
    .select('due.id')
    .where('point', '=', point)
    .where('next_at', '<=', now)
    .where(isFree(now))
    .where(isPending)
    // Skip calls whose instance was resumed since.
    .where((e) => e.not(isOutdated('due.instance_id', 'due.version')))
    .where((e) =>
      e.not(
        e.exists(
          e
            .selectFrom('enforcement_calls as earlier')
            .select('earlier.id')
            .whereRef('earlier.instance_id', '=', 'due.instance_id')
            .whereRef('earlier.version', '<', 'due.version')
            .whereRef('earlier.point', '=', 'due.point')
            .where('earlier.leased_until', '>', now),
        ),
      ),
    )
    .orderBy('next_at')
    .limit(limit)
  return claimRows<CallRow>(db, calls, due, claim)
}

/** Stores a result. A confirmation is stored even if another process took over the lease, a failure only for its owner. */
export async function recordAttempt(db: Db, { row, owner, verdict, now, nextAt }: CallAttempt): Promise<void> {
  const { delivered, status, error } = verdict
  const update = db
    .updateTable('enforcement_calls')
    .set({ ...unclaimed, attempted_at: now, last_status: status, last_error: error })
    .set((e) => ({ attempts: e('attempts', '+', 1) }))
    .where('id', '=', row.id)
    .where('confirmed_at', 'is', null)
  if (delivered) await update.set({ confirmed_at: now, failed_at: null }).execute()
  else {
    // The count, because a failure whose storing went unanswered is stored again, when the next attempt may be running.
    const held = update.where('lease_owner', '=', owner).where('attempts', '=', row.attempts)
    await (nextAt === undefined ? held.set({ failed_at: now }) : held.set({ next_at: nextAt })).execute()
  }
}

/** Claims unreported failures, to report them in the same transaction. */
export async function takeFailures(trx: Trx, now: number, limit: number): Promise<CallRow[]> {
  return trx
    .updateTable('enforcement_calls')
    .set({ failure_reported_at: now })
    .where('id', 'in', (e) =>
      e
        .selectFrom('enforcement_calls')
        .select('id')
        .where('failed_at', 'is not', null)
        .where('failure_reported_at', 'is', null)
        .orderBy('failed_at')
        .limit(limit),
    )
    .where('failure_reported_at', 'is', null)
    .returningAll()
    .execute()
}

export async function hasFailures(db: Db): Promise<boolean> {
  const row = await db
    .selectFrom('enforcement_calls')
    .select('id')
    .where('failed_at', 'is not', null)
    .where('failure_reported_at', 'is', null)
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

/** Reads the calls about suspensions of an instance from this version on. */
export function readCalls(db: Db, instanceId: string, fromVersion: number): Promise<CallRow[]> {
  return db
    .selectFrom('enforcement_calls')
    .selectAll()
    .where('instance_id', '=', instanceId)
    .where('version', '>=', fromVersion)
    .where('action', '=', 'suspend')
    .orderBy('point')
    .execute()
}

/** Returns when one of these points last confirmed a suspension of the instance; null: never, as far as is stored. */
export async function readLastConfirmed(db: Db, instanceId: string, points: readonly string[]): Promise<number | null> {
  const { at } = await db
    .selectFrom('enforcement_calls')
    .select((e) => e.fn.max('confirmed_at').as('at'))
    .where('instance_id', '=', instanceId)
    .where('point', 'in', points)
    .where('action', '=', 'suspend')
    .executeTakeFirstOrThrow()
  return at
}

/** Returns suspensions of these instances that a configured point has not confirmed, as `<instance> <version>`. */
export async function readUnenforced(
  db: Db,
  points: readonly string[],
  instanceIds: readonly string[],
): Promise<Set<string>> {
  if (points.length === 0 || instanceIds.length === 0) return new Set()
  const rows = await db
    .selectFrom('enforcement_calls')
    .select(['instance_id', 'version'])
    .distinct()
    .where('instance_id', 'in', instanceIds)
    .where('point', 'in', points)
    .where('action', '=', 'suspend')
    .where(isOpen)
    .execute()
  return new Set(rows.map(({ instance_id, version }) => `${instance_id} ${version}`))
}

/** Counts the calls of a containment to configured points. */
export async function countCalls(db: Db, points: readonly string[], containmentId: string) {
  if (points.length === 0) return { calls: 0, confirmed: 0, failed: 0, lastConfirmedAt: null }
  const row = await db
    .selectFrom('enforcement_calls')
    .select((e) => [
      e.fn.countAll<number>().as('calls'),
      e.fn.count<number>('confirmed_at').as('confirmed'),
      sql<number | null>`sum(case when confirmed_at is null and failed_at is not null then 1 else 0 end)`.as('failed'),
      e.fn.max('confirmed_at').as('last'),
    ])
    .where('containment_id', '=', containmentId)
    .where('point', 'in', points)
    .where('superseded_at', 'is', null)
    .executeTakeFirstOrThrow()
  return {
    calls: Number(row.calls),
    confirmed: Number(row.confirmed),
    failed: Number(row.failed ?? 0),
    lastConfirmedAt: row.last === null ? null : Number(row.last),
  }
}

/** How a point answers. */
export async function readHealth(db: Db, point: string) {
  const ofPoint = db.selectFrom('enforcement_calls').where('point', '=', point)
  const last = await ofPoint
    .select(['attempted_at', 'last_status', 'last_error'])
    .where('attempted_at', 'is not', null)
    .orderBy('attempted_at', 'desc')
    .limit(1)
    .executeTakeFirst()
  const confirmed = await ofPoint
    .select('confirmed_at')
    .where('attempted_at', 'is not', null)
    .where('confirmed_at', 'is not', null)
    .orderBy('attempted_at', 'desc')
    .limit(1)
    .executeTakeFirst()
  const { pending } = await ofPoint
    .select((e) => e.fn.countAll<number>().as('pending'))
    .where(isPending)
    .executeTakeFirstOrThrow()
  const { failed } = await ofPoint
    .select((e) => e.fn.countAll<number>().as('failed'))
    .where('failed_at', 'is not', null)
    .where(isOpen)
    .where(isCurrent('enforcement_calls.instance_id', 'enforcement_calls.version'))
    .executeTakeFirstOrThrow()
  return { last, confirmedAt: confirmed?.confirmed_at ?? null, pending: Number(pending), failed: Number(failed) }
}

/**
 * Deletes calls from before an instant; resolves with their number. Keeps an unconfirmed call while its suspension lasts,
 * which would look complete without it.
 */
export async function deleteCallsBefore(db: Db, cutoff: number, limit: number): Promise<number> {
  const { numDeletedRows } = await db
    .deleteFrom('enforcement_calls')
    .where('id', 'in', (e) =>
      e
        .selectFrom('enforcement_calls as old')
        .select('old.id')
        .where('requested_at', '<', cutoff)
        .where((w) => w.or([w('confirmed_at', 'is not', null), w.not(isCurrent('old.instance_id', 'old.version'))]))
        .orderBy('requested_at')
        .limit(limit),
    )
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}
