import { setImmediate as nextTurn } from 'node:timers/promises'
import { alertTypes } from '@wardline/contract'
import type { Statement } from '../../db/database.ts'
import { changeGuarded } from '../../db/guarded-change.ts'
import { pagesOf } from '../../db/portions.ts'
import type { Deps } from '../../deps.ts'
import { AppError, unknownInstance } from '../../errors.ts'
import type { OwnAlert } from '../alerts/outbox/alert.ts'
import type { Outbox } from '../alerts/outbox/outbox.ts'
import { type Actor, auditStatements } from '../audit/audit.ts'
import type { Enforcement } from '../enforcement/enforcement.ts'
import {
  type ChangePlace,
  type ControlRow,
  controlStatements,
  readChangedControl,
  readControl,
} from '../instances/control-statements.ts'
import { findSuspendedParent } from '../instances/parent-statements.ts'
import { nextVersion } from '../instances/version-claims.ts'
import { type Hold, onSuspend } from '../suspensions/holds.ts'
import type { SuspensionFacts } from '../suspensions/suspension-facts.ts'
import {
  type HeldSuspension,
  readHeld,
  resumptionStatement,
  type SuspensionCause,
  suspensionStatement,
} from '../suspensions/suspension-statements.ts'
import { controlMessage } from './control-message.ts'

/** Resumes of many that are stored and not made yet. */
export interface PendingResumes {
  /**
   * Returns the instances whose suspension of this version such a resume is about to end. Read the version first and the
   * suspension last: a resume in between then shows as an outdated reading.
   */
  find(suspensions: readonly Pick<HeldSuspension, 'instanceId' | 'version'>[]): Promise<ReadonlySet<string>>
}

/** The parts of the service that a kill or a resume involves. */
export interface KillSwitchParts {
  outbox: Outbox
  pendingResumes: PendingResumes
  suspensionFacts: Pick<SuspensionFacts, 'noteStored' | 'notePublished'>
  enforcement: Pick<Enforcement, 'statements' | 'notify'>
}

/** A suspension by one person or by the service: its resume needs no second operator because of it. */
export const holdUntil = (endsAt: number | null): Hold => ({ endsAt, twoPerson: false, holdsKey: false })

/** Anything takes it over, in a batch that fails as stale, because the instance changed between two reads. */
const outdated: Hold = { ...holdUntil(null), isEnding: true }

/**
 * Returns what holds an instance as read, for requests of `holdUntil`: whether two operators have to resume it makes no
 * difference to these.
 */
export function heldBy(control: ControlRow, held: HeldSuspension | undefined, isEnding: boolean): Hold | undefined {
  if (!control.suspended) return undefined
  if (held?.version !== control.version) return outdated
  return { ...holdUntil(held.endsAt), isEnding, isThrough: held.throughId !== null }
}

/** Refuses a resume: it would free what the suspension of the parent holds, with fewer operators than that may need. */
export const heldByParent = (instanceId: string, parent: string): AppError =>
  new AppError(
    'parent_suspended',
    `${instanceId} stays suspended as long as its parent ${parent} is: resume ${parent}, which resumes those that are suspended only because of it.`,
  )

/** Reads the instance for a change. Throws AppError when its state does not allow the change. */
async function readAllowed(
  { database }: Pick<Deps, 'database'>,
  { pendingResumes }: Pick<KillSwitchParts, 'pendingResumes'>,
  instanceId: string,
  suspend: boolean,
): Promise<ControlRow> {
  const control = await readControl(database.db, instanceId)
  if (!control) throw unknownInstance(instanceId)
  if (!control.suspended && !suspend) throw new AppError('not_suspended', 'The instance is not suspended.')
  if (!suspend) {
    const parent = await findSuspendedParent(database.db, instanceId)
    if (parent !== undefined) throw heldByParent(instanceId, parent)
  }
  if (control.suspended !== suspend) return control
  const pending = await pendingResumes.find([{ instanceId, version: control.version }])
  const suspension = (await readHeld(database, [instanceId])).get(instanceId)
  const held = heldBy(control, suspension, pending.has(instanceId))
  if (onSuspend(held, holdUntil(null)) === 'take_over') return control
  throw new AppError('already_suspended', 'The instance is already suspended.')
}

