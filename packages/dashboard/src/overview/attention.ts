import type { ContainmentSummary, FleetState, Problem, ProblemList } from '@wardline/contract'
import {
  descriptionOf,
  eventTypes,
  limits,
  offlineAfterMs,
  type Severity,
  serviceSource,
  severities,
  titleOf,
  titleOfProblem,
} from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { containmentHeading } from '../containments/containment-texts.ts'
import type { Brake } from '../data/containments.ts'
import type { Agent } from '../data/fleet.ts'
import { type Counts, type ShownStatus, shownStatus } from '../data/fleet-counts.ts'
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
  /** When it began, for an item about several. */
  firstAt?: string
  agentId?: string | undefined
  /** That agent, if it is still in the fleet. */
  agent?: Agent | undefined
  /** Number of agents, for an item about several. */
  agents?: number
  /** Their ids; of very many only some. */
  agentIds?: readonly string[]
  /** The type of their events. */
  eventType?: string
  /** Those of them that are in the fleet and not suspended. */
  running?: readonly string[]
  /** The open alert to acknowledge. */
  alertId?: string | undefined
  /** The containment to open. */
  containmentId?: string
}

type WaitingAgents = FleetState['waiting'][number]

interface AttentionFacts {
  counts: Pick<Counts, 'unconfirmed' | 'partial' | 'unresumed'>
  /** Agents that the lists below name, as far as they are known. */
  agents: readonly Agent[]
  /** Suspended agents that may still be working, and silent ones, counted by the service. */
  waiting: FleetState['waiting']
  silent: FleetState['silent']
  /** Critical events and breaches, counted by the service. */
  problems: ProblemList
  /** Events of anomalies that began, worsened or ended, newest first. */
  anomalies: readonly Row[]
  /** The service's reports of agents that have not responded to drills for days, newest first. */
  overdue: readonly Row[]
  /** The service's reports of agents that were active while suspended, newest first. */
  violations: readonly Row[]
  /** Whether these lists have older rows of the last day that are not loaded. */
  hasMore: { anomalies: boolean; overdue: boolean }
  containments: readonly ContainmentSummary[]
  brake: Pick<Brake, 'engaged' | 'engaged_at' | 'refused'> | undefined
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
function groupsOf(rows: readonly Row[], now: number, keyOf: (row: Row) => string | undefined) {
  const recent = rows.filter(({ created_at }) => now - Date.parse(created_at) <= dayMs)
  return [...Map.groupBy(recent, keyOf)].flatMap(([key, group]) => (key === undefined ? [] : [{ key, group }]))
}

/** The title that an event of the service has about the same. */
const foundTitle = (event_type: string, instance_id: string | null = null) =>
  titleOf({ event_type, instance_id, by_service: true, source: serviceSource })

const itemOf = (rows: readonly Row[], last: Row, alerts: AttentionFacts['alerts']) => ({
  severity: last.severity,
  headline: titleOf(last),
  report: descriptionOf(last),
  at: last.created_at,
  agentId: last.instance_id ?? undefined,
  alertId: rows.find(({ id }) => alerts.get(id) === 'open')?.id,
})

/** Whether a colleague acknowledged or resolved the newest alert of the rows. */
function isHandled(rows: readonly Row[], alerts: AttentionFacts['alerts']): boolean {
  const status = rows.map(({ id }) => alerts.get(id)).find((known) => known !== undefined)
  return status !== undefined && status !== 'open'
}

/** "more than 12 agents", where only some were counted. */
const agentsText = (count: number, isMore: boolean) => `${isMore ? 'More than ' : ''}${counted(count, 'agent')}`

/** One line per open anomaly, or one for all of a severity if there are too many to name. */
function anomalyItems({ anomalies, alerts, hasMore, now }: AttentionFacts): AttentionItem[] {
  const ended = new Set(
    anomalies.flatMap((row) =>
      row.event_type === eventTypes.anomalyEnded && row.by_service ? (episodeOf(row) ?? []) : [],
    ),
  )
  const episodes = groupsOf(anomalies, now, (row) => (isAnomaly(row) ? episodeOf(row) : undefined))
  const items = episodes.flatMap(({ key, group }): AttentionItem[] => {
    if (ended.has(key) || isHandled(group, alerts)) return []
    const last = group.find(({ severity }) => severity === 'critical') ?? group[0]!
    const kind = last.severity === 'critical' ? 'critical' : 'anomaly'
    return [{ ...itemOf(group, last, alerts), key: `anomaly ${key}`, kind, facts: '' }]
  })
  return [...Map.groupBy(items, ({ kind }) => kind)].flatMap(([kind, group]): AttentionItem[] => {
    const agentIds = [...new Set(group.flatMap(({ agentId }) => agentId ?? []))]
    if (agentIds.length <= maxNamed) return group
    const times = group.map(({ at }) => at).sort()
    return [
      {
        key: `anomalies ${kind}`,
        kind,
        severity: group[0]!.severity,
        headline: `${agentsText(agentIds.length, hasMore.anomalies)} behave unusually`,
        facts: `${group.length.toLocaleString('en')} anomalies`,
        firstAt: times[0]!,
        at: times.at(-1)!,
        agents: agentIds.length,
        agentIds,
        eventType: eventTypes.anomalyDetected,
      },
    ]
  })
}

function problemItem(problem: Problem, isMore: boolean): AttentionItem {
  const { severity, by_service, event_type, types, agents, instances, events, description } = problem
  const isOfMany = agents > 1
  const times = `${events.toLocaleString('en')} ${isOfMany ? 'events' : 'times in 24 h'}`
  return {
    key: `${severity} ${isOfMany ? '' : (instances[0] ?? problem.source)} ${types > 1 ? '' : event_type} ${by_service}`,
    kind: severity,
    severity,
    headline: titleOfProblem(problem, isMore),
    facts: events === 1 ? '' : times,
    ...(description === null ? {} : { report: descriptionOf({ event_type, description }) }),
    at: problem.last_at,
    ...(isOfMany
      ? { firstAt: problem.first_at, agents, agentIds: instances, eventType: event_type }
      : { agentId: instances[0], alertId: problem.open_alert ?? undefined }),
  }
}

/** One line per problem. The brake and anomalies have separate lines, which show whether they are over. */
function problemItems({ problems: { problems, complete } }: AttentionFacts): AttentionItem[] {
  const others: string[] = [eventTypes.brakeEngaged, eventTypes.anomalyDetected]
  return problems
    .filter(({ by_service, event_type }) => !(by_service && others.includes(event_type)))
    .map((problem) => problemItem(problem, !complete))
}

/** More than these have one line, which names only some. */
export const maxNamed = 3
function namesOf(ids: readonly string[], count = ids.length): string {
  const more = count - maxNamed
  return `${ids.slice(0, maxNamed).join(', ')}${more > 0 ? ` and ${more.toLocaleString('en')} more` : ''}`
}

/** Words for suspended agents that may still be working, for one agent and for several. */
const unconfirmedWords: Partial<Record<WaitingAgents['state'], [string, string]>> = {
  pending: ['has not confirmed its suspension', 'have not confirmed their suspension'],
  unconfirmed: ['has not confirmed its suspension in time', 'have not confirmed their suspension in time'],
  delivered: ['received its suspension but cannot confirm it', 'received their suspension but cannot confirm it'],
}

/**
 * One line per agent, or one line for all if there are too many to name: otherwise they would fill the queue after a
 * fleet-wide suspension.
 */
function unconfirmedItems({ waiting, violations, now }: AttentionFacts): AttentionItem[] {
  const kind = 'unconfirmed'
  const may = (at: string, who: string) => `for ${spanText(now - Date.parse(at))}: ${who} may still be working`
  const itemOfOne = (agent: WaitingAgents['first'][number], severity: Severity, words: string): AttentionItem => ({
    kind,
    key: `${kind} ${agent.id}`,
    severity,
    headline: `${agent.id} ${words}`,
    facts: may(agent.since, 'it') + (agent.fail_mode ? ` · fails ${agent.fail_mode}` : ''),
    at: agent.since,
    agentId: agent.id,
  })
  const reports = violations.filter((row) => row.by_service)
  // The service's own report has an alert, which a colleague may have acknowledged.
  const reported = groupsOf(reports, now, (row) => row.instance_id ?? undefined).map(({ key }) => key)
  const groupOf = (state: string) => waiting.find((group) => group.state === state)
  const violated = (groupOf('violated')?.first ?? [])
    .filter(({ id }) => !reported.includes(id))
    .map((agent) => itemOfOne(agent, 'breach', 'was active although suspended'))
  const { agents: all = 0, first: listed = [] } = groupOf('violated') ?? {}
  const others = all - listed.length
  if (others > 0)
    violated.push({
      kind,
      key: `${kind} violated`,
      severity: 'breach',
      headline: `${counted(others, 'more agent')} ${others === 1 ? 'was' : 'were'} active although suspended`,
      facts: may(groupOf('violated')!.since, 'they'),
      at: groupOf('violated')!.since,
      agents: others,
    })
  const unconfirmed = Object.entries(unconfirmedWords).flatMap(([state, [one, several]]): AttentionItem[] => {
    const { agents, since: at, first } = groupOf(state) ?? { agents: 0, since: '', first: [] }
    if (agents <= maxNamed) return first.map((agent) => itemOfOne(agent, 'critical', one))
    const ids = first.slice(0, maxNamed).map(({ id }) => id)
    return [
      {
        kind,
        key: `${kind} ${state}`,
        severity: 'critical',
        headline: `${counted(agents, 'agent')} ${several}`,
        facts: `${namesOf(ids, agents)} · ${may(at, 'they')}`,
        at,
        agents,
      },
    ]
  })
  return [...violated, ...unconfirmed]
}

/** Containments that are incomplete although their time is up. */
function containmentItems({ containments, counts }: AttentionFacts): AttentionItem[] {
  return openContainments(containments, counts)
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
      headline: foundTitle(eventTypes.brakeEngaged),
      facts: `${counted(brake.refused, 'automatic suspension')} refused`,
      at: brake.engaged_at ?? '',
    },
  ]
}

