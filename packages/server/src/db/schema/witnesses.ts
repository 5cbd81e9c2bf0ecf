import type { MissingWitness } from '@wardline/contract'

/** Calls of an agent that one witness has not reported: the last episode, open while `ended_at` is null. */
interface ReportMismatchesTable {
  instance_id: string
  missing: MissingWitness
  severity: 'warning' | 'critical'
  since: number
  calls: number
  /** JSON object of calls by tool. */
  tools: string
  /** When the event was stored. */
  reported_at: number
  ended_at: number | null
}

export interface WitnessTables {
  report_mismatches: ReportMismatchesTable
}
