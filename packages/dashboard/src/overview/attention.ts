import type { ContainmentSummary } from '@wardline/contract'
import { eventTypes, type Severity, titleOf } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { containmentHeading } from '../containments/containment-texts.ts'
import type { Brake } from '../data/containments.ts'
import type { Agent } from '../data/fleet.ts'
import { type ShownStatus, shownStatus } from '../data/fleet-counts.ts'
import type { Row } from '../data/live-tail.ts'
import { openContainments } from '../data/open-containments.ts'
import { dayMs, spanText } from '../ui/span.ts'

export interface AttentionItem {
  key: string
  kind: 'breach' | 'unconfirmed' | 'containment' | 'brake' | 'critical' | 'offline' | 'anomaly' | 'drill'
  severity: Severity
  /** One sentence of fixed words and ids only. */
  headline: string
  /** Untrusted text of the reporter. */
  report?: string
  /** How often and since when, in fixed words. */
  facts: string
  at: string
  agentId?: string | undefined
  /** Number of agents, for an item about several. */
  agents?: number
  /** The open alert to acknowledge. Without an alert channel there are no alerts. */
  alertId?: string | undefined
  /** The containment to open. */
  containmentId?: string
}

interface AttentionFacts {
  fleet: readonly Agent[]
  /** Events of severity breach and critical, newest first. */
  events: readonly Row[]
  /** Events of anomalies that began, worsened or ended, newest first. */
  anomalies: readonly Row[]
  /** The service's reports of agents that have not responded to drills for days, newest first. */
  overdue: readonly Row[]
  containments: readonly ContainmentSummary[]
  brake: Pick<Brake, 'engaged' | 'engaged_at' | 'engaged_by_event' | 'refused'> | undefined
  /** Alert status by id. An alert has the id of its event. */
  alerts: ReadonlyMap<string, string>
  now: number
}

const episodeOf = ({ metadata }: Row): string | undefined => {
  const episode = metadata?.episode
  return typeof episode === 'string' ? episode : undefined
}
/** Only anomalies reported by the service: a caller's report of that type has no episode that could end. */
const isAnomaly = (row: Row): boolean =>
  row.by_service === true && row.event_type === eventTypes.anomalyDetected && episodeOf(row) !== undefined

/** Groups the rows of the last day, each group newest first. Rows without a key are left out. */
function groupsOf(rows: readonly Row[], now: number, keyOf: (row: Row) => string | undefined): [string, Row[]][] {
  const groups = new Map<string, Row[]>()
  for (const row of rows) {
    const key = keyOf(row)
    if (key === undefined || now - Date.parse(row.created_at) > dayMs) continue
    groups.set(key, [...(groups.get(key) ?? []), row])
  }
  return [...groups]
}

const itemOf = (rows: readonly Row[], last: Row, alerts: AttentionFacts['alerts']) => ({
  severity: last.severity,
  headline: titleOf(last),
  report: last.description,
  at: last.created_at,
  agentId: last.instance_id ?? undefined,
  alertId: rows.find(({ id }) => alerts.get(id) === 'open')?.id,
})

/** One line per open anomaly. */
function anomalyItems({ anomalies, alerts, now }: AttentionFacts): AttentionItem[] {
  const ended = new Set(
    anomalies.flatMap((row) =>
      row.event_type === eventTypes.anomalyEnded && row.by_service ? (episodeOf(row) ?? []) : [],
    ),
  )
  const episodes = groupsOf(anomalies, now, (row) => (isAnomaly(row) ? episodeOf(row) : undefined))
  return episodes.flatMap(([episode, rows]): AttentionItem[] => {
    const status = rows.map(({ id }) => alerts.get(id)).find((known) => known !== undefined)
    if (ended.has(episode) || (status !== undefined && status !== 'open')) return []
    const last = rows.find(({ severity }) => severity === 'critical') ?? rows[0]!
    const kind = last.severity === 'critical' ? 'critical' : 'anomaly'
    return [{ ...itemOf(rows, last, alerts), key: `anomaly ${episode}`, kind, facts: '' }]
  })
}

