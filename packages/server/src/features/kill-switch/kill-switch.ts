import { alertTypes } from '@wardline/contract'
import { changeGuarded } from '../../db/guarded-change.ts'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import type { Outbox } from '../alerts/outbox/outbox.ts'
import { type Actor, auditStatements } from '../audit/audit.ts'
import { type ControlRow, controlStatements, readChangedControl, readControl } from '../instances/control-statements.ts'
import { nextVersion } from '../instances/version-claims.ts'
import { unknownInstance } from './acks.ts'
import { controlMessage } from './control-message.ts'

/** What a kill or a resume needs besides the database. */
export interface KillSwitchDeps extends Deps {
  outbox: Outbox
}

/** What a change needs to know of the instance. Throws AppError when its state does not allow the change. */
async function readAllowed({ database }: Deps, instanceId: string, suspend: boolean): Promise<ControlRow> {
  const control = await readControl(database.db, instanceId)
  if (!control) throw unknownInstance(instanceId)
  if (control.suspended !== suspend) return control
  throw suspend
    ? new AppError('already_suspended', 'The instance is already suspended.')
    : new AppError('not_suspended', 'The instance is not suspended.')
}

async function change(deps: KillSwitchDeps, instanceId: string, reason: string | null, actor: Actor): Promise<void> {
  const now = deps.clock.now()
  const suspended = reason !== null
  const type = suspended ? alertTypes.instanceSuspended : alertTypes.instanceResumed
  const description = `${suspended ? 'Suspended' : 'Resumed'} by ${actor.name}${suspended ? `: ${reason}` : '.'}`
  const alert = { severity: 'warning' as const, event_type: type, instance_id: instanceId, description }
  const version = await changeGuarded(deps.database, async () => {
    const control = await readAllowed(deps, instanceId, suspended)
    const next = nextVersion(control.version, control.claimed)
    const action = {
      action: suspended ? 'instance.suspend' : 'instance.resume',
      target: instanceId,
      before: { suspended: !suspended, version: control.version },
      after: { suspended, version: next },
      ...(reason === null ? {} : { reason }),
    }
    return {
      statements: [
        ...controlStatements(deps.database, { instanceId, from: control, version: next, reason, now }),
        // Alerts before the audit log, as everywhere: two locks taken in two orders would block each other.
        ...deps.outbox.ownStatements([alert], now),
        ...auditStatements(deps.database, actor, action, now),
      ],
      result: () => next,
    }
  })
  deps.outbox.notify()
  deps.bus.publishControl(controlMessage(instanceId, { version, suspended, reason }, now, deps.controlSigner))
  deps.metrics.controlChanges.inc({ action: suspended ? 'suspend' : 'resume' })
  deps.log.info(
    { instanceId, version, actor: actor.keyId, suspended },
    suspended ? 'instance suspended' : 'instance resumed',
  )
}

/**
 * How far back each read goes: a commit that the disk delayed may have been answered as failed long before it was made,
 * and the clocks of two machines differ.
 */
const lookBackMs = 60_000

/**
 * Publishes recent changes once more: since shortly before `since` (default: now). A change whose commit was answered
 * too late, or whose message was lost, is thereby known here within a second; receivers keep the highest version, so a
 * repetition changes nothing.
 */
export async function republishControl(deps: Deps, since = deps.clock.now()): Promise<void> {
  const { database, bus, clock, controlSigner } = deps
  for (const { id, changedAt, ...state } of await readChangedControl(database.db, since - lookBackMs)) {
    bus.publishControl(controlMessage(id, state, changedAt ?? clock.now(), controlSigner))
  }
}

/** Suspends an instance. Throws AppError `not_found` or `already_suspended`. */
export function suspendInstance(deps: KillSwitchDeps, instanceId: string, reason: string, actor: Actor): Promise<void> {
  return change(deps, instanceId, reason.trim(), actor)
}

/** Resumes an instance. Throws AppError `not_found` or `not_suspended`. */
export function resumeInstance(deps: KillSwitchDeps, instanceId: string, actor: Actor): Promise<void> {
  return change(deps, instanceId, null, actor)
}
