import type { Statement } from '../../db/database.ts'

/** Instances that are suspended or resumed in one transaction, with their new control versions. */
export interface LeverChange {
  action: 'suspend' | 'resume'
  instances: readonly { id: string; version: number }[]
  reason: string | null
  containmentId: string | null
  now: number
}

/** Levers outside the agents that each suspension and each resume moves, however it came about. */
export interface ControlLevers {
  /** Statements that follow the change in its batch; none where no lever is configured. */
  statements(change: LeverChange): Statement[]
  /** To be called after the commit. */
  notify(): void
}
