import {
  type AgentSelector,
  alertTypes,
  type Containment,
  type ContainmentPlan,
  type ContainmentSummary,
  limits,
  type NewContainment,
} from '@wardline/contract'
import { isoTime, isoTimeOrNull } from '../../clock.ts'
import type { Point } from '../../config/enforcement-points.ts'
import type { Database, Db, Statement } from '../../db/database.ts'
import { readTeam, readTeamText, type Team, teamText } from '../../db/teams.ts'
import type { Deps } from '../../deps.ts'
import { AppError, DatabaseError, unknownId } from '../../errors.ts'
import type { Principal } from '../../http/auth.ts'
import { uuidV7 } from '../../ids.ts'
import type { Outbox } from '../alerts/outbox/outbox.ts'
import { type Actor, auditStatements } from '../audit/audit.ts'
import type { OpenStreams } from '../control/open-streams.ts'
import { countCalls } from '../enforcement/call-statements.ts'
import { readApplied, type SelectedRow } from '../instances/fleet-statements.ts'
import { keyNames } from '../keys/key-names.ts'
import { countContained, readUnacknowledged } from '../suspensions/fleet-suspension-statements.ts'
import type { FleetMember } from './fleet-change.ts'
import { watchRegistrations } from './late-members.ts'
import { parentsFirst } from './parents-first.ts'
import { type Progress, stateOf } from './progress.ts'
import {
  type ContainmentRow,
  countOpen,
  findContainment,
  insertStatements,
  leaseMs,
  readContainments,
  readParts,
} from './queries.ts'
import { confirmBySecond, fleetTarget, instanceTarget } from './second-operator.ts'
import { assertConfirmed, planOf, selectAgents, type Ways } from './selection.ts'
import { needTwo } from './stop-verdicts.ts'

/** Agents changed per transaction, which locks the audit log for some 20 ms on a slow core. */
const partMembers = 200
/** Maximum unfinished containments: a script that repeats one must not fill the queue. */
const maxOpen = 20

interface Work {
  worker: string
  start(id: string): void
}

interface ContainmentParts {
  outbox: Outbox
  work: Work
  /** Control streams of this process; those of other processes are known with a delay of a second. */
  ways: Ways
  openStreams: Pick<OpenStreams, 'find'>
}

interface Asking {
  principal: Principal
  actor: Actor
}

/** Truncates long lists. */
const shownSelector = ({ instances, ...rest }: AgentSelector): AgentSelector => ({
  ...rest,
  ...(instances ? { instances: instances.slice(0, limits.listedMembers) } : {}),
})

/** Whether resuming these agents requires two operators. */
async function needsSecond({ config, database }: Deps, ids: readonly string[]): Promise<boolean> {
  return config.twoPersonResume || (await needTwo(database, ids))
}

/** Returns the condition for the resume of one instance: if two operators are required, the request of the other one. */
export const resumeCondition =
  (deps: Deps, instanceId: string, asking: Asking) =>
  async (version: number): Promise<Statement[]> =>
    (await needsSecond(deps, [instanceId]))
      ? (await confirmBySecond(deps, instanceTarget(instanceId, version), asking)).statements
      : []

/** Orders the members: to suspend, those reachable at once come first; to resume, parents before what they hold. */
function inOrder(action: NewContainment['action'], rows: readonly SelectedRow[], { hasStream }: Ways): SelectedRow[] {
  if (action === 'resume') return parentsFirst(rows, new Map())
  return [...rows.filter(({ id }) => hasStream(id)), ...rows.filter(({ id }) => !hasStream(id))]
}

/** Splits the members into parts, as JSON. */
function partsOf(rows: readonly SelectedRow[]): string[] {
  const members: FleetMember[] = rows.map((row) => [row.id, row.control_version])
  return Array.from({ length: Math.ceil(members.length / partMembers) }, (_, index) =>
    JSON.stringify(members.slice(index * partMembers, (index + 1) * partMembers)),
  )
}

/** Returns the plan of a containment, without any change. Throws AppError `invalid`. */
export async function planContainment(
  deps: Deps,
  parts: Pick<ContainmentParts, 'openStreams' | 'ways'>,
  request: NewContainment,
  team: Team,
): Promise<ContainmentPlan> {
  const { action, selector, two_person = false } = request
  const rows = await selectAgents(deps, action, selector, { twoPerson: two_person, team })
  const listening = await parts.openStreams.find(rows.map(({ id }) => id))
  const elsewhere = new Set(listening.map(({ instanceId }) => instanceId))
  const ways = { hasStream: (id: string) => elsewhere.has(id) || parts.ways.hasStream(id) }
  const second =
    action === 'resume' &&
    (two_person ||
      (await needsSecond(
        deps,
        rows.map(({ id }) => id),
      )))
  return { ...planOf(action, rows, ways, deps.clock.now()), second_operator: second }
}

/**
 * Stores a containment and starts it; resolves with its id once it is on disk. Throws AppError `invalid`,
 * `confirm_required`, `conflict` or `second_operator_required`.
 */
