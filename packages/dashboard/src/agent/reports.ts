import type { Row } from '../data/live-tail.ts'

export interface MetricPoint {
  at: number
  value: number
}

/** Agents choose the metric names, so their number is limited to a list to choose from. */
const maxMetrics = 50

/** Returns the values of session_metrics rows by metric, oldest first. Rows are newest first. */
export function metricsOf(rows: readonly Row[]): Map<string, MetricPoint[]> {
  const metrics = new Map<string, MetricPoint[]>()
  for (const { description, created_at } of rows.toReversed()) {
    let figures: unknown
    try {
      figures = JSON.parse(description)
    } catch {
      continue
    }
    if (figures === null || typeof figures !== 'object') continue
    for (const [name, value] of Object.entries(figures)) {
      if (typeof value !== 'number' || !Number.isFinite(value)) continue
      const points = metrics.get(name)
      if (points) points.push({ at: Date.parse(created_at), value })
      else if (metrics.size < maxMetrics) metrics.set(name, [{ at: Date.parse(created_at), value }])
    }
  }
  return metrics
}

/**
 * Returns the metric of an anomaly found by the service; undefined for a caller's report of that type, which nothing
 * has verified.
 */
export function anomalyMetric({ by_service, metadata }: Row): string | undefined {
  const metric = metadata?.metric
  return by_service && typeof metric === 'string' ? metric : undefined
}
