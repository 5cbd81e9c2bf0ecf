import type { Agent } from './fleet.ts'

export const countsOf = (fleet: readonly Agent[]) => ({
  all: fleet.length,
  active: fleet.filter(({ status }) => status === 'active').length,
  suspended: fleet.filter(({ status }) => status === 'suspended').length,
  offline: fleet.filter(({ status }) => status === 'offline').length,
})
