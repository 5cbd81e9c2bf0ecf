import type { SuspensionState } from '@wardline/contract'
import type { Agent } from './fleet.ts'

/** Of a suspended agent: how far its suspension is shown to have worked. */
export type ShownStatus = 'active' | 'offline' | 'partial' | SuspensionState

export function shownStatus({
  status,
  control,
  containment,
}: Pick<Agent, 'status' | 'control' | 'containment'>): ShownStatus {
  if (status !== 'suspended') return status
  // A suspension from before facts were kept has its confirmation only.
  return containment?.state ?? (control.confirmed ? 'confirmed' : 'pending')
}

const mayWork: readonly ShownStatus[] = ['pending', 'delivered', 'unconfirmed', 'violated']
/** Suspended, and nothing shows that it stopped. `quiet` is not proven, but shows no activity either. */
export const isUnconfirmed = (status: ShownStatus): boolean => mayWork.includes(status)

export const countsOf = (fleet: readonly Agent[]) => ({
  all: fleet.length,
  active: fleet.filter(({ status }) => status === 'active').length,
  suspended: fleet.filter(({ status }) => status === 'suspended').length,
  /** Of the suspended ones. */
  unconfirmed: fleet.filter((agent) => isUnconfirmed(shownStatus(agent))).length,
  offline: fleet.filter(({ status }) => status === 'offline').length,
  /** Of the offline ones: longer than is usual for them, and without a goodbye. */
  silent: fleet.filter(({ status, silent }) => status === 'offline' && silent).length,
})
