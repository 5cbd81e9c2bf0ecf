import { setImmediate as nextTurn } from 'node:timers/promises'
import { alertTypes, type ControlMessage } from '@wardline/contract'
import type { Statement } from '../../db/database.ts'
import type { Deps } from '../../deps.ts'
import type { Outbox } from '../alerts/outbox/outbox.ts'
import { type Actor, auditManyStatements } from '../audit/audit.ts'
import { controlMessage } from '../control/control-message.ts'
import type { Enforcement } from '../enforcement/enforcement.ts'
import { fleetMoveStatement, holdFleet, readFleet, unchangedCount } from '../instances/fleet-statements.ts'
import { readSuspendedParents } from '../instances/parent-statements.ts'
import { nextVersion } from '../instances/version-claims.ts'
import {
  fleetResumptionsStatement,
  fleetSuspensionsStatement,
  holdKeysStatement,
  readSuspendedAlone,
} from '../suspensions/fleet-suspension-statements.ts'
import type { SuspensionFacts } from '../suspensions/suspension-facts.ts'
import { parentsBeside, parentsFirst } from './parents-first.ts'
import { type ContainmentRow, checkUnchanged, donePartStatements, holdPart } from './queries.ts'
import { readStopVerdicts } from './stop-verdicts.ts'

/** Messages signed or published per turn of the event loop: 40 take 2 to 4 ms on a slow core. */
const turnMessages = 40

/** A selected instance, with its control version at the time of selection. */
export type FleetMember = readonly [id: string, version: number]

/** Members of a containment that are changed in one transaction. */
interface Part {
  row: ContainmentRow
  position: number
  members: readonly FleetMember[]
}

export interface FleetParts {
  suspensionFacts: SuspensionFacts
  enforcement: Enforcement
  outbox: Outbox
}

/**
 * The steps of the transaction of a part, in the order in which they take their locks. Transactions that change the same
 * agents take them in the same order, or they could deadlock.
 */
const lockOrder = [
  // Locks the part: of several processes one changes it.
  'part',
  // Locks the members, in the order of ids.
  'members',
  // Fails as stale if a member was changed since it was read; only the lock keeps it unchanged from here on.
  'unchanged',
  'move',
  'suspensions',
  'calls',
  'keys',
  'done',
  'alerts',
  // Last, because every change in the service waits for the lock of the audit log.
  'audit',
] as const
type Steps = Record<(typeof lockOrder)[number], readonly Statement[]>

export const inLockOrder = (steps: Partial<Steps>): Statement[] => lockOrder.flatMap((step) => steps[step] ?? [])

/** In several turns of the event loop, so that the kill of one agent can go out in between. */
async function inTurns<Item>(items: readonly Item[], each: (item: Item) => void): Promise<void> {
  for (const [index, item] of items.entries()) {
    each(item)
    if (index % turnMessages === turnMessages - 1) await nextTurn()
  }
}

export const publishAll = (
  { bus }: Pick<Deps, 'bus'>,
  facts: Pick<SuspensionFacts, 'notePublished'>,
  messages: readonly ControlMessage[],
): Promise<void> =>
  inTurns(messages, (message) => {
    bus.publishControl(message)
    if (message.action === 'suspend') {
      facts.notePublished(message.instance_id, message.version, Date.parse(message.issued_at))
    }
  })

/** Returns the members that a part moves, as read, and the suspended ones whose key it holds. */
async function readMovable({ database }: Deps, { row, members }: Part) {
  const selected = new Map(members)
  const rows = await readFleet(database, [...selected.keys()])
  const suspended = rows.filter((member) => member.suspended === 1)
  if (row.action === 'resume') {
    const unchanged = suspended.filter(({ id, control_version }) => control_version === selected.get(id))
    const held = await readSuspendedParents(database, parentsBeside(unchanged))
    return { movable: parentsFirst(unchanged, held), keyHeld: [] }
  }
  const verdicts = await readStopVerdicts(database, suspended, row.two_person === 1)
  const isKeyHeld = ({ id }: { id: string }) => verdicts.get(id) === 'hold_key'
  return {
    movable: rows.filter((member) => member.suspended === 0 || (verdicts.has(member.id) && !isKeyHeld(member))),
    keyHeld: suspended.filter(isKeyHeld).map(({ id }) => id),
  }
}

