import { type EventRow, type Severity, severities } from '@wardline/contract'
import { counted, sanitize } from '@wardline/text'
import type { PlantedDecoy } from './steps.ts'
import type { TrafficFigures } from './traffic.ts'

export interface Figures extends TrafficFigures {
  seconds: number
  agents: number
  suspended: number
  /** Last error that the SDK of an agent reported. */
  lastFailure: string | undefined
  /** Events that the agents sent and the service stored. */
  events: Record<Severity, number>
}

/** Findings of the service. Their texts are not trusted. */
export interface Findings {
  anomalies: EventRow[]
  breaches: EventRow[]
}

export interface Summary extends Figures {
  seed: number
  /** Steps of the story that were skipped because the run was too short. */
  stepsLeftOut: number
  decoys: Pick<PlantedDecoy, 'id' | 'type' | 'matched'>[]
  /** Undefined if the key may not read events or the service no longer responds. */
  findings: Findings | undefined
}

const round = (value: number) => Math.round(value * 10) / 10
const perSecond = ({ answered, seconds }: Figures) => (seconds > 0 ? round(answered / seconds) : 0)
const sum = (events: Figures['events']) => severities.reduce((total, severity) => total + events[severity], 0)
const breachesOf = (id: string, { breaches }: Findings) =>
  breaches.filter((row) => row.metadata?.honeypot_id === id).length

export function clockText(seconds: number): string {
  const whole = Math.floor(seconds)
  const parts = [Math.floor(whole / 60) % 60, whole % 60].map((part) => String(part).padStart(2, '0'))
  return [...(whole >= 3600 ? [Math.floor(whole / 3600)] : []), ...parts].join(':')
}

/** Formats the figures as one line. */
export function figuresLine(figures: Figures): string {
  const { agents, suspended, events, latencyMs, failed, throttled } = figures
  return [
    `${counted(agents, 'agent')}${suspended > 0 ? `, ${suspended} suspended` : ''}`,
    counted(sum(events), 'event'),
    `${failed} failed`,
    ...(throttled > 0 ? [`throttled ${counted(throttled, 'time')}`] : []),
    `${perSecond(figures)} requests/s`,
    `p99 ${round(latencyMs.p99)} ms`,
  ].join(' · ')
}

/** Converts the summary to JSON; unknown values are null. */
export function summaryJson(summary: Summary) {
  const { seed, seconds, agents, heartbeats, events, decoys, findings, stepsLeftOut } = summary
  return {
    seed,
    seconds: round(seconds),
    agents,
    heartbeats,
    events,
    decoys: decoys.map(({ id, type, matched }) => ({
      id,
      type,
      touched: matched !== undefined,
      matched: matched ?? false,
      breaches: findings ? breachesOf(id, findings) : null,
    })),
    anomalies: findings
      ? findings.anomalies.map(({ instance_id, severity, description }) => ({ instance_id, severity, description }))
      : null,
    requests: summary.answered + summary.failed,
    requestsPerSecond: perSecond(summary),
    latencyMs: summary.latencyMs,
    throttled: summary.throttled,
    failed: summary.failed,
    lastFailure: summary.lastFailure ?? null,
    stepsLeftOut,
  }
}

const anomaliesShown = 5

function findingLines({ decoys, findings }: Summary): string[] {
  if (!findings) return ['Findings    not available: the service did not respond, or the key lacks permission']
  const decoyLines = decoys.map(({ id, type, matched }) => {
    const what = type === 'api_key' ? 'decoy key' : 'decoy file'
    const breaches = breachesOf(id, findings)
    const outcome =
      matched === undefined ? 'planted, not touched' : `touched, ${breaches} breach${breaches === 1 ? '' : 'es'}`
    return `Decoy       ${what} ${outcome}`
  })
  const { anomalies } = findings
  const shown = anomalies
    .slice(0, anomaliesShown)
    .map((row) => `            ${sanitize(`${row.instance_id} ${row.severity}: ${row.description}`)}`)
  const more = anomalies.length > anomaliesShown ? [`            and ${anomalies.length - anomaliesShown} more`] : []
  return [...decoyLines, `Anomalies   ${anomalies.length}`, ...shown, ...more]
}

/** Formats the summary as text. */
export function summaryText(summary: Summary): string {
  const { seed, seconds, agents, heartbeats, events, latencyMs, failed, throttled, lastFailure, stepsLeftOut } = summary
  const bySeverity = severities.map((severity) => `${events[severity]} ${severity}`).join(', ')
  return [
    `Fleet       ${counted(agents, 'agent')}, ${round(seconds)} s, seed ${seed}`,
    `Heartbeats  ${heartbeats}`,
    `Events      ${sum(events)}: ${bySeverity}`,
    ...findingLines(summary),
    `Requests    ${summary.answered + failed}, ${perSecond(summary)} a second, p50 ${latencyMs.p50} ms, p99 ${latencyMs.p99} ms`,
    `Failures    ${failed}${lastFailure === undefined ? '' : `, the last one: ${sanitize(lastFailure)}`}`,
    ...(throttled > 0 ? [`Throttling  throttled ${counted(throttled, 'time')}`] : []),
    ...(stepsLeftOut > 0 ? [`Left out    ${counted(stepsLeftOut, 'step')} of the story: the run was too short`] : []),
  ].join('\n')
}
