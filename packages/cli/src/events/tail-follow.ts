import { setTimeout as pause } from 'node:timers/promises'
import { type ControlChange, endpoints, type StreamedRow, StreamMessage } from '@wardline/contract'
import { Failure } from '../exit.ts'
import { hasShape } from '../service/reply-shape.ts'
import { type Service, systemCode } from '../service/service.ts'
import { openEventStream, type SentEvent } from './event-stream.ts'
import { type Place, StreamCursor } from './stream-cursor.ts'
import { TailControl } from './tail-control.ts'

/** A change of the connection, for people and for programs. */
export type TailNotice =
  | { notice: 'connected'; url: string; after_ms: number }
  | { notice: 'disconnected'; reason: string; retry_ms: number }
  | { notice: 'skipped'; events: number; after: number; resumes_after: number; reason: 'replay_limit' | 'removed' }
  | { notice: 'unknown_gap' }
  | { notice: 'control_hidden' }
  | { notice: 'numbering_began_anew' }

type TailItem = { row: StreamedRow } | { change: ControlChange } | TailNotice

/** The first wait; it doubles with each try. Spread at random, so that a fleet of readers does not come back as one. */
const firstRetryMs = 500
const longestRetryMs = 30_000

export function retryDelayMs(attempt: number, askedForMs: number | undefined, random: number): number {
  const ceilingMs = Math.min(longestRetryMs, firstRetryMs * 2 ** attempt)
  // The service spreads its readers itself when it says goodbye.
  return attempt === 0 && askedForMs !== undefined
    ? Math.min(askedForMs, longestRetryMs)
    : ceilingMs * (0.5 + random / 2)
}

interface FollowOptions {
  service: Service
  /** After which event to begin; undefined: wherever the stream is now. */
  place: Place | undefined
  /** After which kill or resume to begin, by its seq; undefined: without them. */
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

/** What one message of events means; nothing for heartbeats, counts, and kinds that this version does not know. */
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

/** The same with the kills and resumes that stand before it, and those that it brings. */
function* allItemsOf(message: SentEvent, cursor: StreamCursor, control: TailControl | undefined): Generator<TailItem> {
  if (message.event === 'control') control?.take(parsed(message.data ?? ''))
  for (const item of itemsOf(message, cursor)) {
    if ('row' in item && control) for (const change of control.before(item.row)) yield { change }
    yield item
  }
  if (control) for (const change of control.due(cursor.seq)) yield { change }
}

/** Whether trying again could help: a key that was revoked stays so, a proxy without a service behind it does not. */
const isFinal = (fault: unknown): boolean => fault instanceof Failure && fault.exit === 'unauthorized'

function reasonOf(fault: unknown): string {
  const code = systemCode(fault)
  if (code) return code
  if (fault instanceof Failure) return fault.message
  return fault instanceof Error ? fault.message : String(fault)
}

/**
 * Every event, kill and resume from a place on, across lost connections, each once and in order, and what is to be said of the
 * connection. Ends when the signal is aborted. Throws Failure when the first connection cannot be made, or the key is
 * refused later.
 */
export async function* followEvents(options: FollowOptions): AsyncGenerator<TailItem> {
  const { service, place, controlSeq, signal } = options
  const cursor = new StreamCursor(place)
  const { url, key, keyFrom } = service
  const control = controlSeq === undefined ? undefined : new TailControl(service.call, controlSeq)
  const path = `${endpoints.streamEvents.path}${control ? '?include=control' : ''}`
  let attempt = 0
  let wasConnected = false
  let lostAt = performance.now()
  let retryMs: number | undefined
  while (!signal.aborted) {
    let reason = 'the stream ended'
    try {
      const stream = await openEventStream({ url, path, key, keyFrom, lastEventId: cursor.seq, signal })
      let isFirst = true
      for await (const message of stream.messages) {
        if (isFirst) {
          yield { notice: 'connected', url, after_ms: Math.round(performance.now() - lostAt) }
          // Without an event there is no place to resume from: what came in between is lost.
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