function itemsOfEvents({ events, alerts, now }: AttentionFacts, kind: 'breach' | 'critical'): AttentionItem[] {
  const groups = groupsOf(events, now, (row) => {
    const { id, severity, instance_id, source, event_type, by_service } = row
    const status = alerts.get(id)
    // The brake's own item shows whether it is still engaged.
    const isBrake = by_service && event_type === eventTypes.brakeEngaged
    return severity !== kind || isAnomaly(row) || isBrake || (status !== undefined && status !== 'open')
      ? undefined
      : `${severity} ${instance_id ?? source} ${event_type} ${by_service}`
  })
  return groups.map(([key, rows]) => ({
    ...itemOf(rows, rows[0]!, alerts),
    key,
    kind,
    facts: rows.length === 1 ? '' : `${rows.length} times in 24 h`,
  }))
}

const maxNamed = 3
function namesOf(ids: readonly string[]): string {
  const more = ids.length - maxNamed
  return `${ids.slice(0, maxNamed).join(', ')}${more > 0 ? ` and ${more.toLocaleString('en')} more` : ''}`
}

/** Words for suspended agents that may still be working, for one agent and for several. */
const unconfirmedWords: Partial<Record<ShownStatus, [string, string]>> = {
  pending: ['has not confirmed its suspension', 'have not confirmed their suspension'],
  unconfirmed: ['has not confirmed its suspension in time', 'have not confirmed their suspension in time'],
  delivered: ['received its suspension but cannot confirm it', 'received their suspension but cannot confirm it'],
}

const sinceOf = ({ control }: Agent): string => control.changed_at ?? ''
const maySince = (since: string, now: number, who: string) =>
  `for ${spanText(now - Date.parse(since))}: ${who} may still be working`
const failText = ({ fail_mode }: Agent): string => (fail_mode ? ` · fails ${fail_mode}` : '')

/**
 * One line per agent, or one line for all if there are too many to name: otherwise they would fill the queue after a
 * fleet-wide suspension.
 */
function unconfirmedItems({ fleet, events, now }: AttentionFacts): AttentionItem[] {
  const reported = new Set(
    events.flatMap(({ event_type, by_service, instance_id, created_at }) =>
      by_service && event_type === eventTypes.activityWhileSuspended && now - Date.parse(created_at) <= dayMs
        ? (instance_id ?? [])
        : [],
    ),
  )
  const violated = fleet.flatMap((agent): AttentionItem[] => {
    const { id, containment } = agent
    // The service's own report has an alert, which a colleague may have acknowledged.
    if (shownStatus(agent) !== 'violated' || reported.has(id)) return []
    const at = containment?.since ?? ''
    return [
      {
        kind: 'unconfirmed',
        key: `unconfirmed ${id}`,
        severity: 'breach',
        headline: `${id} was active although suspended`,
        facts: maySince(at, now, 'it') + failText(agent),
        at,
        agentId: id,
      },
    ]
  })
  const waiting = Object.entries(unconfirmedWords).flatMap(([status, [one, several]]): AttentionItem[] => {
    const group = fleet.filter((agent) => shownStatus(agent) === status)
    const severity = 'critical' as const
    if (group.length <= maxNamed)
      return group.map((agent) => ({
        kind: 'unconfirmed' as const,
        key: `unconfirmed ${agent.id}`,
        severity,
        headline: `${agent.id} ${one}`,
        facts: maySince(sinceOf(agent), now, 'it') + failText(agent),
        at: sinceOf(agent),
        agentId: agent.id,
      }))
    const at = group.map(sinceOf).sort()[0]!
    return [
      {
        kind: 'unconfirmed',
        key: `unconfirmed ${status}`,
        severity,
        headline: `${counted(group.length, 'agent')} ${several}`,
        facts: `${namesOf(group.map(({ id }) => id))} · ${maySince(at, now, 'they')}`,
        at,
        agents: group.length,
      },
    ]
  })
  return [...violated, ...waiting]
}

/** Containments that are incomplete although their time is up. */
function containmentItems({ containments, fleet }: AttentionFacts): AttentionItem[] {
  return openContainments(containments, fleet)
    .filter(({ state }) => state !== 'in_progress')
    .map((containment) => ({
      key: `containment ${containment.id}`,
      kind: 'containment' as const,
      severity: 'critical' as const,
      headline: containmentHeading(containment),
      report: containment.reason,
      facts: containment.missing_count > 0 ? `not confirmed by ${counted(containment.missing_count, 'agent')}` : '',
      at: containment.requested_at,
      containmentId: containment.id,
    }))
}

