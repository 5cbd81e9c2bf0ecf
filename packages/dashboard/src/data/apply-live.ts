import type { QueryClient } from '@tanstack/react-query'
import { type ControlChange, eventTypes } from '@wardline/contract'
import { rememberRows } from './event-tail.ts'
import { type Agent, fleetQuery, statusQuery } from './fleet.ts'
import { onLiveBatch } from './live.ts'
import { type EventFilter, type EventPages, matchesFilter, tailOf, withNewRows } from './live-tail.ts'
import { queryKeys } from './query-keys.ts'
import { sessionQuery } from './session.ts'

/** The service's own event types that change the state of agents. */
const fleetTypes = new Set([
  'instance_offline',
  'instance_recovered',
  'instances_offline',
  'instances_recovered',
  'kill_unconfirmed',
  'activity_while_suspended',
])

function withControl(fleet: readonly Agent[], changes: readonly ControlChange[]): Agent[] {
  const last = new Map(changes.map((change) => [change.instance_id, change]))
  return fleet.map((agent) => {
    const change = last.get(agent.id)
    // The fleet may have been read after the streamed change.
    if (!change || agent.control.version >= change.version) return agent
    const { version, at: changed_at } = change
    // A change is unconfirmed until the service confirms it.
    const control = { ...agent.control, version, changed_at, confirmed: false }
    const containment = { state: 'pending' as const, since: changed_at }
    return change.action === 'suspend'
      ? { ...agent, control, containment, status: 'suspended', suspension_reason: change.reason }
      : { ...agent, control, containment: null, status: 'active', suspension_reason: null }
  })
}

const brakeTypes = new Set<string>([eventTypes.brakeEngaged, eventTypes.brakeReleased])

/** Minimum interval between reads of the alerts in a flood of breaches. */
const alertsAgainMs = 5_000

/**
 * Minimum interval between reads after hits or firings, so that a storm of them does not become a storm of requests.
 */
const restMs = 1_000

/** Throttles reads: the first runs at once, and all requests during the interval share one read at its end. */
function rested(read: () => void): () => void {
  let isDue = false
  let readAt = 0
  return () => {
    if (isDue) return
    isDue = true
    setTimeout(
      () => {
        isDue = false
        readAt = Date.now()
        read()
      },
      Math.max(0, readAt + restMs - Date.now()),
    )
  }
}

/** Applies streamed changes to the query cache that all screens read. */
export function applyLive(client: QueryClient): void {
  let connection = 0
  let alertsReadAt = 0
  const readDecoys = rested(() => {
    void client.invalidateQueries({ queryKey: queryKeys.decoys })
    void client.invalidateQueries({
      predicate: ({ queryKey }) => queryKey[0] === 'agent' && queryKey[2] === 'decoys',
    })
  })
  const readRules = rested(() => void client.invalidateQueries({ queryKey: queryKeys.rules }))
  onLiveBatch((batch) => {
    if (batch.phase === 'signed-out') void client.invalidateQueries({ queryKey: sessionQuery.queryKey })
    // The first lists were read before the first connection, so they may lack events stored in between.
    if (batch.hasGap || (batch.connection !== connection && connection === 0)) {
      void client.invalidateQueries({ queryKey: queryKeys.events })
    }
    if (batch.connection !== connection) {
      void client.invalidateQueries({ queryKey: fleetQuery.queryKey })
      void client.invalidateQueries({ queryKey: queryKeys.containments })
    }
    connection = batch.connection
    rememberRows(batch.events)
    for (const query of batch.events.length > 0 ? client.getQueryCache().findAll({ queryKey: queryKeys.events }) : []) {
      const filter = query.queryKey[1] as EventFilter
      const rows = batch.events.filter((row) => matchesFilter(filter, row))
      if (rows.length === 0) continue
      const shown = tailOf(filter).take(rows, Date.now())
      client.setQueryData<EventPages>(query.queryKey, (pages) => pages && withNewRows(pages, rows, shown))
    }
    if (batch.stats) {
      const { stats } = batch
      client.setQueryData(statusQuery.queryKey, (status) => status && { ...status, stats })
    }
    if (batch.control.length > 0) {
      client.setQueryData(fleetQuery.queryKey, (fleet) => fleet && withControl(fleet, batch.control))
      for (const { instance_id } of batch.control)
        void client.invalidateQueries({ queryKey: queryKeys.agent(instance_id) })
      void client.invalidateQueries({ queryKey: queryKeys.containments })
    }
    const isSerious = batch.events.some(({ severity }) => severity === 'breach' || severity === 'critical')
    if (isSerious && Date.now() - alertsReadAt > alertsAgainMs) {
      alertsReadAt = Date.now()
      void client.invalidateQueries({ queryKey: queryKeys.alerts })
    }
    if (batch.events.some(({ by_service, event_type }) => by_service && event_type === eventTypes.honeypotTriggered)) {
      readDecoys()
    }
    if (batch.events.some(({ by_service, event_type }) => by_service && event_type === eventTypes.ruleMatched)) {
      readRules()
    }
    if (batch.events.some(({ by_service, event_type }) => by_service && brakeTypes.has(event_type))) {
      void client.invalidateQueries({ queryKey: queryKeys.containments })
    }
    if (batch.events.some(({ by_service, event_type }) => by_service && fleetTypes.has(event_type))) {
      void client.invalidateQueries({ queryKey: fleetQuery.queryKey })
    }
  })
}
