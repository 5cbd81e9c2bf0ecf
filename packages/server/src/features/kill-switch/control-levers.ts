import type { Statement } from '../../db/database.ts'

/** Instances that are suspended or resumed in one transaction, with their new control versions. */
export interface LeverChange {
  action: 'suspend' | 'resume'
  instances: readonly { id: string; version: number }[]
  reason: string | null
  containmentId: string | null
  now: number
}

/** Enforcement outside the agents that every suspension and resume applies, whatever caused it. */
export interface ControlLevers {
  /** Statements to append to the batch of the change; none if no lever is configured. */
  statements(change: LeverChange): Statement[]
  /** Call after the commit. */
  notify(): void
}
