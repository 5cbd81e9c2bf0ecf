import { sql } from 'kysely'
import type { Database, Db, Statement } from '../../db/database.ts'
import { deleteInPortions } from '../../db/portions.ts'
import type { Schema } from '../../db/schema.ts'
import { instanceControls } from '../instances/control-statements.ts'
import { isHeldByParent } from '../instances/parent-statements.ts'
import type { Hold } from './holds.ts'

/** Cause of a suspension, besides the person or service that requested it. */
export interface SuspensionCause {
  /** The rule that matched. */
  ruleId?: string
  /** The event that triggered it. */
  eventId?: string
  /** The containment that it belongs to. */
  containmentId?: string
}

interface Suspension extends SuspensionCause {
  instanceId: string
  version: number
  reason: string
  /** Id of the key that requested it. */
  actor: string
  /** Whether the agent ever reported a control version. */
  canAcknowledge: boolean
  /** When it ends by itself; null: a person has to resume the agent. */
  endsAt: number | null
  now: number
}

/** Inserts a suspension, within the batch that suspends. */
export function suspensionStatement(db: Db, suspension: Suspension): Statement {
  const { instanceId, version, reason, actor, canAcknowledge, endsAt, now } = suspension
  return db
    .insertInto('suspensions')
    .values({
      instance_id: instanceId,
      version,
      reason,
      actor,
      rule_id: suspension.ruleId ?? null,
      event_id: suspension.eventId ?? null,
      containment_id: suspension.containmentId ?? null,
      requested_at: now,
      can_acknowledge: canAcknowledge ? 1 : 0,
      ends_at: endsAt,
      breaches: 0,
      breaches_reported: 0,
      look_at: now,
    })
    .compile()
}

/**
 * Ends the suspension of an instance, within the batch that resumes or takes over, and schedules a last look at its
 * events.
 */
export function resumptionStatement(db: Db, instanceId: string, now: number): Statement {
  return db
    .updateTable('suspensions')
    .set({ resumed_at: now, look_at: now })
    .where('instance_id', '=', instanceId)
    .where('resumed_at', 'is', null)
    .compile()
}

/** An ongoing suspension. */
export interface HeldSuspension extends Pick<Hold, 'endsAt'> {
  instanceId: string
  version: number
  containmentId: string | null
  /** The containment that holds its key; null: none. */
  keyContainmentId: string | null
  /** The parent with whose suspension it ends; null: with none. */
  throughId: string | null
}

/**
 * Reads the suspensions of those of the instances that are suspended, by instance id. One without a row, by a process of
 * an earlier version, has no end.
 */
export async function readHeld(
  { db, dialect }: Pick<Database, 'db' | 'dialect'>,
  ids: readonly string[],
): Promise<Map<string, HeldSuspension>> {
  const named = dialect.rowsFromJson(JSON.stringify(ids.map((id) => [id])), { id: 'text' })
  const { rows } = await sql<HeldSuspension>`select controls.id as "instanceId", control_version as version,
      ends_at as "endsAt", containment_id as "containmentId",
      coalesce(containment_id, key_containment_id) as "keyContainmentId", through_id as "throughId"
    from ${instanceControls} as controls left join suspensions on suspensions.instance_id = controls.id
      and suspensions.version = control_version and resumed_at is null
    where suspended = 1 and controls.id in (select named.id from ${named} as named)`.execute(db)
  return new Map(rows.map((row) => [row.instanceId, row]))
}

/** A suspension with a time, as read. */
type Timed = Pick<HeldSuspension, 'instanceId' | 'version'> & { endsAt: number }

/** A suspension whose time is over, and the rule that made it. */
export type Expired = Timed & { ruleId: string | null }

/** Reads suspensions whose time is over, longest ago first. Those of children wait until the parent is resumed. */
export async function readExpired(db: Db, now: number, limit: number): Promise<Expired[]> {
  const rows = await db
    .selectFrom('suspensions')
    .select(['instance_id', 'version', 'ends_at', 'rule_id'])
    .where('resumed_at', 'is', null)
    .where('ends_at', '<=', now)
    .where(sql<boolean>`not ${isHeldByParent('suspensions.instance_id')}`)
    .orderBy('ends_at')
    .limit(limit)
    .execute()
  return rows.map((row) => ({
    instanceId: row.instance_id,
    version: row.version,
    endsAt: row.ends_at!,
    ruleId: row.rule_id,
  }))
}

const timedQuery = (db: Db, { instanceId, version, endsAt }: Timed) =>
  db
    .selectFrom('suspensions')
    .select('version')
    .where('instance_id', '=', instanceId)
    .where('version', '=', version)
    .where('ends_at', '=', endsAt)

