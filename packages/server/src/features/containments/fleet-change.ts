import { setImmediate as nextTurn } from 'node:timers/promises'
import { alertTypes, type ControlMessage } from '@wardline/contract'
import type { Statement } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import type { Outbox } from '../alerts/outbox/outbox.ts'
import { type Actor, auditManyStatements } from '../audit/audit.ts'
import { controlMessage } from '../control/control-message.ts'
import type { Enforcement } from '../enforcement/enforcement.ts'
import {
  type FleetMove,
  fleetMoveStatement,
  holdFleet,
  readFleet,
  type SelectedRow,
} from '../instances/fleet-statements.ts'
import { nextVersion } from '../instances/version-claims.ts'
import {
  fleetResumptionsStatement,
  fleetSuspensionsStatement,
  holdKeysStatement,
  readSuspendedAlone,
} from '../suspensions/fleet-suspension-statements.ts'
import type { HoldVerdict } from '../suspensions/holds.ts'
import type { SuspensionFacts } from '../suspensions/suspension-facts.ts'

/** Messages signed or published per turn of the event loop: 40 take 2 to 4 ms on a slow core. */
const turnMessages = 40

/** A selected instance, with its control version at the time of selection. */
export type FleetMember = readonly [id: string, version: number]

interface FleetChange {
  containmentId: string
  members: readonly FleetMember[]
  action: 'suspend' | 'resume'
  reason: string
  actor: Actor
  /** Decides what a stop does to instances that are suspended as read; those that it keeps as they are are missing. */
  judge(
    suspended: readonly Pick<SelectedRow, 'id' | 'control_version'>[],
  ): Promise<ReadonlyMap<string, Exclude<HoldVerdict, 'keep'>>>
  /**
   * Returns statements to run before the change, a check that the locked instances are unchanged since they were read,
   * and statements to run after it. All precede the audit log, because every change takes its lock.
   */
  around(moves: readonly FleetMove[], now: number): { before: Statement[]; check: Statement; after: Statement[] }
}

/** Signs in several turns of the event loop, while the database works. */
async function signAll(
  { controlSigner }: Deps,
  moves: readonly FleetMove[],
  state: { suspended: boolean; reason: string | null },
  now: number,
): Promise<ControlMessage[]> {
  const messages: ControlMessage[] = []
  for (const [index, { id, version }] of moves.entries()) {
    messages.push(controlMessage(id, { version, ...state }, now, controlSigner))
    if (index % turnMessages === turnMessages - 1) await nextTurn()
  }
  return messages
}

/** Publishes control messages in several turns of the event loop, so that the kill of one agent can go out in between. */
export async function publishAll(
  { bus }: Pick<Deps, 'bus'>,
  facts: Pick<SuspensionFacts, 'notePublished'>,
  messages: readonly ControlMessage[],
): Promise<void> {
  for (const [index, message] of messages.entries()) {
    bus.publishControl(message)
    if (message.action === 'suspend') {
      facts.notePublished(message.instance_id, message.version, Date.parse(message.issued_at))
    }
    if (index % turnMessages === turnMessages - 1) await nextTurn()
  }
}

/** Returns the members that a change moves, as read, and the suspended ones whose key it holds. */
async function readMovable({ database }: Deps, { members, action, judge }: FleetChange) {
  const selected = new Map(members)
  const rows = await readFleet(database, [...selected.keys()])
  const suspended = rows.filter((row) => row.suspended === 1)
  if (action === 'resume') {
    return { movable: suspended.filter((row) => row.control_version === selected.get(row.id)), keyHeld: [] }
  }
  const verdicts = await judge(suspended)
  const isKeyHeld = ({ id }: { id: string }) => verdicts.get(id) === 'hold_key'
  return {
    movable: rows.filter((row) => row.suspended === 0 || (verdicts.has(row.id) && !isKeyHeld(row))),
    keyHeld: suspended.filter(isKeyHeld).map(({ id }) => id),
  }
}

/**
 * Suspends or resumes many instances in one transaction, each with its own version, row of facts and audit entry. Skips
 * members whose state changed since the selection: those resumed and suspended again, and those already suspended, whose
 * keys a stop holds. Resolves
 * with the signed messages, which are not published yet. Rejects with DatabaseError, `stale` if a member changed during
 * the transaction.
 */
export async function changeFleet(
  deps: Deps,
  {
    suspensionFacts,
    enforcement,
    outbox,
  }: {
    suspensionFacts: Pick<SuspensionFacts, 'noteStored'>
    enforcement: Pick<Enforcement, 'statements' | 'notify'>
    outbox: Pick<Outbox, 'ownStatements' | 'notify'>
  },
  change: FleetChange,
): Promise<ControlMessage[]> {
  const { database, clock, metrics } = deps
  const { containmentId, action, actor } = change
  const suspended = action === 'suspend'
  const reason = suspended ? change.reason : null
  const { movable, keyHeld } = await readMovable(deps, change)
  const moves = movable.map(({ id, suspended: was, control_version: from, claimed_version }) => ({
    id,
    from,
    wasSuspended: was === 1,
    version: nextVersion(from, claimed_version),
  }))
  // A containment sends one alert for all its members. A suspension that had its own alert gets its own end.
  const alone =
    suspended || moves.length === 0
      ? []
      : await readSuspendedAlone(
          database,
          moves.map(({ id }) => id),
        )
  const alerts = alone.map((id) => ({
    severity: 'warning' as const,
    event_type: alertTypes.instanceResumed,
    instance_id: id,
    description: `Resumed by ${actor.name}.`,
  }))
  const now = clock.now()
  const around = change.around(moves, now)
  const { before, check } = around
  const holding = keyHeld.length > 0 ? [holdKeysStatement(database, keyHeld, containmentId)] : []
  const after = [...holding, ...around.after]
  const facts = () => {
    const ended = moves.flatMap(({ id, wasSuspended }) => (wasSuspended ? [id] : []))
    const endings = ended.length > 0 ? [fleetResumptionsStatement(database, ended, now)] : []
    if (!suspended) return endings
    const suspendedMembers = movable.map((row, index) => ({
      id: row.id,
      version: moves[index]!.version,
      canAcknowledge: row.applied_version !== null || row.claimed_version !== null,
    }))
    const { reason } = change
    const suspending = { containmentId, reason, actor: actor.keyId, now, members: suspendedMembers }
    return [...endings, fleetSuspensionsStatement(database, suspending)]
  }
  const entries = moves.map(({ id, from, wasSuspended, version }) => ({
    target: id,
    before: { suspended: wasSuspended, version: from },
    after: { suspended, version, containment: containmentId },
  }))
  const audited = { action: `instance.${action}`, ...(reason === null ? {} : { reason }) }
  const statements =
    moves.length === 0
      ? [...before, ...after]
      : [
          ...before,
          holdFleet(database, moves),
          check,
          fleetMoveStatement(database, moves, reason, now),
          ...facts(),
          ...enforcement.statements({ action, instances: moves, reason: change.reason, containmentId, now }),
          ...after,
          ...outbox.ownStatements(alerts, now),
          ...auditManyStatements(database, actor, audited, entries, now),
        ]
  const [messages] = await Promise.all([
    signAll(deps, moves, { suspended, reason }, now),
    database.batch(statements, { isControl: true }),
  ])
  if (suspended) for (const { id, version } of moves) suspensionFacts.noteStored(id, version, now)
  if (alerts.length > 0) outbox.notify()
  enforcement.notify()
  metrics.controlChanges.inc({ action }, moves.length)
  return messages
}