/**
 * Suspends or resumes the members of a part in one transaction, each with its own version, row of facts and audit entry.
 * Skips members whose state changed since the selection: those resumed and suspended again, and those already suspended,
 * whose keys a stop holds. Resolves with the signed messages, which are not published yet. Rejects with DatabaseError,
 * `stale` if a member changed during the transaction.
 */
export async function changePart(
  deps: Deps,
  { suspensionFacts, enforcement, outbox }: FleetParts,
  part: Part,
): Promise<ControlMessage[]> {
  const { database, clock, metrics } = deps
  const { row, position, members } = part
  const { id: containmentId, action } = row
  const actor: Actor = JSON.parse(row.actor)
  const suspended = action === 'suspend'
  const reason = suspended ? row.reason : null
  const { movable, keyHeld } = await readMovable(deps, part)
  const moves = movable.map(({ id, suspended: was, control_version: from, claimed_version, applied_version }) => ({
    id,
    from,
    wasSuspended: was === 1,
    version: nextVersion(from, claimed_version),
    canAcknowledge: applied_version !== null || claimed_version !== null,
  }))
  const ids = moves.map(({ id }) => id)
  const resuspended = moves.flatMap(({ id, wasSuspended }) => (wasSuspended ? [id] : []))
  // A containment sends one alert for all its members. A suspension that had its own alert gets its own end.
  const alone = suspended || moves.length === 0 ? [] : await readSuspendedAlone(database, ids)
  const alerts = alone.map((id) => ({
    severity: 'warning' as const,
    event_type: alertTypes.instanceResumed,
    instance_id: id,
    description: `Resumed by ${actor.name}.`,
  }))
  const now = clock.now()
  const suspending = { containmentId, reason: row.reason, actor: actor.keyId, now, members: moves }
  const entries = moves.map(({ id, from, wasSuspended, version }) => ({
    target: id,
    before: { suspended: wasSuspended, version: from },
    after: { suspended, version, containment: containmentId },
  }))
  const audited = { action: `instance.${action}`, ...(reason === null ? {} : { reason }) }
  const changed = JSON.stringify(moves.map(({ id, version }) => [id, version]))
  const skipped = members.length - moves.length
  const statements = inLockOrder({
    part: [holdPart(database, containmentId, position)],
    keys: keyHeld.length > 0 ? [holdKeysStatement(database, keyHeld, containmentId)] : [],
    done: donePartStatements(database, { id: containmentId, position, changed, skipped, now }),
    ...(moves.length === 0
      ? {}
      : {
          members: [holdFleet(database, ids)],
          unchanged: [checkUnchanged(database, containmentId, position, unchangedCount(database, moves), moves.length)],
          move: [fleetMoveStatement(database, moves, reason, now)],
          suspensions: [
            ...(resuspended.length > 0 ? [fleetResumptionsStatement(database, resuspended, now)] : []),
            ...(suspended ? [fleetSuspensionsStatement(database, suspending)] : []),
          ],
          calls: enforcement.statements({ action, instances: moves, reason: row.reason, containmentId, now }),
          alerts: outbox.ownStatements(alerts, now),
          audit: auditManyStatements(database, actor, audited, entries, now),
        }),
  })
  const messages: ControlMessage[] = []
  await Promise.all([
    // While the database works.
    inTurns(moves, ({ id, version }) =>
      messages.push(controlMessage(id, { version, suspended, reason }, now, deps.controlSigner)),
    ),
    database.batch(statements, { isControl: true }),
  ])
  if (suspended) for (const { id, version } of moves) suspensionFacts.noteStored(id, version, now)
  if (alerts.length > 0) outbox.notify()
  enforcement.notify()
  metrics.controlChanges.inc({ action }, moves.length)
  return messages
}