function brakeItems({ brake }: AttentionFacts): AttentionItem[] {
  if (!brake?.engaged) return []
  return [
    {
      key: 'brake',
      kind: 'brake' as const,
      severity: 'critical' as const,
      headline: 'The brake is engaged: nothing is suspended automatically',
      facts: `${counted(brake.refused, 'automatic suspension')} refused`,
      at: brake.engaged_at ?? '',
    },
  ]
}

/** One line for all agents that are not known to be stoppable. */
function drillItems({ overdue, fleet, now }: AttentionFacts): AttentionItem[] {
  const agents = new Map(fleet.map((agent) => [agent.id, agent]))
  const rows = overdue.filter(({ by_service, event_type, instance_id, created_at }) => {
    if (!by_service || event_type !== eventTypes.drillOverdue || now - Date.parse(created_at) > dayMs) return false
    const agent = agents.get(instance_id ?? '')
    // A later response to a drill ends the item.
    return agent !== undefined && (agent.last_proven_stoppable_at ?? '') < created_at && agent.status !== 'offline'
  })
  const ids = [...new Set(rows.flatMap(({ instance_id }) => instance_id ?? []))]
  const [last] = rows
  if (!last) return []
  return [
    {
      key: 'drills',
      kind: 'drill' as const,
      severity: 'warning' as const,
      headline: `${ids.length === 1 ? `${ids[0]} does` : `${counted(ids.length, 'agent')} do`} not answer drills`,
      facts: `${ids.length === 1 ? '' : `${namesOf(ids)} · `}a suspension may not reach ${ids.length === 1 ? 'it' : 'them'}`,
      at: last.created_at,
      agentId: ids.length === 1 ? ids[0] : undefined,
    },
  ]
}

/** Agents whose last heartbeats are within this time are assumed to have stopped for the same reason. */
const togetherMs = 30_000

function offlineItems({ fleet }: AttentionFacts): AttentionItem[] {
  const offline = fleet
    .filter(({ status, silent }) => status === 'offline' && silent)
    .sort((one, other) => Date.parse(one.last_heartbeat) - Date.parse(other.last_heartbeat))
  const groups: Agent[][] = []
  for (const agent of offline) {
    const last = groups.at(-1)?.at(-1)
    if (last && Date.parse(agent.last_heartbeat) - Date.parse(last.last_heartbeat) < togetherMs)
      groups.at(-1)!.push(agent)
    else groups.push([agent])
  }
  return groups.reverse().map((group) => {
    const [first] = group as [Agent]
    return {
      key: `offline ${first.id} ${first.last_heartbeat}`,
      kind: 'offline' as const,
      severity: 'warning' as const,
      headline: group.length === 1 ? `${first.id} is silent` : `${counted(group.length, 'agent')} went silent together`,
      facts:
        group.length === 1
          ? 'no heartbeat since then'
          : `${namesOf(group.map(({ id }) => id))} · likely one host or network`,
      at: first.last_heartbeat,
      agentId: group.length === 1 ? first.id : undefined,
    }
  })
}

/** Returns everything that needs a person, worst first. */
export function attentionOf(facts: AttentionFacts): AttentionItem[] {
  const newestFirst = (one: AttentionItem, other: AttentionItem) => Date.parse(other.at) - Date.parse(one.at)
  const [critical = [], others = []] = [true, false].map((isCritical) =>
    anomalyItems(facts).filter(({ kind }) => (kind === 'critical') === isCritical),
  )
  return [
    ...itemsOfEvents(facts, 'breach').sort(newestFirst),
    ...brakeItems(facts),
    ...containmentItems(facts),
    ...unconfirmedItems(facts).sort(newestFirst),
    ...[...itemsOfEvents(facts, 'critical'), ...critical].sort(newestFirst),
    ...offlineItems(facts),
    ...drillItems(facts),
    ...others.sort(newestFirst),
  ]
}
