import { alertTypes } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import type { Outbox } from '../alerts/outbox.ts'
import { type Actor, recordAction } from '../audit/audit.ts'
import { controlMessage } from './control-message.ts'
import { changeControl, isKnownInstance, markApplied, readChangedControl, readControl } from './queries.ts'

export const unknownInstance = () => new AppError('not_found', 'There is no instance with this id.')

/** What a kill or a resume needs besides the database. */
export interface KillSwitchDeps extends Deps {
  outbox: Outbox
}

async function change(deps: KillSwitchDeps, instanceId: string, reason: string | null, actor: Actor): Promise<void> {
  const now = deps.clock.now()
  const suspended = reason !== null
  const version = await deps.database.db.transaction().execute(async (trx) => {
    const changed = await changeControl(trx, instanceId, reason, now)
    if (changed === undefined) {
      if (!(await isKnownInstance(trx, instanceId))) throw unknownInstance()
      throw suspended
        ? new AppError('already_suspended', 'The instance is already suspended.')
        : new AppError('not_suspended', 'The instance is not suspended.')
    }
    // Alerts before the audit log, as everywhere: two locks taken in two orders would block each other.
    const type = suspended ? alertTypes.instanceSuspended : alertTypes.instanceResumed
    const description = `${suspended ? 'Suspended' : 'Resumed'} by ${actor.keyId}${suspended ? `: ${reason}` : '.'}`
    const alert = { severity: 'warning' as const, event_type: type, instance_id: instanceId, description }
    await deps.outbox.write(trx, [alert], now)
    await recordAction(
      trx,
      actor,
      {
        action: suspended ? 'instance.suspend' : 'instance.resume',
        target: instanceId,
        before: { suspended: !suspended, version: changed - 1 },
        after: { suspended, version: changed },
        ...(reason === null ? {} : { reason }),
      },
      now,
    )
    return changed
  })
  deps.outbox.notify()
  deps.bus.publishControl(controlMessage(instanceId, { version, suspended, reason }, now, deps.secrets.controlKey))
  deps.metrics.controlChanges.inc({ action: suspended ? 'suspend' : 'resume' })
  deps.log.info(
    { instanceId, version, actor: actor.keyId, suspended },
    suspended ? 'instance suspended' : 'instance resumed',
  )
}

/**
 * How far back each look goes: a commit that the disk held up may have been answered as failed long before it was made,
 * and the clocks of two machines differ.
 */
const lookBackMs = 60_000

/**
 * Publishes what changed lately once more: since shortly before `since`, now unless told. A change whose commit was
 * answered too late, or that another process made unheard, is thereby known here within a second; receivers keep the
 * highest version, so a repetition changes nothing.
 */
export async function republishControl(deps: Deps, since = deps.clock.now()): Promise<void> {
  const { database, bus, clock, secrets } = deps
  for (const { id, changedAt, ...state } of await readChangedControl(database.db, since - lookBackMs)) {
    bus.publishControl(controlMessage(id, state, changedAt ?? clock.now(), secrets.controlKey))
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

/** Notes the control version that the agent applied. Throws AppError `not_found`, or `invalid` for a future version. */
export async function acknowledgeControl(deps: Deps, instanceId: string, version: number): Promise<void> {
  const control = await readControl(deps.database.db, instanceId)
  if (!control) throw unknownInstance()
  if (version > control.version) throw new AppError('invalid', 'version must not be above the current control version.')
  const now = deps.clock.now()
  const first = await markApplied(deps.database.db, instanceId, version, now)
  if (first && control.suspended && version === control.version && control.changedAt !== null) {
    deps.metrics.killConfirmSeconds.observe((now - control.changedAt) / 1000)
  }
}
