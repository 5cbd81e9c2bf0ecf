import { awaitedStates, type FleetCounts, type SuspensionState, workingStates } from '@wardline/contract'
import type { Agent } from './fleet.ts'

/** An agent's status. For a suspended agent, how far its suspension is proven to have worked. */
export type ShownStatus = 'active' | 'offline' | 'partial' | SuspensionState

export function shownStatus({
  status,
  control,
  suspension,
}: Pick<Agent, 'status' | 'control' | 'suspension'>): ShownStatus {
  if (status !== 'suspended') return status
  // Suspensions from before these facts were stored have only their confirmation.
  return suspension?.state ?? (control.confirmed ? 'confirmed' : 'pending')
}

/** Whether an agent is suspended but not known to have stopped. */
export const isUnconfirmed = (status: ShownStatus): boolean =>
  (workingStates as readonly ShownStatus[]).includes(status)

/** States that no longer change by themselves, and in which the agent shows no activity. */
const settled: readonly SuspensionState[] = ['proven', 'enforced', 'quiet']

const sumOf = (states: FleetCounts['states'], of: readonly SuspensionState[]): number =>
  of.reduce((sum, state) => sum + states[state], 0)

/** Counts of the fleet, from those of its summary. */
export function countsOf({ states, ...counts }: FleetCounts) {
  return {
    ...counts,
    /** Suspended agents that may still be working. */
    unconfirmed: sumOf(states, workingStates),
    /** Those of them that have not confirmed, and were not seen to be active either. */
    awaited: sumOf(states, awaitedStates),
    /** Suspended agents that are not proven stopped yet. A client that cannot acknowledge is quiet instead. */
    unproven: counts.suspended - sumOf(states, settled),
    partial: states.partial,
  }
}
export type Counts = ReturnType<typeof countsOf>
