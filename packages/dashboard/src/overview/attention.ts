import type { ContainmentSummary } from '@wardline/contract'
import { eventTypes, type Severity } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { containmentHeading } from '../containments/containment-texts.ts'
import { dayMs, spanText } from '../parts/span.ts'
import type { Brake } from '../service/containments.ts'
import type { Agent } from '../service/fleet.ts'
import { type ShownStatus, shownStatus } from '../service/fleet-counts.ts'
import type { Row } from '../service/live-tail.ts'
import { openContainments } from '../service/open-containments.ts'

export interface AttentionItem {
  key: string
  kind: 'breach' | 'unconfirmed' | 'containment' | 'brake' | 'critical' | 'offline' | 'anomaly' | 'drill'
  severity: Severity
  /** One plain sentence, of words of ours and ids only. */
  headline: string
  /** Text of the reporter, hostile. */
  report: string | undefined
  /** How often and since when, in words of ours. */
  facts: string
  at: string
  agentId: string | undefined
  /** How many agents an item of several stands for. */
  agents?: number
  /** An open alert to acknowledge; where no channel takes alerts there is none. */
  alertId: string | undefined
  eventId: string | undefined
  /** A containment to look at. */
  containmentId?: string
}

interface AttentionFacts {
  fleet: readonly Agent[]
  /** Events of severity breach and critical, newest first. */
  events: readonly Row[]
  /** Events of anomalies that began, rose and ended, newest first. */
  anomalies: readonly Row[]
  /** Agents that did not answer their drills for days, as the service reports them, newest first. */
  overdue: readonly Row[]
  containments: readonly ContainmentSummary[]
  brake: Pick<Brake, 'engaged' | 'engaged_at' | 'engaged_by_event' | 'refused'> | undefined
  /** Status of alerts by id, which is the id of their event. */
  alerts: ReadonlyMap<string, string>
  now: number
}

/** What an event of a known type says in one sentence; of any other only its type is known. */
export function sentenceOf(
  { event_type, by_service, source, instance_id }: Pick<Row, 'event_type' | 'by_service' | 'source' | 'instance_id'>,
  who: string,
): string {
  const known: Record<string, string> = {
    // Agents are known by their keys: without one it is a decoy URL that was fetched.
    honeypot_triggered: instance_id === null ? 'A decoy URL was fetched' : `${who} used a decoy`,
    activity_while_suspended: `${who} works although it is suspended`,
    anomaly_detected: `${who} behaves unlike before`,
    control_version_mismatch: `${who} claims a control version that was never issued`,
    identity_mismatch: `A key was used for ${who}, which is not its own`,
    auth_probing: 'Many invalid keys came from one address',
  }
  const sentence = known[event_type]
  // A caller may report any type: only the service itself is believed to know.
  return by_service && sentence
    ? sentence
    : `${who} reports ${event_type}${by_service || source === who ? '' : ' (as another reporter says)'}`
}

const episodeOf = ({ metadata }: Row): string | undefined => {
  const episode = metadata?.episode
  return typeof episode === 'string' ? episode : undefined
}
/** Of the service itself: a caller's report of that type has no episode that ends. */
const isAnomaly = (row: Row): boolean =>
  row.by_service === true && row.event_type === eventTypes.anomalyDetected && episodeOf(row) !== undefined

/** One line for each anomaly that is not over. */
function anomalyItems({ anomalies, alerts, now }: AttentionFacts): AttentionItem[] {
  const ended = new Set(
    anomalies.flatMap((row) =>
      row.event_type === eventTypes.anomalyEnded && row.by_service ? (episodeOf(row) ?? []) : [],
    ),
  )
  const episodes = new Map<string, Row[]>()
  for (const row of anomalies) {
    const episode = episodeOf(row)
    if (!isAnomaly(row) || episode === undefined || ended.has(episode)) continue
    if (now - Date.parse(row.created_at) > dayMs) continue
    episodes.set(episode, [...(episodes.get(episode) ?? []), row])
  }
  return [...episodes].flatMap(([episode, rows]): AttentionItem[] => {
    const status = rows.map(({ id }) => alerts.get(id)).find((known) => known !== undefined)
    if (status !== undefined && status !== 'open') return []
    const last = rows.find(({ severity }) => severity === 'critical') ?? rows[0]!
    return [
      {
        key: `anomaly ${episode}`,
        kind: last.severity === 'critical' ? 'critical' : 'anomaly',
        severity: last.severity,
        headline: sentenceOf(last, last.instance_id ?? 'An unnamed agent'),
        report: last.description,
        facts: '',
        at: last.created_at,
        agentId: last.instance_id ?? undefined,
        alertId: rows.find(({ id }) => alerts.get(id) === 'open')?.id,
        eventId: last.id,
      },
    ]
  })
}

