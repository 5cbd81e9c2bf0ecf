/** Figures that an agent reports about its sessions, by name. */
export type SessionMetrics = Readonly<Record<string, number>>

/** An instance has one baseline per metric; the limit prevents a report from filling the table. */
const maxMetrics = 64
const maxNameLength = 100

/** What the service itself measures of an agent's calls of models: tokens, and cost in millionths of a USD. */
export const measuredMetrics = { tokens: 'tokens_per_5min', cost: 'cost_per_5min' } as const

/** Returns the first metric that only the service may report; undefined if there is none. */
export const measuredMetricIn = (metrics: SessionMetrics): string | undefined =>
  Object.values(measuredMetrics).find((name) => Object.hasOwn(metrics, name))

/**
 * Reads the description of a `session_metrics` event. Returns the metrics by name, or a sentence that says what is
 * wrong with them. A name that a database cannot store or that could reach a prototype is refused here.
 */
export function parseSessionMetrics(description: string): SessionMetrics | string {
  const metrics = parseObject(description)
  if (metrics === null) return 'The description of session_metrics must be a JSON object of numbers.'
  const entries = Object.entries(metrics)
  if (entries.length > maxMetrics)
    return `The description of session_metrics may contain at most ${maxMetrics} metrics.`
  for (const [name, value] of entries) {
    const length = [...name].length
    if (length === 0 || length > maxNameLength) {
      return `The description of session_metrics must have names of 1 to ${maxNameLength} characters.`
    }
    if (name === '__proto__' || name.includes('\0') || !name.isWellFormed()) {
      return `The description of session_metrics must not have the name ${JSON.stringify(name)}.`
    }
    if (typeof value !== 'number' || !Number.isFinite(value)) {
      return `The description of session_metrics must contain finite numbers; ${JSON.stringify(name)} is not one.`
    }
  }
  return metrics as SessionMetrics
}

function parseObject(text: string): object | null {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && !Array.isArray(value) ? value : null
  } catch {
    return null
  }
}
