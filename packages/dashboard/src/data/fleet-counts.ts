import type { SuspensionState } from '@wardline/contract'
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

/** Whether a suspended agent has not confirmed, and was not seen to be active either. */
export const isAwaited = (status: ShownStatus): boolean => awaited.includes(status)
const awaited: readonly ShownStatus[] = ['pending', 'delivered', 'unconfirmed']

const mayWork: readonly ShownStatus[] = [...awaited, 'violated']
/**
 * Whether an agent is suspended but not known to have stopped. `quiet` does not count: unproven, but without activity.
 */
export const isUnconfirmed = (status: ShownStatus): boolean => mayWork.includes(status)

/** States that no longer change by themselves, and in which the agent shows no activity. */
const settled: readonly ShownStatus[] = ['proven', 'enforced', 'quiet']

/** Whether nothing stops the agent without its cooperation. */
export const isOnlyAsked = ({ enforcing_levers }: Agent): boolean => enforcing_levers === undefined

export const countsOf = (fleet: readonly Agent[]) => ({
  all: fleet.length,
  active: fleet.filter(({ status }) => status === 'active').length,
  suspended: fleet.filter(({ status }) => status === 'suspended').length,
  /** Suspended agents that may still be working. */
  unconfirmed: fleet.filter((agent) => isUnconfirmed(shownStatus(agent))).length,
  /** Suspended agents that are not proven stopped yet. A client that cannot acknowledge is quiet instead. */
  unproven: fleet.filter((agent) => agent.status === 'suspended' && !settled.includes(shownStatus(agent))).length,
  offline: fleet.filter(({ status }) => status === 'offline').length,
  /** Agents that a suspension can only ask to stop. */
  asked: fleet.filter(isOnlyAsked).length,
  /** Offline for longer than is usual for the agent, and without a goodbye. */
  silent: fleet.filter(({ status, silent }) => status === 'offline' && silent).length,
})
