import type { ContainmentSummary } from '@wardline/contract'
import type { Agent } from './fleet.ts'
import { isUnconfirmed, shownStatus } from './fleet-counts.ts'

/**
 * Returns the containments that need watching, newest first: in progress, or incomplete while some agent of the fleet
 * has not confirmed its change.
 */
export function openContainments<Known extends Pick<ContainmentSummary, 'state' | 'action'>>(
  containments: readonly Known[],
  fleet: readonly Agent[],
): Known[] {
  const waits = {
    suspend: fleet.some((agent) => isUnconfirmed(shownStatus(agent)) || shownStatus(agent) === 'partial'),
    resume: fleet.some(({ status, control }) => status !== 'suspended' && !control.confirmed),
  }
  return containments.filter(({ state, action }) => state === 'in_progress' || (state !== 'complete' && waits[action]))
}