/** One line for all agents that are not known to be stoppable. */
function drillItems({ overdue, agents: known, hasMore, now }: AttentionFacts): AttentionItem[] {
  const agents = new Map(known.map((agent) => [agent.id, agent]))
  const reports = groupsOf(overdue, now, ({ by_service, event_type, instance_id, created_at }) => {
    const agent = agents.get(instance_id ?? '')
    if (!by_service || event_type !== eventTypes.drillOverdue || !agent || agent.status === 'offline') return undefined
    // A later response to a drill ends the item.
    return (agent.last_proven_stoppable_at ?? '') < created_at ? agent.id : undefined
  })
  const [first] = reports
  if (!first) return []
  const ids = reports.map(({ key }) => key)
  const isOne = ids.length === 1
  return [
    {
      key: 'drills',
      kind: 'drill',
      severity: 'warning',
      headline: isOne
        ? foundTitle(eventTypes.drillOverdue, first.key)
        : `${agentsText(ids.length, hasMore.overdue)} do not answer drills`,
      facts: isOne ? 'a suspension may not reach it' : `${namesOf(ids)} · a suspension may not reach them`,
      at: first.group[0]!.created_at,
      agentId: isOne ? first.key : undefined,
    },
  ]
}

const offlineItems = ({ silent }: AttentionFacts): AttentionItem[] =>
  silent.map(({ agents, since: at, ids }): AttentionItem => {
    const isOne = agents === 1
    const [id = ''] = ids
    return {
      key: `offline ${id} ${at}`,
      kind: 'offline',
      severity: 'warning',
      headline: isOne ? foundTitle(eventTypes.instanceOffline, id) : `${counted(agents, 'agent')} went silent together`,
      facts: isOne ? 'no heartbeat since then' : `${namesOf(ids, agents)} · likely the same host or network`,
      at,
      agentId: isOne ? id : undefined,
    }
  })

