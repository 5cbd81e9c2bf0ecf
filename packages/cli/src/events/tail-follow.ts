import { setTimeout as pause } from 'node:timers/promises'
import { type ControlChange, endpoints, type StreamedRow, StreamMessage } from '@wardline/contract'
import { Failure } from '../exit.ts'
import { hasShape } from '../service/reply-shape.ts'
import { type Service, systemCode } from '../service/service.ts'
import { openEventStream, type SentEvent } from './event-stream.ts'
import { type Place, StreamCursor } from './stream-cursor.ts'
import { TailControl } from './tail-control.ts'

/** Change of the connection or gap in the events. */
export type TailNotice =
  | { notice: 'connected'; url: string; after_ms: number }
  | { notice: 'disconnected'; reason: string; retry_ms: number }
  | { notice: 'skipped'; events: number; after: number; resumes_after: number; reason: 'replay_limit' | 'removed' }
  | { notice: 'unknown_gap' }
  | { notice: 'control_hidden' }
  | { notice: 'numbering_began_anew' }

type TailItem = { row: StreamedRow } | { change: ControlChange } | TailNotice

/** Base delay; it doubles with each attempt. Random jitter keeps many readers from reconnecting at the same time. */
const firstRetryMs = 500
const longestRetryMs = 30_000

export function retryDelayMs(attempt: number, askedForMs: number | undefined, random: number): number {
  const ceilingMs = Math.min(longestRetryMs, firstRetryMs * 2 ** attempt)
  // On shutdown, the service sends each reader a different retry delay.
  return attempt === 0 && askedForMs !== undefined
    ? Math.min(askedForMs, longestRetryMs)
    : ceilingMs * (0.5 + random / 2)
}

interface FollowOptions {
  service: Service
  /** Start after this event; undefined: start with the current end of the stream. */
  place: Place | undefined
  /** Start after the kill or resume with this seq; undefined: without kills and resumes. */
  controlSeq: number | undefined
  signal: AbortSignal
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const numberOf = (value: unknown, field: string): number =>
  Number((value as { data?: Record<string, unknown> } | null | undefined)?.data?.[field])

/** Converts a message of the stream. Yields nothing for heartbeats, counts, and unknown kinds of newer services. */
function* itemsOf({ event, data = '' }: SentEvent, cursor: StreamCursor): Generator<TailItem> {
  const message = parsed(data)
  if (event === 'gap') {
    const [after, resumesAfter] = [numberOf(message, 'after'), numberOf(message, 'resumes_after')]
    if (!Number.isSafeInteger(after) || !Number.isSafeInteger(resumesAfter)) return
    const events = cursor.skipTo(resumesAfter)
    if (events > 0) yield { notice: 'skipped', events, after, resumes_after: resumesAfter, reason: 'replay_limit' }
    return
  }
  if (!hasShape(StreamMessage, message)) return
  const sent = message as StreamMessage
  if (sent.type !== 'event') return
  const before = cursor.seq
  const { isNew, skipped, isRestarted } = cursor.take(sent.data)
  if (isRestarted) yield { notice: 'numbering_began_anew' }
  if (skipped > 0 && before !== undefined) {
    yield { notice: 'skipped', events: skipped, after: before, resumes_after: before + skipped, reason: 'removed' }
  }
  if (isNew) yield { row: sent.data }
}

/** Like `itemsOf`, with the kills and resumes before its event and those in the message itself. */
function* allItemsOf(message: SentEvent, cursor: StreamCursor, control: TailControl | undefined): Generator<TailItem> {
  if (message.event === 'control') control?.take(parsed(message.data ?? ''))
  for (const item of itemsOf(message, cursor)) {
    if ('row' in item && control) for (const change of control.before(item.row)) yield { change }
    yield item
  }
  if (control) for (const change of control.due(cursor.seq)) yield { change }
}

/** Whether a retry is useless: a revoked key stays revoked, while a service behind a proxy may recover. */
const isFinal = (fault: unknown): boolean => fault instanceof Failure && fault.exit === 'unauthorized'

function reasonOf(fault: unknown): string {
  const code = systemCode(fault)
  if (code) return code
  if (fault instanceof Failure) return fault.message
  return fault instanceof Error ? fault.message : String(fault)
}

/**
 * Yields every event, kill and resume after a position, each once and in order, and notices about the connection.
 * Reconnects after a lost connection and ends when the signal is aborted. Throws Failure if the first connection fails
 * or the key is refused later.
 */
export async function* followEvents(options: FollowOptions): AsyncGenerator<TailItem> {
  const { service, place, controlSeq, signal } = options
  const cursor = new StreamCursor(place)
  const { url, keyFrom } = service
  const control = controlSeq === undefined ? undefined : new TailControl(service.call, controlSeq)
  const path = `${endpoints.streamEvents.path}${control ? '?include=control' : ''}`
  let attempt = 0
  let wasConnected = false
  let lostAt = performance.now()
  let retryMs: number | undefined
  while (!signal.aborted) {
    let reason = 'the stream ended'
    try {
      const key = await service.currentKey()
      const stream = await openEventStream({ url, path, key, keyFrom, lastEventId: cursor.seq, signal })
      let isFirst = true
      for await (const message of stream.messages) {
        if (isFirst) {
          yield { notice: 'connected', url, after_ms: Math.round(performance.now() - lostAt) }
          // Without any event there is no position to resume from, so events in between may be lost.
          if (wasConnected && cursor.seq === undefined) yield { notice: 'unknown_gap' }
          isFirst = false
          wasConnected = true
          attempt = 0
          await control?.catchUp()
        }
        retryMs = message.retryMs ?? retryMs
        yield* allItemsOf(message, cursor, control)
      }
    } catch (fault) {
      if (signal.aborted) return
      if (!wasConnected || isFinal(fault)) throw fault
      reason = reasonOf(fault)
    }
    if (signal.aborted) return
    if (!wasConnected)
      throw new Failure(`The stream of ${url} ended before its first message.`, 'not_wardline', 'unreachable')
    const wait = retryDelayMs(attempt, retryMs, Math.random())
    if (attempt === 0) {
      lostAt = performance.now()
      yield { notice: 'disconnected', reason, retry_ms: Math.round(wait) }
    }
    attempt++
    await pause(wait, undefined, { signal }).catch(() => {})
  }
}
