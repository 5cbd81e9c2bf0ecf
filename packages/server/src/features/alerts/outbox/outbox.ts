import { eventTypes, serviceSource } from '@wardline/contract'
import type { Statement, Trx } from '../../../db/database.ts'
import type { StoredEvent } from '../../../db/schema/events.ts'
import type { Deps } from '../../../deps.ts'
import { uuidV7 } from '../../../ids.ts'
import type { EventToStore } from '../../events/ingest.ts'
import { type AlertFacts, endedBy, type OwnAlert } from './alert.ts'
import { countOverflow, FloodBound, type Overflow, summarize } from './floods.ts'
import {
  alertInserts,
  compileOutbox,
  hasOverflow,
  type NewAlert,
  overflowStatement,
  resolveStatement,
  takeOverflow,
} from './queries.ts'

const minuteMs = 60_000

/** The channels. Alerts below warning are written only for them. */
export interface Recipients {
  /** False: no channel takes anything. */
  readonly hasAny: boolean
  take(alert: AlertFacts): boolean
}

type WrittenEvent = Omit<StoredEvent, 'seq'> & Pick<EventToStore, 'alerting'>

export interface Outbox {
  /**
   * Returns statements that write an alert for each event of severity warning and above, and for each other one that a
   * channel accepts or that ends a problem, or count it beyond the limit of its instance. They belong into the transaction
   * that stores the events, after these, so that neither exists without the other. `touchedBy`: keys that touched decoys, by event id.
   */
  statements(events: readonly WrittenEvent[], createdAt: number, touchedBy?: ReadonlyMap<string, string>): Statement[]
  /** Returns statements that write alerts of the service itself, for the batch of the reported change. */
  ownStatements(alerts: readonly OwnAlert[], now: number): Statement[]
  /** Writes alerts of the service itself within an interactive transaction. */
  write(trx: Trx, alerts: readonly OwnAlert[], now: number): Promise<void>
  /** Call after the commit, so that the alerts are sent at once and not only in the next periodic turn. */
  notify(): void
  /**
   * Writes summaries of counted alerts after each minute. The counts are in the database, so that a crash loses none and
   * only one of several processes writes the summary.
   */
  writeSummaries(): Promise<void>
  /** Calls the listener at each notification. */
  listen(listener: () => void): void
}

export function createOutbox({ database, clock }: Pick<Deps, 'database' | 'clock'>, recipients: Recipients): Outbox {
  const { db } = database
  const compiled = compileOutbox(database)
  const bound = new FloodBound()
  let listener = () => {}

  const isEnd = (alert: AlertFacts) => endedBy(alert).length > 0
  /** From warning on, people handle alerts in the queue, whether or not a channel takes them. */
  const isWritten = (alert: AlertFacts) => alert.severity !== 'info' || isEnd(alert) || recipients.take(alert)
  /** The end of a problem, and what machines receive below warning, leave nothing to handle: they are never open. */
  const statusOf = (alert: AlertFacts) =>
    isEnd(alert) || alert.severity === 'info' ? ('resolved' as const) : ('open' as const)

  /** A problem ends for all channels, whichever are notified. */
  function written(alerts: readonly NewAlert[], now: number): Statement[] {
    if (alerts.length === 0) return []
    const endings = alerts.flatMap((alert) => {
      const types = endedBy(alert)
      return types.length === 0 ? [] : resolveStatement(db, types, alert, now)
    })
    return [...alertInserts(compiled, alerts), ...endings]
  }

  function ownStatements(alerts: readonly OwnAlert[], now: number): Statement[] {
    const facts = alerts.map((alert) => ({ ...alert, by_service: 1 as const }))
    const taken = facts.filter(isWritten).map((alert) => ({
      ...alert,
      subject: alert.subject ?? null,
      only_channels: null,
      id: uuidV7(now),
      created_at: now,
      source: serviceSource,
      session_id: null,
      status: statusOf(alert),
      back: null,
    }))
    return written(taken, now)
  }

  async function write(trx: Trx, alerts: readonly OwnAlert[], now: number): Promise<void> {
    for (const statement of ownStatements(alerts, now)) await trx.executeQuery(statement)
  }

  return {
    ownStatements,
    write,

    statements(events, createdAt, touchedBy) {
      const alerts: NewAlert[] = []
      const beyond: Overflow[] = []
      for (const [index, event] of events.entries()) {
        const { alerting } = event
        if (event.event_type === eventTypes.sessionMetrics || alerting?.isQuiet) continue
        // Most events are ordinary, and most services have no channel for them.
        if (event.severity === 'info' && event.by_service === 0 && !recipients.hasAny) continue
        const only_channels = alerting?.channels ? JSON.stringify(alerting.channels) : null
        if (!isWritten({ ...event, only_channels })) continue
        const status = statusOf(event)
        // The end of a problem is never only counted, otherwise the problem would stay open.
        const counted = isEnd(event)
          ? undefined
          : bound.beyond(event, createdAt, { touchedBy: touchedBy?.get(event.id), isReceived: recipients.hasAny })
        if (counted) {
          beyond.push(counted)
          continue
        }
        const { id, severity, event_type, source, description, instance_id, session_id, by_service } = event
        alerts.push({
          id,
          created_at: createdAt,
          severity,
          event_type,
          source,
          description,
          instance_id,
          subject: alerting?.subject ?? null,
          only_channels,
          session_id,
          by_service,
          status,
          back: events.length - 1 - index,
        })
      }
      const statements = written(alerts, createdAt)
      return beyond.length === 0 ? statements : [...statements, overflowStatement(compiled, countOverflow(beyond))]
    },

    async writeSummaries() {
      const now = clock.now()
      const minute = now - (now % minuteMs)
      if (!(await hasOverflow(db, minute))) return
      await db.transaction().execute(async (trx) => {
        await write(trx, summarize(await takeOverflow(trx, minute)), now)
      })
      listener()
    },

    notify: () => listener(),
    listen(call) {
      listener = call
    },
  }
}
