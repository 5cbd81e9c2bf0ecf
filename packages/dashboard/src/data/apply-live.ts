import { type QueryClient, type QueryKey, useQueryClient } from '@tanstack/react-query'
import { type ControlChange, eventTypes } from '@wardline/contract'
import { useEffect } from 'react'
import { rememberRows } from './event-tail.ts'
import { type Agent, changeAgents, statusQuery } from './fleet.ts'
import { onLiveBatch, startLive } from './live.ts'
import { type EventFilter, type EventPages, matchesFilter, tailOf, withNewRows } from './live-tail.ts'
import { queryKeys } from './query-keys.ts'

/** Event types of the service that change what a subject's lists show. */
const subjects = {
  fleet: [
    'instance_offline',
    'instance_recovered',
    'instances_offline',
    'instances_recovered',
    'kill_unconfirmed',
    'children_unconfirmed',
    'activity_while_suspended',
  ],
  containments: [eventTypes.brakeEngaged, eventTypes.brakeReleased],
  decoys: [eventTypes.honeypotTriggered],
  rules: [eventTypes.ruleMatched],
  approvals: [eventTypes.approvalRequested, eventTypes.approvalDecided],
}

function withControl(changes: readonly ControlChange[]): (agent: Agent) => Agent {
  const last = new Map(changes.map((change) => [change.instance_id, change]))
  return (agent) => {
    const change = last.get(agent.id)
    // The fleet may have been read after the streamed change.
    if (!change || agent.control.version >= change.version) return agent
    const { version, at: changed_at } = change
    // A change is unconfirmed until the service confirms it.
    const control = { ...agent.control, version, changed_at, confirmed: false }
    const suspension = { state: 'pending' as const, since: changed_at }
    return change.action === 'suspend'
      ? { ...agent, control, suspension, status: 'suspended', suspension_reason: change.reason }
      : { ...agent, control, suspension: null, status: 'active', suspension_reason: null }
  }
}

/**
 * Minimum intervals between reads, so that a storm of hits, firings or breaches does not become a storm of requests.
 */
const restMs = 1_000
const fleetRestMs = 2_000
const alertsRestMs = 5_000

/** Throttles reads: the first runs at once, and all requests during the interval share one read at its end. */
function rested(read: () => void, intervalMs: number): () => void {
  let isDue = false
  let readAt = 0
  return () => {
    if (isDue) return
    isDue = true
    const readNow = () => {
      isDue = false
      readAt = Date.now()
      read()
    }
    setTimeout(readNow, Math.max(0, readAt + intervalMs - Date.now()))
  }
}

/** Applies streamed changes to the query cache that all screens read. */
function applyLive(client: QueryClient): void {
  let connection = 0
  const refresh = (queryKey: QueryKey) => void client.invalidateQueries({ queryKey })
  const read = {
    fleet: rested(() => refresh(queryKeys.fleet), fleetRestMs),
    containments: () => refresh(queryKeys.containments),
    rules: rested(() => refresh(queryKeys.rules), restMs),
    approvals: rested(() => refresh(queryKeys.approvals), restMs),
    problems: rested(() => refresh(queryKeys.problems), restMs),
    alerts: rested(() => refresh(queryKeys.alerts), alertsRestMs),
    decoys: rested(() => {
      refresh(queryKeys.decoys)
      void client.invalidateQueries({
        predicate: ({ queryKey }) => queryKey[0] === 'agent' && queryKey[2] === 'decoys',
      })
    }, restMs),
  }
  onLiveBatch(({ phase, hasGap, events, control, stats, connection: current }) => {
    if (phase === 'signed-out') refresh(queryKeys.session)
    // The first lists were read before the first connection, so they may lack events stored in between.
    if (hasGap || (current !== connection && connection === 0)) {
      refresh(queryKeys.events)
      read.problems()
    }
    if (current !== connection) {
      read.fleet()
      read.containments()
    }
    connection = current
    rememberRows(events)
    for (const query of events.length > 0 ? client.getQueryCache().findAll({ queryKey: queryKeys.events }) : []) {
      const filter = query.queryKey[1] as EventFilter
      const rows = events.filter((row) => matchesFilter(filter, row))
      if (rows.length === 0) continue
      const shown = tailOf(filter).take(rows, Date.now())
      client.setQueryData<EventPages>(query.queryKey, (pages) => pages && withNewRows(pages, rows, shown))
    }
    if (stats) client.setQueryData(statusQuery.queryKey, (status) => status && { ...status, stats })
    if (control.length > 0) {
      changeAgents(client, withControl(control))
      read.fleet()
      for (const { instance_id } of control) refresh(queryKeys.agent(instance_id))
      read.containments()
    }
    if (events.some(({ severity }) => severity === 'breach' || severity === 'critical')) {
      read.problems()
      read.alerts()
    }
    const reported = new Set(events.filter(({ by_service }) => by_service).map(({ event_type }) => event_type))
    for (const [subject, types] of Object.entries(subjects))
      if (types.some((type) => reported.has(type))) read[subject as keyof typeof subjects]()
  })
}

let isApplied = false

/** Keeps the query cache up to date from the stream. */
export function useLiveData(): void {
  const client = useQueryClient()
  useEffect(() => {
    if (!isApplied) applyLive(client)
    isApplied = true
    startLive()
  }, [client])
}
