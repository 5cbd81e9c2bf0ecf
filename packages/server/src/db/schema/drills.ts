/** A drill that an operator started. */
interface DrillsTable {
  id: string
  /** Key id of the operator. */
  actor: string
  /** JSON of the selector. */
  selector: string
  selected: number
  requested_at: number
  /** Time at which all agents were recorded; may stay null after a crash. */
  ready_at: number | null
  completed_at: number | null
  /** JSON of the final counts; the rows in drill_asks are then removed. */
  report: string | null
  /** JSON array of the operators' tags to whose agents the operator was limited; null = all agents. */
  team: string | null
}

/** A drill message to one agent, which asks whether a suspension would reach it. */
interface DrillAsksTable {
  /** `schedule` for scheduled drills. */
  drill_id: string
  instance_id: string
  /** Single use; null until sent. */
  nonce: string | null
  asked_at: number | null
  answered_at: number | null
  /** Time of the answer of the agent's supervisor. */
  supervisor_at: number | null
  /** Processes that the supervisor would hold, and those that it could not. */
  processes: number | null
  unreachable: number | null
  /** Scheduled drills in a row that only the agent answered, although it has a supervisor; null: none. */
  supervisor_missed: number | null
  /** When a model gateway last answered for the agent, and its open calls in all gateways. */
  model_at: number | null
  model_calls: number | null
  /** Why the drill was not sent. */
  reason: 'offline' | 'no_control_stream' | 'does_not_understand' | 'not_sent' | null
}

export interface DrillTables {
  drills: DrillsTable
  drill_asks: DrillAsksTable
}
