import { useQuery } from '@tanstack/react-query'
import { eventTypes, type FleetState, limits, type ProblemList } from '@wardline/contract'
import { call } from '../data/client.ts'
import { brakeQuery, containmentsQuery } from '../data/containments.ts'
import { useEvents } from '../data/event-tail.ts'
import { agentsQuery, statusQuery, summaryQuery } from '../data/fleet.ts'
import { countsOf } from '../data/fleet-counts.ts'
import { queryKeys } from '../data/query-keys.ts'
import { dayMs } from '../ui/span.ts'
import { useNow } from '../ui/time.tsx'
import { type AttentionItem, attentionOf, maxNamed } from './attention.ts'
import { staleAfterMs, verdictOf } from './verdict.ts'

/** The stream shows when an alert may have been added. Colleagues' changes to alerts show after this time. */
const alertsRefreshMs = 30_000

/** Newest alerts of anomalies. Includes acknowledged and resolved ones, to leave their events out of the queue. */
const alertsQuery = {
  queryKey: queryKeys.seriousAlerts,
  queryFn: async () =>
    (
      await call('listAlerts', {
        query: { event_type: eventTypes.anomalyDetected, min_severity: 'critical' as const, limit: '200' },
      })
    ).alerts,
  refetchInterval: alertsRefreshMs,
}

/** Counts critical events and breaches of the last day. The stream shows when there is another one. */
const problemsQuery = {
  queryKey: queryKeys.problems,
  queryFn: ({ signal }: { signal: AbortSignal }) => call('listProblems', { signal }),
  refetchInterval: alertsRefreshMs,
}

/** Whether older rows of the last day are not loaded. */
function hasMore({ query, rows }: ReturnType<typeof useEvents>, now: number): boolean {
  const oldest = rows.at(-1)
  return query.hasNextPage && oldest !== undefined && now - Date.parse(oldest.created_at) <= dayMs
}

/** Agents of one problem that are looked up: enough to say whether it goes on. */
const maxOfProblem = 100

/** The agents that lists of what needs attention name, as many as are looked up. */
function namedAgents(
  problems: ProblemList,
  waiting: FleetState['waiting'],
  rows: ReturnType<typeof useEvents>['rows'],
) {
  const ids = [
    ...waiting.flatMap(({ state, agents, first }) =>
      agents > maxNamed && state !== 'violated' ? [] : first.map(({ id }) => id),
    ),
    ...problems.problems.flatMap(({ instances }) => instances.slice(0, maxOfProblem)),
    ...rows.flatMap(({ by_service, instance_id }) => (by_service && instance_id) || []),
  ]
  return [...new Set(ids)].slice(0, limits.fleetKnown).sort()
}

const noProblems: ProblemList = { problems: [], omitted: 0, complete: true }

/** Computes what happened, to which agent, and whether it is over, for the overview and the wallboard. */
export function useVerdict() {
  const fleet = useQuery(summaryQuery())
  const status = useQuery(statusQuery)
  const problems = useQuery(problemsQuery)
  const begun = useEvents({ event_type: eventTypes.anomalyDetected })
  const ended = useEvents({ event_type: eventTypes.anomalyEnded })
  const drills = useEvents({ event_type: eventTypes.drillOverdue })
  const violations = useEvents({ event_type: eventTypes.activityWhileSuspended })
  const alerts = useQuery(alertsQuery)
  const containments = useQuery(containmentsQuery)
  const brake = useQuery(brakeQuery)
  const lists = [begun, ended, drills, violations].map(({ query }) => query)
  const now = useNow()
  const known = problems.data ?? noProblems
  const { waiting = [], silent = [], marks = [] } = fleet.data?.state ?? {}
  const counts = fleet.data && countsOf(fleet.data.state.counts)
  const recent = [...begun.rows, ...drills.rows].filter(({ created_at }) => now - Date.parse(created_at) <= dayMs)
  const ids = namedAgents(known, waiting, recent)
  const named = useQuery(agentsQuery(ids, fleet.data?.digest ?? ''))
  const agents = ids.length > 0 ? (named.data ?? []) : []
  const all = [fleet, status, problems, ...lists, alerts, containments, brake]
  const isComplete = all.every(({ data }) => data !== undefined) && (ids.length === 0 || named.data !== undefined)
  const fault = [...all, named].find(({ error }) => error)?.error
  const checkedAt = fleet.dataUpdatedAt
  const ageMs = Math.max(0, now - checkedAt)
  const items = attentionOf({
    counts: counts ?? { unconfirmed: 0, partial: 0, unresumed: 0 },
    agents,
    waiting,
    silent,
    problems: known,
    anomalies: [...begun.rows, ...ended.rows],
    overdue: drills.rows,
    violations: violations.rows,
    hasMore: { anomalies: hasMore(begun, now), overdue: hasMore(drills, now) },
    containments: containments.data?.containments ?? [],
    brake: brake.data,
    alerts: new Map(alerts.data?.map((alert) => [alert.id, alert.status] as const)),
    now,
  })
  const unknown = fault ? 'No answer from the service.' : 'Loading the fleet…'
  const troubled = new Map<string, 'breach' | 'critical'>()
  for (const { kind, agentId, agentIds = agentId ? [agentId] : [] } of items.toReversed())
    if (kind === 'breach' || kind === 'critical') for (const id of agentIds) troubled.set(id, kind)
  return {
    marks,
    agents,
    counts,
    stats: status.data?.stats,
    items,
    verdict: isComplete && counts ? verdictOf({ counts, agents, items, omitted: known.omitted, ageMs }) : unknown,
    isComplete,
    isStale: isComplete && ageMs > staleAfterMs,
    fault,
    checkedAt,
    troubled,
    /** How many need attention, and whether there are even more. */
    open: { count: items.length + known.omitted, isMore: !known.complete },
    /** Whether more agents have problems than `troubled` names. */
    isCut: !known.complete || known.omitted > 0 || items.some(isOfUnnamed),
  }
}

const isOfUnnamed = ({ agents = 0, agentIds }: AttentionItem): boolean =>
  agentIds !== undefined && agentIds.length < agents