export async function createContainment(
  deps: Deps,
  { work, outbox, ways }: Pick<ContainmentParts, 'work' | 'outbox' | 'ways'>,
  request: NewContainment,
  { principal, actor }: Asking,
): Promise<string> {
  const { database, clock, log } = deps
  const { team } = principal
  const requestedAt = clock.now()
  const { action, selector, confirm, two_person = false } = request
  const reason = request.reason.trim()
  const findLate = action === 'suspend' ? await watchRegistrations(deps, requestedAt, team) : undefined
  const rows = await selectAgents(deps, action, selector, { twoPerson: two_person, team })
  assertConfirmed(action, rows.length, confirm)
  if ((await countOpen(database.db)) >= maxOpen) {
    throw new AppError('overloaded', `${maxOpen} containments are in progress; retry when one of them is done.`, 1)
  }
  const ids = rows.map(({ id }) => id)
  const shown = JSON.stringify(shownSelector(selector))
  const isTwoPerson = action === 'resume' && (two_person || (await needsSecond(deps, ids)))
  const target = fleetTarget(shown, rows)
  const confirmation = isTwoPerson ? await confirmBySecond(deps, target, { principal, actor, reason }) : undefined
  const now = clock.now()
  const id = uuidV7(now)
  const row = {
    id,
    action,
    selector: shown,
    reason,
    actor: JSON.stringify(actor),
    requested_by: confirmation?.requestedBy ?? null,
    confirmed_by: confirmation ? actor.keyId : null,
    two_person: action === 'suspend' && two_person ? (1 as const) : (0 as const),
    requested: rows.length,
    skipped: 0,
    requested_at: requestedAt,
    worker: work.worker,
    leased_until: now + leaseMs,
    look_at: now,
    team: teamText(team),
  }
  const verb = action === 'suspend' ? 'Suspending' : 'Resuming'
  const requestedBy = confirmation?.requestedBy
  const requester = requestedBy && ((await keyNames.names(database.db, [requestedBy])).get(requestedBy) ?? requestedBy)
  const people = requester ? `${requester} and confirmed by ${actor.name}` : actor.name
  const alert = {
    severity: 'warning' as const,
    event_type: alertTypes.containmentStarted,
    instance_id: null,
    subject: id,
    description: `${verb} ${rows.length} ${rows.length === 1 ? 'agent' : 'agents'}, requested by ${people}: ${reason}`,
  }
  const after = {
    action,
    selector: JSON.parse(shown),
    ...(team ? { tags_scope: [...team] } : {}),
    agents: rows.length,
    two_person: row.two_person === 1,
  }
  const entry = { action: 'containment.create', target: id, before: null, after, reason }
  const late = await findLate?.(selector, ids)
  const parts = partsOf(inOrder(action, rows, ways))
  try {
    await database.batch(
      [
        ...(late ? [late.lock] : []),
        ...insertStatements(database, row, parts),
        ...(late?.statements(id, parts.length) ?? []),
        ...outbox.ownStatements([alert], now),
        ...(confirmation?.statements ?? []),
        ...auditStatements(database, actor, entry, now),
      ],
      { isControl: true },
    )
  } catch (fault) {
    // Not repeated: the agents may still be suspended at this moment, and another request would be made for them.
    if (!(fault instanceof DatabaseError && fault.stale)) throw fault
    throw new AppError('conflict', 'Another operator confirmed this resume just now; `wardline containments` shows it.')
  }
  outbox.notify()
  log.info({ containment: id, action, agents: rows.length, actor: actor.keyId }, 'containment requested')
  work.start(id)
  return id
}

const changedOf = ({ changed }: { changed: string | null }): [string, number][] => JSON.parse(changed ?? '[]')

/** Returns the current state of a containment. `lateBefore`: who was changed before it should have confirmed. */
export async function readProgress(
  database: Database,
  row: ContainmentRow,
  points: readonly Point[],
  lateBefore: number,
): Promise<Progress> {
  if (row.counts !== null) return JSON.parse(row.counts)
  const { db } = database
  const parts = (await readParts(db, row.id)).map(changedOf)
  const changed = parts.reduce((sum, part) => sum + part.length, 0)
  const { lastConfirmedAt, ...enforcement } = await countCalls(
    db,
    points.map(({ name }) => name),
    row.id,
  )
  const known = { changed, skipped: row.skipped, enforcement }
  if (row.action === 'suspend') {
    const contained = await countContained(db, row.id, lateBefore)
    return { ...known, ...contained, lastConfirmedAt: Math.max(contained.lastConfirmedAt ?? 0, lastConfirmedAt ?? 0) }
  }
  const progress = { ...known, confirmed: 0, proven: 0, missing: 0, lastConfirmedAt }
  for (const part of parts) {
    if (part.length === 0) continue
    const { applied, lastAppliedAt, missing } = await readApplied(database, part)
    progress.confirmed += applied
    progress.missing += missing.length
    progress.lastConfirmedAt = Math.max(progress.lastConfirmedAt ?? 0, lastAppliedAt)
  }
  return progress
}

