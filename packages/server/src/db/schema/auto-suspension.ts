/** Brake of automatic suspensions: one row, updated by each automatic suspension. */
interface BrakeTable {
  id: number
  /** Incremented by every change, so that concurrent suspensions of several processes conflict. */
  version: number
  /** Null while the brake is not engaged. */
  engaged_at: number | null
  engaged_by_event: string | null
}

/** Suspensions that the engaged brake refused. */
interface BrakeRefusalsTable {
  /** '' for all instances beyond those named individually. */
  instance_id: string
  count: number
  /** Last event that would have suspended the instance. */
  event_id: string
  last_at: number
}

export interface AutoSuspensionTables {
  brake: BrakeTable
  brake_refusals: BrakeRefusalsTable
}
