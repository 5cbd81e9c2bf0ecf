import { type NewEvent, Uuid } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import { AppError } from '../../errors.ts'
import { bodyText, parseJson } from '../../http/json.ts'
import { lazyCheck } from '../../validation.ts'
import type { OutsideEvent } from '../events/event-row.ts'
import { eventFault, eventToStore } from '../events/new-event.ts'

/**
 * Maximum events of other programs processed per second. People cannot follow a hundred a second, and a runaway program
 * must neither bury the fleet's events nor keep this process busy.
 */
const maxPerSecond = 1_000

const isUuid = lazyCheck(Uuid)
const isoInstant = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}/

/** Removes null fields: rows contain null where reports omit the field. */
function withoutNulls(given: unknown): unknown {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return given
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null))
}

function instant(given: unknown): number | undefined {
  const time = typeof given === 'string' && isoInstant.test(given) ? Date.parse(given) : Number.NaN
  return Number.isNaN(time) ? undefined : time
}

/**
 * Parses an event published by another program, under the rules for reported events. Keeps its id and time, and ignores
 * any seq or signature. Throws AppError `invalid`.
 */
export function readOutsideEvent(message: Buffer, now: number): OutsideEvent {
  const report = withoutNulls(parseJson(bodyText(message)))
  const fault = eventFault(report)
  if (fault !== undefined) throw new AppError('invalid', fault)
  const { id, created_at } = report as { id?: unknown; created_at?: unknown }
  const {
    class: _class,
    tool: _tool,
    metrics: _metrics,
    isSecond: _isSecond,
    ...row
  } = eventToStore(report as NewEvent, null, now)
  return { ...row, id: isUuid(id) ? (id as string) : row.id, created_at: instant(created_at) ?? now, seq: null }
}

/** Subscribes to events that other programs publish on the events channel, and counts invalid messages. */
export function subscribeToOutsideEvents({ bus, clock, metrics }: Deps, show: (event: OutsideEvent) => void): void {
  const second = { startedAt: -Infinity, count: 0 }
  const refuse = (reason: string) => metrics.backplaneRefused.inc({ channel: 'events', reason })
  bus.onOutsideEvents((message) => {
    const now = clock.monotonic()
    if (now - second.startedAt >= 1_000) Object.assign(second, { startedAt: now, count: 0 })
    second.count += 1
    if (second.count > maxPerSecond) return refuse('too_many')
    try {
      show(readOutsideEvent(message, clock.now()))
    } catch (fault) {
      if (!(fault instanceof AppError)) throw fault
      refuse('malformed')
    }
  })
}