/** Lists agents that did not confirm, and agents not changed yet, up to the limit of a response. */
async function readMissing(database: Database, row: ContainmentRow): Promise<string[]> {
  const parts = await readParts(database.db, row.id)
  const ids: string[] =
    row.action === 'suspend' ? await readUnacknowledged(database.db, row.id, limits.listedMembers) : []
  for (const part of parts) {
    if (ids.length >= limits.listedMembers) break
    const changed = changedOf(part)
    if (part.changed === null) ids.push(...(JSON.parse(part.members) as FleetMember[]).map(([id]) => id))
    else if (row.action === 'resume' && changed.length > 0) ids.push(...(await readApplied(database, changed)).missing)
  }
  return ids.slice(0, limits.listedMembers)
}

/** Lists agents that registered while the containment held, up to the limit of a response. */
async function readJoined(database: Database, row: ContainmentRow): Promise<string[]> {
  const parts = await readParts(database.db, row.id)
  const joined = parts.filter((part) => part.joined === 1)
  return joined
    .flatMap((part) => (JSON.parse(part.members) as FleetMember[]).map(([id]) => id))
    .slice(0, limits.listedMembers)
}

/** Dependencies for reading a containment. */
interface Reading {
  database: Database
  points: readonly Point[]
  /** Milliseconds after which an unconfirmed agent counts as missing. */
  acknowledgeMs: number
}

/** Keys of the operators who requested and confirmed a containment. */
const peopleOf = ({ actor, requested_by, confirmed_by }: ContainmentRow) => ({
  by: requested_by ?? (JSON.parse(actor) as Actor).keyId,
  confirmedBy: confirmed_by,
})

const noCalls = { calls: 0, confirmed: 0, failed: 0 }

async function summarize(
  { database, points, acknowledgeMs }: Reading,
  row: ContainmentRow,
  names: Map<string, string>,
  now: number,
): Promise<ContainmentSummary> {
  const progress = await readProgress(database, row, points, now - acknowledgeMs)
  const {
    changed,
    skipped,
    confirmed,
    proven,
    violated = 0,
    missing,
    lastConfirmedAt,
    enforcement = noCalls,
  } = progress
  const { by, confirmedBy } = peopleOf(row)
  const state = stateOf(progress, row.changed_at, now, acknowledgeMs)
  const completedAt = state === 'complete' ? Math.max(row.changed_at!, lastConfirmedAt ?? 0) : null
  return {
    id: row.id,
    action: row.action,
    state,
    reason: row.reason,
    selector: JSON.parse(row.selector),
    tags_scope: readTeamText(row.team),
    by,
    by_name: names.get(by) ?? null,
    confirmed_by: confirmedBy,
    confirmed_by_name: confirmedBy === null ? null : (names.get(confirmedBy) ?? null),
    two_person: row.two_person === 1,
    requested: row.requested,
    changed,
    skipped,
    confirmed,
    proven,
    violated,
    enforcement,
    missing_count: missing + row.requested - changed - skipped,
    requested_at: isoTime(row.requested_at),
    changed_at: isoTimeOrNull(row.changed_at),
    completed_at: isoTimeOrNull(completedAt),
  }
}

const operatorsOf = (rows: readonly ContainmentRow[]) =>
  rows.map(peopleOf).flatMap(({ by, confirmedBy }) => (confirmedBy === null ? [by] : [by, confirmedBy]))

/** Lists containments, newest first. */
export async function listContainments(
  reading: Reading,
  db: Db,
  { before, limit, team }: { before: string | undefined; limit: number; team: Team },
  now: number,
): Promise<{ containments: ContainmentSummary[]; next: string | null }> {
  const rows = await readContainments(db, { before, limit, team })
  const names = await keyNames.names(db, operatorsOf(rows))
  const within = { ...reading, database: { ...reading.database, db } }
  const containments: ContainmentSummary[] = []
  for (const row of rows) containments.push(await summarize(within, row, names, now))
  return { containments, next: rows.length === limit ? rows.at(-1)!.id : null }
}

/** Throws AppError `not_found`. */
export async function viewContainment(
  reading: Reading,
  id: string,
  { team, now }: { team: Team; now: number },
): Promise<Containment> {
  const { database } = reading
  const row = await findContainment(database.db, id, team)
  if (!row) throw unknownId('containment', id, 'wardline containments')
  const names = await keyNames.names(database.db, operatorsOf([row]))
  const joined = await readJoined(database, row)
  const missing = await readMissing(database, row)
  // Agents that registered with a key of the team's agents need not be of the team.
  const shown = team && (await readTeam(database.db, team, [...joined, ...missing]))
  const isShown = (agent: string) => !shown || shown.has(agent)
  return {
    ...(await summarize(reading, row, names, now)),
    joined: joined.filter(isShown),
    missing: missing.filter(isShown),
  }
}