/** Fails the batch that resumes, as stale, if the suspension was extended since it was read. */
export const holdTimed = ({ db, dialect }: Pick<Database, 'db' | 'dialect'>, timed: Timed): Statement =>
  dialect.lockFound(timedQuery(db, timed).compile())

/**
 * Lets a suspension end later or, with null, never by itself, in a batch that fails as stale if it ended or was
 * extended since it was read.
 */
export function endStatements(
  { db, dialect }: Pick<Database, 'db' | 'dialect'>,
  timed: Timed,
  endsAt: number | null,
): Statement[] {
  const update = db
    .updateTable('suspensions')
    .set({ ends_at: endsAt })
    .where('instance_id', '=', timed.instanceId)
    .where('version', '=', timed.version)
  return [dialect.lockFound(timedQuery(db, timed).where('resumed_at', 'is', null).compile()), update.compile()]
}

export type DeliveredBy = NonNullable<Schema['suspensions']['delivered_by']>

/** What a process observed of a suspension; times are epoch milliseconds. */
export interface SeenFacts {
  storedAt?: number
  publishedAt?: number
  delivered?: { at: number; by: DeliveredBy }
}

const seenColumns = {
  id: 'text',
  at_version: 'bigint',
  stored: 'bigint',
  published: 'bigint',
  delivered: 'bigint',
  way: 'text',
} as const

/**
 * Stores facts of any number of suspensions in one statement. Facts that are stored already stay unchanged, except that
 * a delivery by stream or poll replaces one by the header of an answer, which a client may ignore, and which proves
 * nothing after an acknowledgement.
 */
export function seenStatement(
  { db, dialect }: Pick<Database, 'db' | 'dialect'>,
  seen: readonly { instanceId: string; version: number; facts: SeenFacts }[],
  process: string,
): Statement {
  const cells = seen.map(({ instanceId, version, facts: { storedAt, publishedAt, delivered } }) => [
    instanceId,
    version,
    storedAt ?? null,
    publishedAt ?? null,
    delivered?.at ?? null,
    delivered?.by ?? null,
  ])
  const first = (column: string, at: string) =>
    sql.raw(
      `${column} = coalesce(${column}, case when requested_at > batch.${at} then requested_at else batch.${at} end)`,
    )
  const by = (column: string, at: string) =>
    sql`${sql.raw(column)} = coalesce(${sql.raw(column)}, case when ${sql.raw(`batch.${at}`)} is not null then cast(${process} as text) end)`
  const isDelivery = sql`(batch.delivered is not null and case when batch.way = 'answer'
    then delivered_at is null and acknowledged_at is null else delivered_at is null or delivered_by = 'answer' end)`
  return sql`update suspensions set ${first('stored_at', 'stored')},
      ${first('published_at', 'published')}, ${by('published_by', 'published')},
      delivered_at = case when ${isDelivery} then
        case when requested_at > batch.delivered then requested_at else batch.delivered end else delivered_at end,
      delivered_process = case when ${isDelivery} then cast(${process} as text) else delivered_process end,
      delivered_by = case when ${isDelivery} then batch.way else delivered_by end,
      look_at = case when ${isDelivery} and resumed_at is null then batch.delivered else look_at end
    from ${dialect.rowsFromJson(JSON.stringify(cells), seenColumns)} as batch
    where suspensions.instance_id = batch.id and suspensions.version = batch.at_version`.compile(db)
}

/**
 * Records the first acknowledgement of each suspension by its agent. An old version does not count for a suspension that
 * has ended.
 */
export function acknowledgedStatement(
  { db, dialect }: Pick<Database, 'db' | 'dialect'>,
  acknowledged: readonly { id: string; version: number }[],
  now: number,
  by: 'ack' | 'heartbeat',
): Statement {
  const cells = acknowledged.map(({ id, version }) => [id, version])
  // The clocks of processes differ by a few milliseconds; an acknowledgement never precedes its request.
  return sql`update suspensions set acknowledged_by = ${by}, can_acknowledge = 1,
      acknowledged_at = case when requested_at > ${now} then requested_at else ${now} end,
      look_at = ${now}
    from ${dialect.rowsFromJson(JSON.stringify(cells), { id: 'text', at_version: 'bigint' })} as batch
    where suspensions.instance_id = batch.id and suspensions.version = batch.at_version
      and acknowledged_at is null and resumed_at is null`.compile(db)
}

