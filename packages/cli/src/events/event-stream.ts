import {
  answerLimits,
  assertPlain,
  boundedText,
  type HttpAnswer,
  InvalidAnswer,
  parsedJson,
  plainEncoding,
  WardlineError,
} from '@wardline/contract'
import { createParser } from 'eventsource-parser'
import { Failure } from '../exit.ts'
import { sendHttp } from '../service/send-http.ts'
import { notWardline, refusal, unreachable } from '../service/service.ts'

/** One message of a Server-Sent Events stream, or a new delay. */
export interface SentEvent {
  event?: string
  data?: string
  /** Milliseconds to wait before connecting again. */
  retryMs?: number
}

/** An event has at most some 20 KiB; a line without an end must not fill the memory. */
const maxCharacters = 1024 * 1024
/** The service sends something every 30 seconds: after two silent ones the connection is dead, whatever the network says. */
const silentMs = 75_000

/** The messages of a stream, however its text is cut into chunks. A cut-off last one is dropped. */
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

/** Why a stream was refused, in the terms of every other refusal. */
async function refused(url: string, keyFrom: string, response: HttpAnswer): Promise<Failure> {
  const body = (parsedJson(await boundedText(response, answerLimits.other)) ?? {}) as { error?: unknown }
  const message = typeof body.error === 'string' ? body.error : `Unexpected answer ${response.status}.`
  const code = response.headers.get('x-error-code') ?? 'unexpected'
  return refusal(url, keyFrom, new WardlineError(message, response.status, code))
}

/** Text as it arrives; ends the connection when nothing came for too long. */
async function* texts(body: AsyncIterable<Uint8Array>, silence: AbortController): AsyncGenerator<string> {
  const end = () => silence.abort(new Error(`nothing came for ${silentMs / 1_000} s`))
  // A reader that stops half-way leaves the clock behind, which must not hold up the end of the program.
  const start = () => setTimeout(end, silentMs).unref()
  let timer = start()
  const decoder = new TextDecoder()
  try {
    for await (const chunk of body) {
      clearTimeout(timer)
      timer = start()
      yield decoder.decode(chunk, { stream: true })
    }
  } finally {
    clearTimeout(timer)
  }
}

/** Opens a stream and returns once its headers arrived. Throws Failure when it is refused or unanswered. */
export async function openEventStream(options: EventStreamOptions): Promise<EventStreamAnswer> {
  const { url, path, key, keyFrom, lastEventId, signal } = options
  const silence = new AbortController()
  const headersTimer = setTimeout(() => silence.abort(new DOMException('No headers', 'TimeoutError')), 15_000)
  let response: HttpAnswer
  try {
    response = await sendHttp(new URL(path, url), {
      method: 'GET',
      headers: {
        ...plainEncoding,
        accept: 'text/event-stream',
        ...(key === undefined ? {} : { 'x-monitor-key': key }),
        ...(lastEventId === undefined ? {} : { 'last-event-id': String(lastEventId) }),
      },
      signal: AbortSignal.any([signal, silence.signal]),
    })
    assertPlain(response)
    if (response.status !== 200) throw await refused(url, keyFrom, response)
  } catch (fault) {
    if (fault instanceof InvalidAnswer) throw notWardline(url, fault.message)
    throw fault instanceof Failure ? fault : unreachable(url, fault)
  } finally {
    clearTimeout(headersTimer)
  }
  const type = response.headers.get('content-type') ?? ''
  if (!type.startsWith('text/event-stream') || response.body === null) {
    await response.body?.cancel()
    throw refusal(url, keyFrom, new WardlineError('No stream.', response.status, 'unexpected'))
  }
  return { headers: response.headers, messages: sentEvents(texts(response.body, silence)) }
}
