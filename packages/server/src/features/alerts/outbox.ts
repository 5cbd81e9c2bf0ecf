import { eventTypes } from '@wardline/contract'
import type { Statement, Trx } from '../../db/database.ts'
import type { StoredEvent } from '../../db/schema.ts'
import type { Deps } from '../../deps.ts'
import { uuidV7 } from '../../ids.ts'
import type { AlertFacts } from './alert-match.ts'
import type { Directory } from './directory.ts'
import { type AlertToWrite, compileOutbox, outboxStatements, resolveStatement } from './outbox-queries.ts'
import { endedBy, type JudgedAlert } from './resolutions.ts'
import { takes } from './takers.ts'

/** What the service alerts of without an event. */
export interface OwnAlert extends AlertFacts {
  description: string
}

/** An event as it is stored; `by_service` on those that the service itself reports. */
type WrittenEvent = Omit<StoredEvent, 'seq'> & { by_service?: true }

export interface Outbox {
  /**
   * Statements that write an alert for each event that a channel would take. They belong into the transaction that
   * stores the events, after these: neither exists without the other.
   */
  statements(events: readonly WrittenEvent[], createdAt: number): Statement[]
  /** Writes alerts of the service's own within the transaction of what they tell of. */
  write(trx: Trx, alerts: readonly OwnAlert[], now: number): Promise<void>
  /** To be called after the commit: what was written is then sent at once, not only at the next look. */
  notify(): void
  /** Calls the listener at each notification. */
  listen(listener: () => void): void
}

/** Source of what the service itself says. */
const ownSource = 'wardline'

export function createOutbox({ database }: Pick<Deps, 'database'>, directory: { readonly current: Directory }): Outbox {
  const compiled = compileOutbox(database)
  let listener = () => {}

  /** News that something is over asks nothing of anybody. */
  const statusOf = (alert: JudgedAlert) => (endedBy(alert).length > 0 ? ('resolved' as const) : ('open' as const))

  const isTaken = (alert: JudgedAlert) => {
    const { channels, routes } = directory.current
    return channels.some((channel) => takes(channel, routes, alert))
  }

  /** What is over is so for everybody, whichever channel hears of it. */
  function written(alerts: readonly AlertToWrite[], now: number): Statement[] {
    if (alerts.length === 0) return []
    const endings = alerts.flatMap((alert) => {
      const types = endedBy(alert)
      return types.length === 0 ? [] : resolveStatement(database.db, types, alert.instance_id, now)
    })
    return [...outboxStatements(compiled, alerts), ...endings]
  }

  return {
    statements(events, createdAt) {
      const alerts: AlertToWrite[] = []
      if (directory.current.channels.length === 0) return []
      for (const [index, event] of events.entries()) {
        if (event.event_type === eventTypes.sessionMetrics) continue
        const by_service = event.by_service ? 1 : 0
        // Written out: every event of every agent comes by here.
        const judged: JudgedAlert = {
          severity: event.severity,
          event_type: event.event_type,
          instance_id: event.instance_id,
          by_service,
        }
        if (!isTaken(judged)) continue
        const { id, severity, event_type, source, description, instance_id, session_id } = event
        const back = events.length - 1 - index
        alerts.push({
          id,
          created_at: createdAt,
          severity,
          event_type,
          source,
          description,
          instance_id,
          session_id,
          by_service,
          status: statusOf(judged),
          back,
        })
      }
      return written(alerts, createdAt)
    },

    async write(trx, alerts, now) {
      const judged = alerts.map((alert) => ({ ...alert, by_service: 1 as const }))
      const taken = judged.filter(isTaken).map((alert) => ({
        ...alert,
        id: uuidV7(now),
        created_at: now,
        source: ownSource,
        session_id: null,
        status: statusOf(alert),
        back: null,
      }))
      for (const statement of written(taken, now)) await trx.executeQuery(statement)
    },

    notify: () => listener(),
    listen(call) {
      listener = call
    },
  }
}
