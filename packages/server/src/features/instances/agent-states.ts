import type { Db } from '../../db/database.ts'
import { findAgents } from './queries.ts'

/** The agent's state as alerts show it. */
export interface AgentState {
  /** The display name that the agent gives itself. */
  name: string
  /** Null unless suspended. `at`: epoch milliseconds; `confirmed`: the agent reported that it stopped. */
  suspension: { at: number | null; reason: string | null; confirmed: boolean } | null
}

/** Reads the states of these instances; unknown ids are missing in the result. */
export async function readAgentStates(db: Db, ids: readonly string[]): Promise<Map<string, AgentState>> {
  if (ids.length === 0) return new Map()
  const rows = await findAgents(db, ids)
  return new Map(
    rows.map((row) => {
      const { id, name, control_changed_at: at, control_version, applied_version, suspension_reason: reason } = row
      const confirmed = applied_version !== null && applied_version >= control_version
      const suspension = row.suspended === 1 ? { at, reason, confirmed } : null
      return [id, { name, suspension }]
    }),
  )
}
