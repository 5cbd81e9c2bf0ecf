import { alertTypes, severities } from '@wardline/contract'
import { counted } from '@wardline/text'
import { isoTime } from '../../../clock.ts'
import type { AlertFacts, OwnAlert } from './alert.ts'
import type { OverflowRow } from './queries.ts'

const minuteMs = 60_000
/** Reported alerts per instance, severity and minute: ten a second, more than a working agent has. */
const maxReported = 600
/** The same while there are no channels, and so no machines that receive each: people look at no more than one a second. */
const maxListed = 60
/** Own alerts per instance, type and minute: an attacker can touch a decoy any number of times. */
const maxOwn = 60
/** Instances per key whose decoy hits alert individually, because a prefix key may name any: as many as a channel sends a minute. */
const maxTouchedFor = 20
/** Instances counted individually within a minute. Further ones share one limit and one count. */
const maxInstances = 10_000

/**
 * Alerts that were counted instead of written. `instance_id` is empty for none, and for all instances beyond those counted
 * individually; `event_type` is empty for reports.
 */
export type Overflow = Omit<OverflowRow, 'count'>

/**
 * Limits the alerts that this process writes per instance and minute. The counters are in memory: each process has
 * separate ones, and a restart resets them.
 */
export class FloodBound {
  #minute = 0
  #reported = new Map<string, number[]>()
  #own = new Map<string, number>()
  #touchedFor = new Map<string, Set<string>>()

  /**
   * Returns undefined if the alert is within the limit, else the key under which to count it. `touchedBy`: the API key
   * that touched a decoy. `isReceived`: whether there are channels.
   */
  beyond(
    { severity, event_type, instance_id, by_service }: AlertFacts,
    now: number,
    { touchedBy, isReceived = true }: { touchedBy?: string | undefined; isReceived?: boolean } = {},
  ): Overflow | undefined {
    const minute = now - (now % minuteMs)
    if (minute !== this.#minute) {
      this.#minute = minute
      this.#reported = new Map()
      this.#own = new Map()
      this.#touchedFor = new Map()
    }
    if (by_service === 1) {
      if (touchedBy !== undefined && !this.#hasRoomFor(touchedBy, instance_id ?? '')) {
        return { minute, by_service, instance_id: '', event_type, severity }
      }
      const name = `${event_type} ${instance_id ?? ''}`
      const count = this.#own.get(name) ?? 0
      if (count >= maxOwn) return { minute, by_service, instance_id: instance_id ?? '', event_type, severity }
      // If the memory is full, own alerts are not limited: invented names must not displace them.
      if (count > 0 || this.#own.size < maxInstances) this.#own.set(name, count + 1)
      return undefined
    }
    const { name, counts } = this.#countsOf(instance_id ?? '')
    const rank = severities.indexOf(severity)
    if (counts[rank]! >= (isReceived ? maxReported : maxListed))
      return { minute, by_service, instance_id: name, event_type: '', severity }
    counts[rank]! += 1
    return undefined
  }

  #hasRoomFor(key: string, instance: string): boolean {
    const known = this.#touchedFor.get(key) ?? new Set()
    if (known.size < maxTouchedFor) this.#touchedFor.set(key, known.add(instance))
    return known.has(instance)
  }

  #countsOf(name: string): { name: string; counts: number[] } {
    const known = this.#reported.get(name)
    if (known) return { name, counts: known }
    if (this.#reported.size >= maxInstances && name !== '') return this.#countsOf('')
    const counts = severities.map(() => 0)
    this.#reported.set(name, counts)
    return { name, counts }
  }
}

/** Returns the rows that count these alerts. */
export function countOverflow(beyond: readonly Overflow[]): OverflowRow[] {
  const rows = new Map<string, OverflowRow>()
  for (const one of beyond) {
    const name = `${one.severity} ${one.event_type} ${one.instance_id} ${one.by_service}`
    const known = rows.get(name)
    if (known) known.count += 1
    else rows.set(name, { ...one, count: 1 })
  }
  return [...rows.values()]
}

/** Instances summarized individually per minute, those with the most alerts first; the others together. */
const maxSummaries = 50

const minuteOf = (at: number): string => `${isoTime(at).slice(0, 16).replace('T', ' ')} UTC`

function summaryOf(
  { minute, by_service, instance_id, event_type, severity, count }: OverflowRow,
  of: string,
): OwnAlert {
  const alerts = `${counted(count, 'more alert')} of severity ${severity}`
  const reason = `within the minute of ${minuteOf(minute)}: too many to list separately; the events are stored.`
  return {
    severity,
    // Further own alerts join this summary.
    event_type: by_service === 1 ? event_type : alertTypes.alertsSummarized,
    instance_id: instance_id === '' ? null : instance_id,
    description: `${alerts}${by_service === 1 ? ` and type ${event_type}` : ''}${of} ${reason}`,
  }
}

/** Builds one alert per row for the largest rows, and one per minute, type and severity for the rest. No count is lost. */
export function summarize(rows: readonly OverflowRow[]): OwnAlert[] {
  const largest = rows.toSorted(
    (one, other) => other.count - one.count || (one.instance_id < other.instance_id ? -1 : 1),
  )
  const kind = ({ minute, by_service, event_type, severity }: OverflowRow) =>
    `${minute} ${by_service} ${event_type} ${severity}`
  const rest = Map.groupBy(largest.slice(maxSummaries), kind)
  const together = [...rest.values()].map((others) => {
    const count = others.reduce((sum, row) => sum + row.count, 0)
    return summaryOf({ ...others[0]!, instance_id: '', count }, ` of ${others.length} other instances`)
  })
  return [...largest.slice(0, maxSummaries).map((row) => summaryOf(row, '')), ...together]
}