/** Statuses of suspended agents that may still be working. */
const unproven: readonly ShownStatus[] = ['pending', 'unconfirmed', 'delivered', 'violated']
const isStopped = (agent: Agent | undefined): boolean =>
  agent?.status === 'suspended' && !unproven.includes(shownStatus(agent))
/** Whether the agent is suspended, and for all that is known still working. */
export const isUnproven = (agent: Agent | undefined): boolean => agent?.status === 'suspended' && !isStopped(agent)
/** A suspended agent never has the status offline, so only its last heartbeat says that it is gone. */
const isRunning = (agent: Agent | undefined): boolean =>
  agent?.status === 'active' || (agent !== undefined && isUnproven(agent) && agent.secondsAgo * 1_000 < offlineAfterMs)

const isOfMany = ({ kind, agentIds }: AttentionItem): boolean =>
  kind === 'brake' || kind === 'containment' || agentIds !== undefined

/** Whether all agents of an item are known, and stopped. */
function isOver({ agent, agents, agentIds }: AttentionItem, fleet: ReadonlyMap<string, Agent>): boolean {
  if (!agentIds) return isStopped(agent)
  return agentIds.length === agents && agentIds.every((id) => isStopped(fleet.get(id)))
}

/**
 * The place of an item in the queue: 0 if it is serious and an agent of it is still running, or none is known; 2 once
 * all of its agents are stopped.
 */