/** A kill or a resume of one instance. */
interface ControlRequest {
  instanceId: string
  /** Null resumes. `endsAt`: when the suspension ends by itself; default: a person has to resume the instance. */
  suspending: { reason: string; cause: SuspensionCause; endsAt?: number | null } | null
  /** Reason for a resume, recorded in the audit log. */
  resumeReason?: string | undefined
  actor: Actor
  now: number
}

/** Returns statements to add to the batch that resumes an instance of this version; throws when that is not allowed. */
export type ResumeCondition = (version: number) => Promise<Statement[]>

/** A kill or a resume that is ready to be stored, prepared from the instance as read. */
export interface PreparedControl extends ControlRequest {
  version: number
  /** Check that the instance is unchanged since it was read, and change it. */
  moving: Statement[]
  alert: OwnAlert
  /** Append to the audit log: the last statements of a batch. */
  recording: Statement[]
}

const causeOf = ({ eventId, ruleId }: SuspensionCause = {}) => ({
  ...(eventId === undefined ? {} : { event_id: eventId }),
  ...(ruleId === undefined ? {} : { rule_id: ruleId }),
})

/** Prepares a change that the state of the instance allows. */
export function prepareControl(
  { database }: Pick<Deps, 'database'>,
  { enforcement }: Pick<KillSwitchParts, 'enforcement'>,
  control: ControlRow,
  request: ControlRequest,
): PreparedControl {
  const { instanceId, suspending, actor, now } = request
  const suspended = suspending !== null
  const reason = suspending?.reason ?? null
  const recorded = reason ?? request.resumeReason
  const version = nextVersion(control.version, control.claimed)
  const action = {
    action: suspended ? 'instance.suspend' : 'instance.resume',
    target: instanceId,
    before: { suspended: control.suspended, version: control.version },
    after: { suspended, version, ...causeOf(suspending?.cause) },
    ...(recorded === undefined ? {} : { reason: recorded }),
  }
  const canAcknowledge = control.applied !== null || control.claimed !== null
  return {
    ...request,
    version,
    moving: [
      ...controlStatements(database, { instanceId, from: control, version, reason, now }),
      // A suspension that is taken over ends together with its timer.
      ...(control.suspended ? [resumptionStatement(database.db, instanceId, now)] : []),
      ...(suspending
        ? [
            suspensionStatement(database.db, {
              ...suspending.cause,
              instanceId,
              version,
              reason: suspending.reason,
              actor: actor.keyId,
              canAcknowledge,
              endsAt: suspending.endsAt ?? null,
              now,
            }),
          ]
        : []),
      ...enforcement.statements({
        action: suspended ? 'suspend' : 'resume',
        instances: [{ id: instanceId, version }],
        reason,
        containmentId: suspending?.cause.containmentId ?? null,
        now,
      }),
    ],
    alert: {
      severity: 'warning',
      event_type: suspended ? alertTypes.instanceSuspended : alertTypes.instanceResumed,
      instance_id: instanceId,
      description: `${suspended ? 'Suspended' : 'Resumed'} by ${actor.name}${suspended ? `: ${reason}` : '.'}`,
    },
    recording: auditStatements(database, actor, action, now),
  }
}

