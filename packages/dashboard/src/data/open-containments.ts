import type { ContainmentSummary } from '@wardline/contract'
import type { Counts } from './fleet-counts.ts'

/**
 * Returns the containments that need watching, newest first: in progress, or incomplete while some agent of the fleet
 * has not confirmed its change.
 */
export function openContainments<Known extends Pick<ContainmentSummary, 'state' | 'action'>>(
  containments: readonly Known[],
  { unconfirmed, partial, unresumed }: Pick<Counts, 'unconfirmed' | 'partial' | 'unresumed'>,
): Known[] {
  const waits = {
    suspend: unconfirmed + partial > 0,
    resume: unresumed > 0,
  }
  return containments.filter(({ state, action }) => state === 'in_progress' || (state !== 'complete' && waits[action]))
}
