import type { Agent } from './fleet.ts'

/** A suspension that the agent did not confirm yet counts as a separate state. */
export type ShownStatus = Agent['status'] | 'unconfirmed'
export const shownStatus = ({ status, control }: Pick<Agent, 'status' | 'control'>): ShownStatus =>
  status === 'suspended' && !control.confirmed ? 'unconfirmed' : status

export const countsOf = (fleet: readonly Agent[]) => ({
  all: fleet.length,
  active: fleet.filter(({ status }) => status === 'active').length,
  suspended: fleet.filter(({ status }) => status === 'suspended').length,
  /** Of the suspended ones. */
  unconfirmed: fleet.filter((agent) => shownStatus(agent) === 'unconfirmed').length,
  offline: fleet.filter(({ status }) => status === 'offline').length,
  /** Of the offline ones: longer than is usual for them, and without a goodbye. */
  silent: fleet.filter(({ status, silent }) => status === 'offline' && silent).length,
})
