import { alertTypes, severities } from '@wardline/contract'
import { counted } from '@wardline/text'
import { isoTime } from '../../../clock.ts'
import type { AlertFacts, OwnAlert } from './alert.ts'
import type { OverflowRow } from './queries.ts'

const minuteMs = 60_000
/** Ten a second, of each severity: an agent at work has fewer events, and a receiver that keeps all could not take more. */
const maxReported = 600
/** Alerts of the service itself about one instance, of one type: a decoy can be touched as often as an attacker likes. */
const maxOwn = 60
/** Instances that one key touches decoys for: it may name any under its prefix. As many as a channel sends a minute. */
const maxTouchedFor = 20
/** Instances counted one by one within a minute; those beyond share a bound, and what they report is counted together. */
const maxInstances = 10_000

/**
 * Alerts that were counted, not written. `instance_id` is empty for none, and for all beyond the instances that are
 * counted one by one; `event_type` is empty for reports.
 */
export type Overflow = Omit<OverflowRow, 'count'>

/**
 * How many alerts of an instance this process writes within a minute. A bound of memory, not of the database: each
 * process has its own, and a restart begins it again.
 */
export class FloodBound {
  #minute = 0
  #reported = new Map<string, number[]>()
  #own = new Map<string, number>()
  #touchedFor = new Map<string, Set<string>>()

  /**
   * Undefined when the alert is within the bound, else what it is to be counted as. `touchedBy`: the key that touched a
   * decoy.
   */
  beyond(
    { severity, event_type, instance_id, by_service }: AlertFacts,
    now: number,
    touchedBy?: string,
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
      // Beyond that memory the service's own alerts are not limited: invented names must not crowd them out.
      if (count > 0 || this.#own.size < maxInstances) this.#own.set(name, count + 1)
      return undefined
    }
    const { name, counts } = this.#countsOf(instance_id ?? '')
    const rank = severities.indexOf(severity)
    if (counts[rank]! >= maxReported) return { minute, by_service, instance_id: name, event_type: '', severity }
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

/** The rows that count these. */
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

/** Instances of which a minute is summarized one by one, those with the most first; the others are summarized together. */
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
    // More of the service's own alerts joins these.
    event_type: by_service === 1 ? event_type : alertTypes.alertsSummarized,
    instance_id: instance_id === '' ? null : instance_id,
    description: `${alerts}${by_service === 1 ? ` and type ${event_type}` : ''}${of} ${reason}`,
  }
}

/** One alert for each row, for the largest; of the rest one for each minute, type and severity. No count is lost. */
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
