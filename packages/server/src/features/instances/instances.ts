import {
  type ControlConfirmation,
  type CurrentSuspension,
  type Heartbeat,
  type InstanceDetail,
  type InstanceList,
  type InstanceQuery,
  type InstanceStatus,
  type InstanceView,
  limits,
  offlineAfterMs,
} from '@wardline/contract'
import { isoTime, isoTimeOrNull } from '../../clock.ts'
import type { Point } from '../../config/enforcement-points.ts'
import type { Db, Statement } from '../../db/database.ts'
import { GroupCommit } from '../../db/group-commit.ts'
import type { Schema } from '../../db/schema.ts'
import type { Team } from '../../db/teams.ts'
import type { Deps } from '../../deps.ts'
import { AppError, unknownInstance } from '../../errors.ts'
import type { CountedReports } from '../events/counted-reports.ts'
import type { Quotas } from '../keys/quotas.ts'
import { type Beat, controlVersionOf, joinBeats } from './beats.ts'
import type { BootWatch } from './boots.ts'
import { enforcingLevers, pointsFor, reachOf } from './enforcing-levers.ts'
import { type HeardBy, heardSince, namesOf, readHeardBy, senderOf, viewWitnesses } from './heard-by.ts'
import { type ActivityCounts, lastDay, lastHour, readHistories } from './history.ts'
import { countBelow } from './parent-queries.ts'
import { claimsOfParents, type ParentParts, Parents } from './parents.ts'
import { findInstance, type InstanceRow, readInstances, type SilenceColumns } from './queries.ts'
import { type RegistrationStops, registerNewcomers } from './registration.ts'
import { compileHeartbeats, findBeyondLimits, refreshInstances } from './registration-queries.ts'
import { allTags, readTags } from './tags.ts'
import { reportClaim } from './version-claims.ts'

export interface Heartbeats {
  /**
   * Registers or refreshes an instance; resolves once it is on disk. Rejects with AppError `instance_limit` or
   * `quota_exceeded`.
   */
  beat(heartbeat: Heartbeat, sender: Omit<Beat, 'heartbeat' | 'address'>, address?: string | null): Promise<void>
  whenIdle(): Promise<void>
}

/** Assumed bytes per heartbeat: a row of short texts. */
const heartbeatBytes = 400

function limitFault(byKey: boolean, keyMax: number | null, max: number): AppError {
  const limit = byKey
    ? `This key may register at most ${keyMax} instances (max_instances of the key)`
    : `This service keeps at most ${max} instances (WARDLINE_MAX_INSTANCES)`
  return new AppError('instance_limit', `${limit}: delete unused instances, or raise the limit.`)
}

/** Returns the current status: suspended, else active for 90 seconds after the last heartbeat, else offline. */
function deriveStatus(suspended: boolean, lastHeartbeatMs: number, nowMs: number): InstanceStatus {
  if (suspended) return 'suspended'
  return nowMs - lastHeartbeatMs <= offlineAfterMs ? 'active' : 'offline'
}

/** Turns the control versions in heartbeats into acknowledgements. */
export interface HeartbeatAcks {
  /**
   * Returns statements for the batch of the heartbeats that record new versions as acknowledgements; undefined if there
   * are none, as for most batches. Call `commit` after the commit.
   */
  of(
    heartbeats: readonly { instance_id: string; control_version: number | undefined }[],
    now: number,
  ): { statements: readonly Statement[]; commit(): void } | undefined
}

interface HeartbeatParts {
  heartbeatAcks: HeartbeatAcks
  countedReports: Pick<CountedReports, 'note'>
  quotas: Pick<Quotas, 'takeInstance' | 'returnInstance'>
  activityCounts: Pick<ActivityCounts, 'noteHeartbeat'>
  heardBy: Pick<HeardBy, 'note'>
  bootWatch: BootWatch
  registrationStops: RegistrationStops
  childSuspensions: ParentParts['childSuspensions']
}

