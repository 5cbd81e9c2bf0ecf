import type { ContainmentState, EnforcementCounts } from '@wardline/contract'

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
export const unenforced = ({ enforcement }: Pick<Progress, 'enforcement'>): number =>
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
