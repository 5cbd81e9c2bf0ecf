import { eventTypes } from '@wardline/contract'
import type { Db } from '../../db/database.ts'
import { readEvents } from './queries.ts'
import { parseSessionMetrics, type SessionMetrics } from './session-metrics.ts'

interface MetricReport {
  at: number
  metrics: SessionMetrics
}

/** Windows of an instance's events to search. An agent with many tool calls has few reports in each. */
const maxWindows = 4

/** Reads the newest session metrics of an instance, oldest first; fewer if many other events are in between. */
export async function readMetricReports(db: Db, instanceId: string, limit: number): Promise<MetricReport[]> {
  const filter = { instance_id: instanceId, event_type: eventTypes.sessionMetrics }
  const reports: MetricReport[] = []
  let before = Number.MAX_SAFE_INTEGER
  for (let window = 0; window < maxWindows && reports.length < limit; window++) {
    const bounds = { after: 0, before, from: 0, to: Number.MAX_SAFE_INTEGER, limit: limit - reports.length }
    const { rows, lookedDownTo } = await readEvents(db, filter, bounds)
    for (const { created_at, description } of rows) {
      const metrics = parseSessionMetrics(description)
      if (typeof metrics !== 'string') reports.push({ at: created_at, metrics })
    }
    if (lookedDownTo === undefined) break
    before = lookedDownTo
  }
  return reports.reverse()
}