export function createHeartbeats({ config, database, clock, metrics }: Deps, parts: HeartbeatParts): Heartbeats {
  const { countedReports, quotas, activityCounts, heardBy, heartbeatAcks, bootWatch, registrationStops } = parts
  const texts = compileHeartbeats(database)
  const parents = new Parents({ database, clock }, parts)
  const queue = new GroupCommit<Beat, AppError | undefined>({
    queue: 'heartbeats',
    gathers: true,
    collect: () => database.collect(),
    clock,
    metrics,
    weigh: ({ keyId }) => ({ rows: 1, bytes: heartbeatBytes, owner: keyId }),
    async commit(beats) {
      const latest = joinBeats(beats)
      const now = clock.now()
      const known = [...latest.values()]
      const acks = heartbeatAcks.of(
        known.map((beat) => ({
          instance_id: beat.heartbeat.instance_id,
          control_version: controlVersionOf(beat),
        })),
        now,
      )
      const refreshed = await refreshInstances(database, texts, known, now, acks?.statements)
      const { unknown, claims, confirmedKills, changes, otherParents } = refreshed
      const keyOf = (id: string) => latest.get(id)!.keyId
      acks?.commit()
      for (const killedAt of confirmedKills) metrics.killConfirmSeconds.observe((now - killedAt) / 1000)
      if (changes.length > 0) await bootWatch.note(changes, latest, now)
      for (const claim of claims) reportClaim(countedReports, claim, keyOf(claim.instanceId))
      if (otherParents.length > 0) await parents.store(otherParents, keyOf)
      for (const id of latest.keys()) activityCounts.noteHeartbeat(id, now)
      for (const { heartbeat } of beats) {
        const sender = senderOf(heartbeat)
        if (sender) heardBy.note(heartbeat.instance_id, sender, now)
      }
      if (unknown.size === 0) return beats.map(() => undefined)
      const strangers = [...unknown].map((id) => latest.get(id)!)
      // Refused agents retry every minute, which must neither use quota nor delay registrations.
      const refused = await findBeyondLimits(database, texts, strangers, config.maxInstances)
      const beyondQuota = new Map<string, AppError>()
      const newcomers = strangers.flatMap((newcomer) => {
        const id = newcomer.heartbeat.instance_id
        if (refused.has(id)) return []
        const fault = quotas.takeInstance(newcomer.keyId)
        if (fault) beyondQuota.set(id, fault)
        return fault ? [] : [newcomer]
      })
      if (newcomers.length > 0) {
        const registered = await registerNewcomers(
          { config, database },
          { texts, stops: registrationStops },
          newcomers,
          now,
        )
        for (const claim of registered.claims) reportClaim(countedReports, claim, keyOf(claim.instanceId))
        parents.settle(claimsOfParents(newcomers), registered.orphans, keyOf)
        for (const [id, refusal] of registered.refused) {
          quotas.returnInstance(keyOf(id))
          refused.set(id, refusal)
        }
      }
      return beats.map(({ heartbeat, registers }) => {
        const refusal = refused.get(heartbeat.instance_id)
        if (!refusal) return beyondQuota.get(heartbeat.instance_id)
        return limitFault(refusal.byKey, registers.max, config.maxInstances)
      })
    },
  })
  return {
    async beat(heartbeat, { registers, instances, keyId, supervises = false }, address = null) {
      const fault = await queue.add({ heartbeat, registers, instances, keyId, supervises, address })
      if (fault) throw fault
    },
    whenIdle: () => queue.whenIdle(),
  }
}

const hasLeft = ({ left_at, last_heartbeat_at }: SilenceColumns) => left_at !== null && left_at >= last_heartbeat_at

/** Whether a sweep reported the instance as offline and it has been silent since. */
export const isSilent = (row: SilenceColumns, now: number): boolean =>
  row.liveness === 'offline' && !hasLeft(row) && now - row.last_heartbeat_at > offlineAfterMs

/** Returns an instance as shown to people. */
export function viewRow(row: InstanceRow, now: number): InstanceView {
  const lastHeartbeat = row.last_heartbeat_at
  return {
    id: row.id,
    name: row.name,
    status: deriveStatus(row.suspended === 1, lastHeartbeat, now),
    last_heartbeat: isoTime(lastHeartbeat),
    secondsAgo: Math.max(0, Math.floor((now - lastHeartbeat) / 1000)),
    suspension_reason: row.suspension_reason,
  }
}

/** Reads how far suspensions are proven. */
export interface SuspensionStates {
  /** Returns entries for those of the instances that are suspended. */
  read(db: Db, ids: readonly string[]): Promise<Map<string, CurrentSuspension>>
}

/** Reads how far the suspensions of these instances are proven. A suspension without facts counts as requested. */
export async function readSuspensionStates(
  db: Db,
  rows: readonly Pick<Schema['instances'], 'id' | 'suspended' | 'control_changed_at' | 'last_heartbeat_at'>[],
  suspensionStates: SuspensionStates,
): Promise<Map<string, CurrentSuspension>> {
  const suspended = rows.filter((row) => row.suspended === 1)
  if (suspended.length === 0) return new Map()
  const found = await suspensionStates.read(
    db,
    suspended.map(({ id }) => id),
  )
  return new Map(
    suspended.map(({ id, control_changed_at, last_heartbeat_at }) => [
      id,
      found.get(id) ?? { state: 'pending' as const, since: isoTime(control_changed_at ?? last_heartbeat_at) },
    ]),
  )
}