/** What a supervisor reports about a suspension of its agent. */
interface Evidence {
  id: string
  version: number
  processes: number
  left: number
}

/**
 * Records what supervisors hold, for suspensions that last. One that no longer holds all enforces nothing. Returns the id
 * and the time of the request of each suspension whose report is new.
 */
export function enforcedStatement(
  { db, dialect }: Pick<Database, 'db' | 'dialect'>,
  evidence: readonly Evidence[],
  now: number,
): Statement {
  const cells = evidence.map(({ id, version, processes, left }) => [id, version, processes, left])
  const columns = { id: 'text', at_version: 'bigint', held: 'bigint', unheld: 'bigint' } as const
  const isHeld = sql`batch.unheld = 0`
  const isEnforced = sql`coalesce(enforced_by, '') = 'supervisor'`
  return sql`update suspensions set held_processes = batch.held, left_processes = batch.unheld,
      enforced_at = case when ${isHeld} then case when requested_at > ${now} then requested_at else ${now} end
        when ${isEnforced} then null else enforced_at end,
      enforced_by = case when ${isHeld} then 'supervisor' when ${isEnforced} then null else enforced_by end,
      look_at = ${now}
    from ${dialect.rowsFromJson(JSON.stringify(cells), columns)} as batch
    where suspensions.instance_id = batch.id and suspensions.version = batch.at_version and resumed_at is null
      and (coalesce(left_processes, 0) <> batch.unheld or (${isHeld} and not ${isEnforced}))
    returning suspensions.instance_id, suspensions.requested_at`.compile(db)
}

/** Records that the gateway refuses and cuts the model calls of a suspended agent, which says nothing about the agent. */
export async function noteModelCut(db: Db, instanceId: string, version: number, now: number): Promise<void> {
  await db
    .updateTable('suspensions')
    .set({ enforced_at: now, enforced_by: 'gateway' })
    .where('instance_id', '=', instanceId)
    .where('version', '=', version)
    .where('resumed_at', 'is', null)
    .where('enforced_by', 'is', null)
    .execute()
}

/** Returns when each way last held an agent, or delivered a suspension to it; null: in no stored suspension. */
export async function readProofs(
  db: Db,
  instanceId: string,
): Promise<Record<'supervisor' | 'gateway' | 'stream' | 'poll', number | null>> {
  const last = (column: 'enforced' | 'delivered', by: string) =>
    sql<number | null>`max(case when ${sql.ref(`${column}_by`)} = ${by} then ${sql.ref(`${column}_at`)} end)`
  return await db
    .selectFrom('suspensions')
    .select([
      last('enforced', 'supervisor').as('supervisor'),
      last('enforced', 'gateway').as('gateway'),
      last('delivered', 'stream').as('stream'),
      last('delivered', 'poll').as('poll'),
    ])
    .where('instance_id', '=', instanceId)
    .executeTakeFirstOrThrow()
}

/** Reads the instances that an event or a rule suspended since an instant, and counts those that it holds now. */
export async function readAutomatic(db: Db, since: number): Promise<{ recent: Set<string>; lasting: number }> {
  const automatic = db
    .selectFrom('suspensions')
    .where((e) => e.or([e('event_id', 'is not', null), e('rule_id', 'is not', null)]))
  const [recent, { count }] = await Promise.all([
    automatic.select('instance_id').distinct().where('requested_at', '>', since).execute(),
    automatic
      .select((e) => e.fn.countAll<number>().as('count'))
      .where('resumed_at', 'is', null)
      .executeTakeFirstOrThrow(),
  ])
  return { recent: new Set(recent.map(({ instance_id }) => instance_id)), lasting: Number(count) }
}

/**
 * Whether this event suspended the instance by this rule (null: by none), even if the instance was resumed later. Another
 * rule may ask for a longer suspension because of the same event.
 */
export async function hasSuspended(
  db: Db,
  { instanceId, eventId, ruleId }: { instanceId: string; eventId: string; ruleId: string | null },
): Promise<boolean> {
  const found = await db
    .selectFrom('suspensions')
    .select('version')
    .where('instance_id', '=', instanceId)
    .where('event_id', '=', eventId)
    .where('rule_id', ruleId === null ? 'is' : '=', ruleId)
    .executeTakeFirst()
  return found !== undefined
}

export const deleteEndedBefore = (db: Db, cutoff: number, stopping?: AbortSignal): Promise<void> =>
  deleteInPortions(
    db,
    'suspensions',
    { key: ['instance_id', 'version'], where: sql`resumed_at < ${cutoff}`, orderBy: 'resumed_at' },
    stopping,
  )
