import { useQuery } from '@tanstack/react-query'
import { eventTypes } from '@wardline/contract'
import { call } from '../data/client.ts'
import { brakeQuery, containmentsQuery } from '../data/containments.ts'
import { useEvents } from '../data/event-tail.ts'
import { fleetQuery, statusQuery } from '../data/fleet.ts'
import { countsOf } from '../data/fleet-counts.ts'
import { queryKeys } from '../data/query-keys.ts'
import { useNow } from '../ui/time.tsx'
import { attentionOf } from './attention.ts'
import { staleAfterMs, verdictOf } from './verdict.ts'

/** The stream shows when an alert may have been added. Colleagues' changes to alerts show after this time. */
const alertsRefreshMs = 30_000

/**
 * Newest alerts of the queue's two severities. Includes acknowledged and resolved ones, to leave their events out of
 * the queue.
 */
const alertsQuery = {
  queryKey: queryKeys.seriousAlerts,
  queryFn: async () =>
    (await call('listAlerts', { query: { min_severity: 'critical' as const, limit: '1000' } })).alerts,
  refetchInterval: alertsRefreshMs,
}

/** Computes what happened, to which agent, and whether it is over, for the overview and the wallboard. */
export function useVerdict() {
  const fleet = useQuery(fleetQuery)
  const status = useQuery(statusQuery)
  const breaches = useEvents({ severity: 'breach' })
  const critical = useEvents({ severity: 'critical' })
  const begun = useEvents({ event_type: eventTypes.anomalyDetected })
  const ended = useEvents({ event_type: eventTypes.anomalyEnded })
  const drills = useEvents({ event_type: eventTypes.drillOverdue })
  const alerts = useQuery(alertsQuery)
  const containments = useQuery(containmentsQuery)
  const brake = useQuery(brakeQuery)
  const lists = [breaches, critical, begun, ended, drills].map(({ query }) => query)
  const all = [fleet, status, ...lists, alerts, containments, brake]
  const isComplete = all.every(({ data }) => data !== undefined)
  const fault = all.find(({ error }) => error)?.error
  const now = useNow()
  const agents = fleet.data ?? []
  const checkedAt = fleet.dataUpdatedAt
  const ageMs = Math.max(0, now - checkedAt)
  const items = attentionOf({
    fleet: agents,
    events: [...breaches.rows, ...critical.rows],
    anomalies: [...begun.rows, ...ended.rows],
    overdue: drills.rows,
    containments: containments.data?.containments ?? [],
    brake: brake.data,
    alerts: new Map(alerts.data?.map((alert) => [alert.id, alert.status] as const)),
    now,
  })
  const unknown = fault ? 'No answer from the service.' : 'Loading the fleet…'
  const troubled = new Map<string, 'breach' | 'critical'>()
  for (const { kind, agentId } of items.toReversed())
    if (agentId && (kind === 'breach' || kind === 'critical')) troubled.set(agentId, kind)
  return {
    agents,
    counts: isComplete ? countsOf(agents) : undefined,
    stats: status.data?.stats,
    items,
    verdict: isComplete ? verdictOf({ fleet: agents, items, ageMs }) : unknown,
    isComplete,
    isStale: isComplete && ageMs > staleAfterMs,
    fault,
    checkedAt,
    troubled,
  }
}