function stageOf(item: AttentionItem, fleet: ReadonlyMap<string, Agent>): number {
  if (isOver(item, fleet)) return 2
  const { agent, agentIds, severity } = item
  const known = agentIds ? agentIds.flatMap((id) => fleet.get(id) ?? []) : agent ? [agent] : []
  const isSerious = severities.indexOf(severity) >= severities.indexOf('critical')
  return isSerious && (known.length === 0 || known.some(isRunning)) ? 0 : 1
}

/**
 * Joins the item of an agent whose suspension is not confirmed with that of its problem: the problem, with what is
 * known of the suspension.
 */
function withoutTwins(items: readonly AttentionItem[]): AttentionItem[] {
  const isProblem = ({ kind }: AttentionItem) => kind === 'breach' || kind === 'critical'
  const twins = new Map(
    items.flatMap((item) => (item.kind === 'unconfirmed' && item.agentId ? [[item.agentId, item] as const] : [])),
  )
  const isWorse = (twin: AttentionItem, { severity }: AttentionItem) =>
    severities.indexOf(twin.severity) > severities.indexOf(severity)
  const merged = new Set<AttentionItem>()
  const others = items.map((item) => {
    const twin = isProblem(item) ? twins.get(item.agentId ?? '') : undefined
    if (!twin || isWorse(twin, item)) return item
    merged.add(twin)
    return { ...item, facts: [item.facts, `suspended ${twin.facts}`].filter(Boolean).join(' · ') }
  })
  return others.filter((item) => !merged.has(item))
}

/** Adds to an item about several agents which of them may still be suspended. */
function withRunning(item: AttentionItem, fleet: ReadonlyMap<string, Agent>): AttentionItem {
  const { agentIds, facts } = item
  if (!agentIds) return item
  // An agent that was not looked up may be running.
  const running = agentIds.filter((id, index) =>
    fleet.has(id) ? fleet.get(id)!.status !== 'suspended' : index >= limits.fleetKnown,
  )
  const suspended = agentIds.filter((id) => fleet.get(id)?.status === 'suspended').length
  const state = suspended > 0 ? `${suspended.toLocaleString('en')} suspended` : ''
  return { ...item, running, facts: [facts, state].filter(Boolean).join(' · ') }
}

/**
 * Returns everything that needs a person: first what is serious and still running, then the rest, last what is stopped
 * already; the most severe first, and of these the brake, containments and problems of many agents before single agents,
 * then the newest.
 */
export function attentionOf(facts: AttentionFacts): AttentionItem[] {
  const agents = new Map(facts.agents.map((agent) => [agent.id, agent]))
  const items = withoutTwins([
    ...problemItems(facts),
    ...brakeItems(facts),
    ...containmentItems(facts),
    ...unconfirmedItems(facts),
    ...anomalyItems(facts),
    ...offlineItems(facts),
    ...drillItems(facts),
  ]).map((item) => withRunning({ ...item, agent: agents.get(item.agentId ?? '') }, agents))
  const rank = ({ severity }: AttentionItem) => severities.indexOf(severity)
  const stages = new Map(items.map((item) => [item, stageOf(item, agents)]))
  return items.sort(
    (one, other) =>
      stages.get(one)! - stages.get(other)! ||
      rank(other) - rank(one) ||
      Number(isOfMany(other)) - Number(isOfMany(one)) ||
      Date.parse(other.at) - Date.parse(one.at),
  )
}