/** Announces a stored change to agents, other processes and the log. */
export function announceControl(
  deps: Pick<Deps, 'bus' | 'clock' | 'log' | 'metrics' | 'controlSigner'>,
  { outbox, suspensionFacts, enforcement }: KillSwitchParts,
  change: PreparedControl,
): void {
  const { instanceId, version, suspending, actor, now } = change
  const suspended = suspending !== null
  const reason = suspending?.reason ?? null
  if (suspended) suspensionFacts.noteStored(instanceId, version, now)
  outbox.notify()
  deps.bus.publishControl(controlMessage(instanceId, { version, suspended, reason }, now, deps.controlSigner))
  if (suspended) suspensionFacts.notePublished(instanceId, version, now)
  enforcement.notify()
  deps.metrics.controlChanges.inc({ action: suspended ? 'suspend' : 'resume' })
  deps.log.info(
    { instanceId, version, actor: actor.keyId, suspended },
    suspended ? 'instance suspended' : 'instance resumed',
  )
}

async function change(
  deps: Deps,
  parts: KillSwitchParts,
  request: Omit<ControlRequest, 'now'>,
  condition: ResumeCondition = async () => [],
): Promise<void> {
  const { instanceId, suspending } = request
  const now = deps.clock.now()
  const prepared = await changeGuarded(deps.database, async () => {
    const control = await readAllowed(deps, parts, instanceId, suspending !== null)
    const conditions = await condition(control.version)
    const ready = prepareControl(deps, parts, control, { ...request, now })
    return {
      // Alerts before the audit log, as everywhere: locks taken in different orders could deadlock.
      statements: [
        ...ready.moving,
        ...parts.outbox.ownStatements([ready.alert], now),
        ...conditions,
        ...ready.recording,
      ],
      result: () => ready,
    }
  })
  announceControl(deps, parts, prepared)
}

/**
 * How far back each read goes: a commit delayed by the disk may be answered as failed long before it takes effect, and
 * clocks of machines differ.
 */
const lookBackMs = 60_000
/** Messages per turn of the event loop, and changes per read: after a fleet stop there are thousands. */
const turnMessages = 40
const pageChanges = 400

/**
 * Publishes changes since shortly before `since` (default: now) again. Changes whose commit was answered too late, or
 * whose message was lost, thereby reach receivers within a second. Receivers keep the highest version, so repeated
 * messages have no effect.
 */
export async function republishControl(
  deps: Deps,
  facts: Pick<SuspensionFacts, 'notePublished'>,
  since = deps.clock.now(),
): Promise<void> {
  const { database, bus, controlSigner } = deps
  const start: ChangePlace = { changedAt: since - lookBackMs, id: '' }
  const pages = pagesOf(pageChanges, (last?: ChangePlace) =>
    readChangedControl(database.db, last ?? start, pageChanges),
  )
  for await (const changed of pages) {
    for (const [index, { id, changedAt, ...state }] of changed.entries()) {
      if (index % turnMessages === turnMessages - 1) await nextTurn()
      bus.publishControl(controlMessage(id, state, changedAt, controlSigner))
      if (state.suspended) facts.notePublished(id, state.version, changedAt)
    }
  }
}

/** Suspends an instance, also one that a timed suspension or its parent holds. Throws AppError `not_found` or `already_suspended`. */
export function suspendInstance(
  deps: Deps,
  parts: KillSwitchParts,
  { instanceId, reason, actor }: { instanceId: string; reason: string; actor: Actor },
): Promise<void> {
  return change(deps, parts, { instanceId, suspending: { reason: reason.trim(), cause: {} }, actor })
}

interface ResumeRequest {
  instanceId: string
  /** Recorded in the audit log. */
  reason?: string
  actor: Actor
  /** A requirement such as the confirmation by a second operator. */
  condition?: ResumeCondition
}

/** Resumes an instance. Throws AppError `not_found`, `not_suspended`, `parent_suspended`, or the error of the condition. */
export function resumeInstance(
  deps: Deps,
  parts: KillSwitchParts,
  { instanceId, reason, actor, condition }: ResumeRequest,
): Promise<void> {
  return change(deps, parts, { instanceId, suspending: null, resumeReason: reason, actor }, condition)
}
