import type { ContainmentState, EnforcementCounts } from '@wardline/contract'

/** What is known of a containment. Times are epoch milliseconds. */
export interface Progress {
  /** Members that were suspended or resumed until now. */
  changed: number
  skipped: number
  confirmed: number
  proven: number
  /** Members that were changed and did not confirm. */
  missing: number
  /** Members that went on although they were suspended; absent in counts of earlier versions. */
  violated?: number
  /** Members that are still suspended by it; absent in counts of earlier versions. */
  lasting?: number
  lastConfirmedAt: number | null
  /** Calls to enforcement points; absent in counts of earlier versions. */
  enforcement?: EnforcementCounts
}

/** Calls that are not confirmed. */
export const unenforced = ({ enforcement }: Pick<Progress, 'enforcement'>): number =>
  enforcement ? enforcement.calls - enforcement.confirmed : 0

/**
 * `changedAt`: when the last member was changed; null while that goes on. Who did not confirm within `acknowledgeMs` of it
 * is away, or ignores it.
 */
export function stateOf(
  progress: Pick<Progress, 'confirmed' | 'missing' | 'enforcement'>,
  changedAt: number | null,
  now: number,
  acknowledgeMs: number,
): ContainmentState {
  if (changedAt === null) return 'in_progress'
  const { confirmed, missing } = progress
  if (missing === 0) return unenforced(progress) === 0 ? 'complete' : 'partial'
  if (now < changedAt + acknowledgeMs) return 'in_progress'
  return confirmed === 0 ? 'failed' : 'partial'
}
