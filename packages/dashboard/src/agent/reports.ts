import type { Row } from '../service/live-tail.ts'
import type { MetricPoint } from './timeline.tsx'

/** Names of metrics are an agent's own words: a list to choose from. */
const maxMetrics = 50

/** What session_metrics rows report, by metric, oldest first. Rows are newest first. */
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

interface AnomalyFacts {
  metric: string
  /** One plain sentence behind the name of the metric. */
  sentence: string
}

const rounded = (value: number) => value.toLocaleString('en', { maximumSignificantDigits: 3 })

/** What an anomaly of the service says; undefined for a report of that type by a caller, which nobody judged. */
export function anomalyOf({ by_service, metadata }: Row): AnomalyFacts | undefined {
  const { metric, value, mean, deviation, z, samples } = (metadata ?? {}) as Record<string, unknown>
  const figures = [value, mean, deviation, z, samples]
  if (!by_service || typeof metric !== 'string') return undefined
  if (!figures.every((figure): figure is number => typeof figure === 'number')) return undefined
  const [now, usual, spread, score, count] = figures as [number, number, number, number, number]
  const times = usual > 0 && now / usual >= 2 ? `, ${rounded(now / usual)} times as much` : ''
  const reach = spread > 0 ? ` ± ${rounded(spread)}` : ' each time'
  return {
    metric,
    sentence: `was ${rounded(now)}, usually ${rounded(usual)}${reach}${times} (z = ${rounded(score)}, ${count.toLocaleString('en')} samples)`,
  }
}
