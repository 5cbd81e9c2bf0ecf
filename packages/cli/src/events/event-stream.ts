import type { HttpAnswer } from '@wardline/contract'
import { createParser } from 'eventsource-parser'
import { openStream } from '../service/open-stream.ts'

/** A message of a Server-Sent Events stream, or a new reconnection delay. */
export interface SentEvent {
  event?: string
  data?: string
  /** Reconnection delay in milliseconds. */
  retryMs?: number
}

/** An event has at most some 20 KiB; an endless line must not fill the memory. */
const maxCharacters = 1024 * 1024

/** Yields the messages of a stream, independent of chunk boundaries. Drops an incomplete last message. */
export async function* sentEvents(chunks: AsyncIterable<string>): AsyncGenerator<SentEvent> {
  let read: SentEvent[] = []
  let isTooLong = false
  const parser = createParser({
    maxBufferSize: maxCharacters,
    onEvent: ({ event, data }) => read.push(event === undefined ? { data } : { event, data }),
    onRetry: (retryMs) => read.push({ retryMs }),
    onError: ({ type }) => {
      isTooLong ||= type === 'max-buffer-size-exceeded'
    },
  })
  for await (const chunk of chunks) {
    parser.feed(chunk)
    yield* read
    read = []
    if (isTooLong) throw new Error('a message is longer than any event')
  }
}

interface EventStreamOptions {
  url: string
  path: string
  key: string | undefined
  keyFrom: string
  lastEventId?: number | undefined
  signal: AbortSignal
}

interface EventStreamAnswer {
  headers: HttpAnswer['headers']
  messages: AsyncGenerator<SentEvent>
}

/** Opens the event stream; resolves once its headers arrived. Throws Failure if it is refused or not answered. */
export async function openEventStream({ lastEventId, ...options }: EventStreamOptions): Promise<EventStreamAnswer> {
  const headers: Record<string, string> = lastEventId === undefined ? {} : { 'last-event-id': String(lastEventId) }
  const stream = await openStream({ ...options, type: 'text/event-stream', headers })
  return { headers: stream.headers, messages: sentEvents(stream.chunks) }
}
