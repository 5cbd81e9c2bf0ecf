import type { ContainmentSummary } from '@wardline/contract'
import type { Agent } from './fleet.ts'
import { isUnconfirmed, shownStatus } from './fleet-counts.ts'

/**
 * Containments that a person still has to watch, newest first: in progress, or not complete while some agent of the
 * fleet has not confirmed what they asked for.
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
