import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { eventTypes } from '@wardline/contract'
import { useNow } from '../parts/time.tsx'
import { call } from '../service/client.ts'
import { brakeQuery, containmentsQuery } from '../service/containments.ts'
import { eventsQuery } from '../service/event-tail.ts'
import { fleetQuery, statusQuery } from '../service/fleet.ts'
import { attentionOf } from './attention.ts'
import { staleAfterMs, verdictOf } from './verdict.ts'

/** The stream shows when an alert may have been added. Colleagues' changes to alerts show after this time. */
const alertsRefreshMs = 30_000

/**
 * Newest alerts of the queue's two severities. Includes acknowledged and resolved ones, to leave their events out of
 * the queue.
 */
const alertsQuery = {
  queryKey: ['alerts', 'serious'],
  queryFn: async () =>
    (await call('listAlerts', { query: { min_severity: 'critical' as const, limit: '1000' } })).alerts,
  refetchInterval: alertsRefreshMs,
}

function useFacts() {
  const fleet = useQuery(fleetQuery)
  const status = useQuery(statusQuery)
  const breaches = useInfiniteQuery(eventsQuery({ severity: 'breach' }))
  const critical = useInfiniteQuery(eventsQuery({ severity: 'critical' }))
  const begun = useInfiniteQuery(eventsQuery({ event_type: eventTypes.anomalyDetected }))
  const ended = useInfiniteQuery(eventsQuery({ event_type: eventTypes.anomalyEnded }))
  const drills = useInfiniteQuery(eventsQuery({ event_type: eventTypes.drillOverdue }))
  const alerts = useQuery(alertsQuery)
  const containments = useQuery(containmentsQuery)
  const brake = useQuery(brakeQuery)
  const rowsOf = (queries: (typeof breaches)[]) =>
    queries.flatMap(({ data }) => data?.pages.flatMap((page) => page.events) ?? [])
  const events = rowsOf([breaches, critical])
  const anomalies = rowsOf([begun, ended])
  const overdue = rowsOf([drills])
  const statuses = new Map(alerts.data?.map((alert) => [alert.id, alert.status] as const))
  const all = [fleet, status, breaches, critical, begun, ended, drills, alerts, containments, brake]
  const isComplete = all.every(({ data }) => data !== undefined)
  const fault = all.find(({ error }) => error)?.error
  return {
    fleet,
    status,
    events,
    anomalies,
    overdue,
    brake: brake.data,
    containments: containments.data?.containments ?? [],
    statuses,
    isComplete,
    fault,
  }
}

/** Computes what happened, to which agent, and whether it is over, for the overview and the wallboard. */
export function useVerdict() {
  const { fleet, status, events, anomalies, overdue, containments, brake, statuses, isComplete, fault } = useFacts()
  const now = useNow()
  const agents = fleet.data ?? []
  const checkedAt = fleet.dataUpdatedAt
  const ageMs = Math.max(0, now - checkedAt)
  const isStale = isComplete && ageMs > staleAfterMs
  const items = attentionOf({ fleet: agents, events, anomalies, overdue, containments, brake, alerts: statuses, now })
  const verdict = isComplete
    ? verdictOf({ fleet: agents, items, ageMs })
    : fault
      ? 'The service does not answer.'
      : 'Reading the fleet…'

  const troubled = new Map(
    items
      .toReversed()
      .flatMap(({ kind, agentId }) =>
        agentId && (kind === 'breach' || kind === 'critical') ? [[agentId, kind] as const] : [],
      ),
  )
  return { agents, stats: status.data?.stats, items, verdict, isComplete, isStale, fault, checkedAt, troubled }
}