type ControlColumns = Pick<
  Schema['instances'],
  'control_version' | 'control_changed_at' | 'applied_version' | 'applied_at' | 'claimed_version'
>

/** Returns the last kill or resume and whether the agent confirmed it. */
function viewControl(row: ControlColumns): ControlConfirmation {
  const { control_version: version, applied_version: applied, claimed_version: claimed } = row
  const isAhead = claimed !== null && claimed > version
  return {
    version,
    changed_at: isoTimeOrNull(row.control_changed_at),
    applied_version: applied,
    applied_at: isoTimeOrNull(row.applied_at),
    confirmed: version === 0 || applied === version,
    claimed_version: isAhead ? claimed : null,
    mismatch: isAhead,
  }
}

/** Parses the ids of a query. Throws AppError `invalid` if there are too many. */
export function namedIds(given: string | undefined): string[] | undefined {
  const ids = given?.split(',')
  if (ids && ids.length > limits.listedIds) throw new AppError('invalid', `ids must be at most ${limits.listedIds}.`)
  return ids
}

interface ListReading {
  limit: number
  team: Team
  now: number
  suspensionStates: SuspensionStates
  points: readonly Point[]
}

/** Returns a page of the fleet, ordered by id. Throws AppError `invalid`. */
export async function listInstances(
  db: Db,
  { status, tag, witness, server, parent, ids, prefix, after, include }: InstanceQuery,
  { limit, team, now, suspensionStates, points }: ListReading,
): Promise<InstanceList> {
  const rows = await readInstances(db, {
    ...{ status, tag, server, parent, prefix, team, limit, now },
    ids: namedIds(ids),
    heard: witness && { by: witness, since: heardSince(now) },
    after: after ?? '',
  })
  const next = rows.length === limit ? rows.at(-1)!.id : null
  const histories = include ? await readHistories(db, rows, include === 'hour' ? lastHour : lastDay, now) : undefined
  const suspensions = await readSuspensionStates(db, rows, suspensionStates)
  const listed = rows.map(({ id }) => id)
  const heard = await readHeardBy(db, listed, now)
  const instances = rows.map((row) => {
    const { version, fail_mode } = row
    const history = histories?.get(row.id)
    const reach = reachOf(row)
    const levers = enforcingLevers(reach, pointsFor(points, reach), now)
    return {
      ...viewRow(row, now),
      tags: reach.tags,
      operator_tags: readTags(row.operator_tags),
      version,
      fail_mode,
      silent: isSilent(row, now),
      control: viewControl(row),
      last_proven_stoppable_at: isoTimeOrNull(row.last_proven_at),
      suspension: suspensions.get(row.id) ?? null,
      ...(levers.length > 0 ? { enforcing_levers: levers } : {}),
      heard_by: namesOf(heard.get(row.id)),
      ...(history ? { history } : {}),
    }
  })
  return { instances, next }
}

/** Returns one instance, including what its agent reports about itself. Throws AppError `not_found`. */
export async function viewInstance(
  db: Db,
  { id, team }: { id: string; team: Team },
  now: number,
  suspensionStates: SuspensionStates,
): Promise<InstanceDetail> {
  const row = await findInstance(db, id)
  if (!row) throw unknownInstance(id)
  const heard = (await readHeardBy(db, [id], now)).get(id)
  return {
    id: row.id,
    name: row.name,
    agent_type: row.agent_type,
    version: row.version,
    fail_mode: row.fail_mode,
    tags: allTags(row),
    agent_tags: readTags(row.agent_tags),
    operator_tags: readTags(row.operator_tags),
    status: deriveStatus(row.suspended === 1, row.last_heartbeat_at, now),
    first_seen: isoTime(row.first_seen_at),
    last_heartbeat: isoTime(row.last_heartbeat_at),
    silent: isSilent(row, now),
    left_at: isoTimeOrNull(hasLeft(row) ? row.left_at : null),
    suspension_reason: row.suspension_reason,
    control: viewControl(row),
    last_proven_stoppable_at: isoTimeOrNull(row.last_proven_at),
    suspension: (await readSuspensionStates(db, [row], suspensionStates)).get(id) ?? null,
    heard_by: namesOf(heard),
    parent_instance_id: row.parent_id,
    ...(await countBelow(db, id, team)),
    witnesses: viewWitnesses(heard),
  }
}
