import { alertTypes, type ContainmentState, type EnforcementCounts } from '@wardline/contract'
import { dayMs } from '../../clock.ts'
import type { OwnAlert } from '../alerts/outbox/alert.ts'
import type { ContainmentRow, Looked } from './queries.ts'

/** Intervals of checking the result: while it may change soon, later, and for how long. */
const looks = { soonMs: 1_000, soonForMs: 120_000, laterMs: 60_000, untilMs: 7 * dayMs }

/** Facts about a containment. Times are epoch milliseconds. */
export interface Progress {
  /** Members suspended or resumed so far. */
  changed: number
  skipped: number
  confirmed: number
  proven: number
  /** Members that were changed and did not confirm. */
  missing: number
  /** Missing members that had time to confirm; undefined for resumes and in counts of earlier versions: all of them. */
  overdue?: number
  /** Members that continued although they were suspended; undefined in counts of earlier versions. */
  violated?: number
  /** Members still suspended by the containment; undefined in counts of earlier versions. */
  lasting?: number
  lastConfirmedAt: number | null
  /** Calls to enforcement points; undefined in counts of earlier versions. */
  enforcement?: EnforcementCounts
}

/** Number of unconfirmed calls. */
const unenforced = ({ enforcement }: Pick<Progress, 'enforcement'>): number =>
  enforcement ? enforcement.calls - enforcement.confirmed : 0

/**
 * `changedAt`: time at which the last member was changed; null while the work continues. A member that did not confirm
 * within `acknowledgeMs` after it is offline or ignores the change.
 */
export function stateOf(
  progress: Pick<Progress, 'confirmed' | 'missing' | 'overdue' | 'enforcement'>,
  changedAt: number | null,
  now: number,
  acknowledgeMs: number,
): ContainmentState {
  if (changedAt === null) return 'in_progress'
  const { confirmed, missing, overdue = missing } = progress
  if (missing === 0) return unenforced(progress) === 0 ? 'complete' : 'partial'
  // Those that registered later have time of theirs, but give none to the others.
  if (now < changedAt + acknowledgeMs || overdue === 0) return 'in_progress'
  return confirmed === 0 ? 'failed' : 'partial'
}

/** When a result is checked. `mayJudge`: false after a change of the clock, which makes a new containment look old. */
interface Look {
  now: number
  acknowledgeMs: number
  mayJudge: boolean
}

/** Decides what to store about a containment whose members were changed, and what to report: `news`. */
export function lookAt(
  row: Pick<ContainmentRow, 'changed_at' | 'reported'>,
  progress: Progress,
  { now, acknowledgeMs, mayJudge }: Look,
): Looked & { news: ContainmentRow['reported'] } {
  const changedAt = row.changed_at!
  const state = stateOf(progress, changedAt, now, acknowledgeMs)
  const isComplete = state === 'complete'
  const isOverdue = !isComplete && state !== 'in_progress' && now >= changedAt + acknowledgeMs && mayJudge
  const reported = isComplete ? 'complete' : isOverdue ? 'incomplete' : row.reported
  // An agent proven silent may still continue later, as long as the suspension lasts.
  const isFinal = (isComplete && !progress.lasting) || now > changedAt + looks.untilMs
  return {
    news: reported === row.reported ? null : reported,
    reported,
    look_at: now + (now < changedAt + looks.soonForMs ? looks.soonMs : looks.laterMs),
    ...(isComplete ? { completed_at: Math.max(changedAt, progress.lastConfirmedAt ?? 0) } : {}),
    ...(isFinal ? { counts: JSON.stringify(progress) } : {}),
  }
}

/** Returns the alert that reports a result. */
export function alertOf(
  { id, action, requested }: ContainmentRow,
  progress: Progress,
  news: NonNullable<ContainmentRow['reported']>,
  acknowledgeMs: number,
): OwnAlert {
  const about = { instance_id: null, subject: id }
  const agents = requested === 1 ? '1 agent' : `${requested} agents`
  if (news === 'complete') {
    const what = `${action === 'suspend' ? 'suspension' : 'resume'} of ${agents}`
    const skipped = progress.skipped > 0 ? `, ${progress.skipped} skipped` : ''
    const description = `The ${what} is complete: ${progress.confirmed} confirmed${skipped}.`
    return { ...about, severity: 'info', event_type: alertTypes.containmentCompleted, description }
  }
  const open = unenforced(progress)
  const missing = [
    ...(progress.missing > 0 ? [`${progress.missing} of ${agents}`] : []),
    ...(open > 0 ? [`${open} ${open === 1 ? 'call' : 'calls'} to enforcement points`] : []),
  ].join(' and ')
  const description = `${missing} did not confirm the ${action} within ${acknowledgeMs / 1_000} seconds; wardline containments ${id} lists them.`
  return { ...about, severity: 'critical', event_type: alertTypes.containmentIncomplete, description }
}