function itemsOfEvents({ events, alerts, now }: AttentionFacts, kind: 'breach' | 'critical'): AttentionItem[] {
  const groups = new Map<string, Row[]>()
  for (const row of events) {
    if (row.severity !== kind || now - Date.parse(row.created_at) > dayMs || isAnomaly(row)) continue
    // The brake itself says whether it still is.
    if (row.by_service && row.event_type === eventTypes.brakeEngaged) continue
    const status = alerts.get(row.id)
    if (status !== undefined && status !== 'open') continue
    const key = `${row.severity} ${row.instance_id ?? row.source} ${row.event_type} ${row.by_service}`
    groups.set(key, [...(groups.get(key) ?? []), row])
  }
  return [...groups].map(([key, rows]) => {
    const [last] = rows as [Row]
    return {
      key,
      kind,
      severity: last.severity,
      headline: sentenceOf(last, last.instance_id ?? 'An unnamed agent'),
      report: last.description,
      facts: rows.length === 1 ? '' : `${rows.length} times in 24 h`,
      at: last.created_at,
      agentId: last.instance_id ?? undefined,
      alertId: rows.find(({ id }) => alerts.get(id) === 'open')?.id,
      eventId: last.id,
    }
  })
}

const maxNamed = 3
function namesOf(agents: readonly { id: string }[]): string {
  const more = agents.length - maxNamed
  const names = agents.slice(0, maxNamed).map(({ id }) => id)
  return `${names.join(', ')}${more > 0 ? ` and ${more.toLocaleString('en')} more` : ''}`
}

/** Of suspended agents that may still be working: of one, and of several. */
const unconfirmedWords: Partial<Record<ShownStatus, [string, string]>> = {
  pending: ['has not confirmed its suspension', 'have not confirmed their suspension'],
  unconfirmed: ['has not confirmed its suspension in time', 'have not confirmed their suspension in time'],
  delivered: ['received its suspension and cannot confirm it', 'received their suspension and cannot confirm it'],
}

const sinceOf = ({ control }: Agent): string => control.changed_at ?? ''
const maySince = (since: string, now: number, who: string) =>
  `for ${spanText(now - Date.parse(since))}: ${who} may still be working`
const failText = ({ fail_mode }: Agent): string => (fail_mode ? ` · fails ${fail_mode}` : '')
const noAlert = { kind: 'unconfirmed' as const, report: undefined, alertId: undefined, eventId: undefined }

/** A line for each agent, but one for more than can be named: after a stop of the fleet they would be the whole queue. */
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
    // What the service reports of it has an alert, which a colleague may have acknowledged.
    if (shownStatus(agent) !== 'violated' || reported.has(id)) return []
    const at = containment?.since ?? ''
    return [
      {
        ...noAlert,
        key: `unconfirmed ${id}`,
        severity: 'breach',
        headline: `${id} was active although it is suspended`,
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
        ...noAlert,
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
        ...noAlert,
        key: `unconfirmed ${status}`,
        severity,
        headline: `${counted(group.length, 'agent')} ${several}`,
        facts: `${namesOf(group)} · ${maySince(at, now, 'they')}`,
        at,
        agentId: undefined,
        agents: group.length,
      },
    ]
  })
  return [...violated, ...waiting]
}

/** Containments that are not complete although their time is over. */
function containmentItems({ containments, fleet }: AttentionFacts): AttentionItem[] {
  return openContainments(containments, fleet)
    .filter(({ state }) => state !== 'in_progress')
    .map((containment) => ({
      key: `containment ${containment.id}`,
      kind: 'containment' as const,
      severity: 'critical' as const,
      headline: containmentHeading(containment),
      report: containment.reason,
      facts: `${counted(containment.missing_count, 'agent')} missing`,
      at: containment.requested_at,
      agentId: undefined,
      alertId: undefined,
      eventId: undefined,
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
      report: undefined,
      facts: `${counted(brake.refused, 'automatic suspension')} refused`,
      at: brake.engaged_at ?? '',
      agentId: undefined,
      alertId: undefined,
      eventId: brake.engaged_by_event ?? undefined,
    },
  ]
}

/** One line for all agents that nobody knows to be stoppable. */
function drillItems({ overdue, fleet, now }: AttentionFacts): AttentionItem[] {
  const agents = new Map(fleet.map((agent) => [agent.id, agent]))
  const rows = overdue.filter(({ by_service, event_type, instance_id, created_at }) => {
    if (!by_service || event_type !== eventTypes.drillOverdue || now - Date.parse(created_at) > dayMs) return false
    const agent = agents.get(instance_id ?? '')
    // An answer since then ends it.
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
      headline: ids.length === 1 ? `${ids[0]} answers no drill` : `${counted(ids.length, 'agent')} answer no drill`,
      report: undefined,
      facts: `${ids.length === 1 ? '' : `${namesOf(ids.map((id) => ({ id })))} · `}a suspension may not reach ${ids.length === 1 ? 'it' : 'them'}`,
      at: last.created_at,
      agentId: ids.length === 1 ? ids[0] : undefined,
      alertId: undefined,
      eventId: last.id,
    },
  ]
}

/** Agents whose last heartbeats are so close stopped for one cause. */
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
      report: undefined,
      facts: group.length === 1 ? 'no heartbeat since then' : `${namesOf(group)} · one host or network is likely`,
      at: first.last_heartbeat,
      agentId: group.length === 1 ? first.id : undefined,
      alertId: undefined,
      eventId: undefined,
    }
  })
}

/** Everything that needs a person, the worst first. */
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
