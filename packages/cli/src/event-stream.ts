import { WardlineError } from '@wardline/contract'
import type { Failure } from './exit.ts'
import { refusal, unreachable } from './service.ts'

/** One message of a Server-Sent Events stream; a frame may hold nothing but a new delay. */
export interface SentEvent {
  id?: string
  event?: string
  data?: string
  /** Milliseconds to wait before connecting anew. */
  retryMs?: number
}

/** An event has at most some 20 KiB; a line without an end must not fill the memory. */
const mostCharacters = 1024 * 1024
/** The service sends something every 30 seconds: after two silent ones the connection is dead, whatever the network says. */
const silentMs = 75_000

function readFrame(lines: readonly string[]): SentEvent {
  const message: SentEvent = {}
  const data: string[] = []
  for (const line of lines) {
    const colon = line.indexOf(':')
    const field = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (field === 'data') data.push(value)
    else if (field === 'id' && !value.includes('\0')) message.id = value
    else if (field === 'event') message.event = value
    else if (field === 'retry' && /^\d{1,9}$/.test(value)) message.retryMs = Number(value)
  }
  return data.length > 0 ? { ...message, data: data.join('\n') } : message
}

/** The messages of a stream, however its text is cut into chunks (WHATWG HTML, section 9.2.6). A cut-off last one is dropped. */
export async function* sentEvents(chunks: AsyncIterable<string>): AsyncGenerator<SentEvent> {
  let rest = ''
  let lines: string[] = []
  let size = 0
  for await (const chunk of chunks) {
    const text = rest + chunk
    // A carriage return at the end may be half of a line end.
    const parts = text.split(/\r\n|\n|\r(?!$)/)
    rest = parts.pop() ?? ''
    size += chunk.length
    for (const line of parts) {
      if (line !== '') {
        lines.push(line)
        continue
      }
      if (lines.length > 0) yield readFrame(lines)
      lines = []
      size = rest.length
    }
    if (size > mostCharacters) throw new Error('a message is longer than any event')
  }
}

export interface EventStreamOptions {
  url: string
  path: string
  key: string | undefined
  keyFrom: string
  lastEventId?: number | undefined
  signal: AbortSignal
}

export interface EventStreamAnswer {
  headers: Headers
  messages: AsyncGenerator<SentEvent>
}

/** Why a stream was refused, in the terms of every other refusal. */
async function refused(url: string, keyFrom: string, response: Response): Promise<Failure> {
  const body = (await response.json().catch(() => ({}))) as { error?: unknown }
  const message = typeof body.error === 'string' ? body.error : `Unexpected answer ${response.status}.`
  const code = response.headers.get('x-error-code') ?? 'unexpected'
  return refusal(url, keyFrom, new WardlineError(message, response.status, code))
}

/** Text as it arrives; ends the connection when nothing came for too long. */
async function* texts(body: ReadableStream<Uint8Array>, silence: AbortController): AsyncGenerator<string> {
  const end = () => silence.abort(new Error(`nothing came for ${silentMs / 1_000} s`))
  // A reader that stops half-way leaves the clock behind, which must not hold up the end of the program.
  const start = () => setTimeout(end, silentMs).unref()
  let timer = start()
  try {
    for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
      clearTimeout(timer)
      timer = start()
      yield chunk
    }
  } finally {
    clearTimeout(timer)
  }
}

/** Opens a stream and returns once its headers are there. Throws Failure when it is refused or nobody answers. */
export async function openEventStream(options: EventStreamOptions): Promise<EventStreamAnswer> {
  const { url, path, key, keyFrom, lastEventId, signal } = options
  const silence = new AbortController()
  const headersTimer = setTimeout(() => silence.abort(new DOMException('No headers', 'TimeoutError')), 15_000)
  let response: Response
  try {
    response = await fetch(new URL(path, url), {
      headers: {
        accept: 'text/event-stream',
        ...(key === undefined ? {} : { 'x-monitor-key': key }),
        ...(lastEventId === undefined ? {} : { 'last-event-id': String(lastEventId) }),
      },
      // The key is for this address; a redirect could lead anywhere.
      redirect: 'manual',
      signal: AbortSignal.any([signal, silence.signal]),
    })
  } catch (fault) {
    throw unreachable(url, fault)
  } finally {
    clearTimeout(headersTimer)
  }
  if (response.status !== 200) throw await refused(url, keyFrom, response)
  const type = response.headers.get('content-type') ?? ''
  if (!type.startsWith('text/event-stream') || response.body === null) {
    await response.body?.cancel()
    throw refusal(url, keyFrom, new WardlineError('No stream.', response.status, 'unexpected'))
  }
  return { headers: response.headers, messages: sentEvents(texts(response.body, silence)) }
}
