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
import { Failure } from '../exit.ts'
import { sendHttp } from './send-http.ts'
import { notWardline, refusal, unreachable } from './service.ts'

/** The service sends something every 30 seconds. After two missed messages the connection counts as lost. */
const silentMs = 75_000

/** Converts the response of a refused stream to the same Failure as for other requests. */
async function refused(url: string, keyFrom: string, response: HttpAnswer): Promise<Failure> {
  const body = (parsedJson(await boundedText(response, answerLimits.other)) ?? {}) as { error?: unknown }
  const message = typeof body.error === 'string' ? body.error : `Unexpected answer ${response.status}.`
  const code = response.headers.get('x-error-code') ?? 'unexpected'
  return refusal(url, keyFrom, new WardlineError(message, response.status, code))
}

/** Decodes the chunks; aborts the connection after too long a silence. */
async function* texts(body: AsyncIterable<Uint8Array>, silence: AbortController): AsyncGenerator<string> {
  const end = () => silence.abort(new Error(`no data for ${silentMs / 1_000} s`))
  // If the reader stops early, the timer must not keep the process running.
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

interface OpenStream {
  url: string
  path: string
  key: string | undefined
  keyFrom: string
  /** Required content type of the response. */
  type: string
  signal: AbortSignal
  headers?: Record<string, string>
  /** Sent as JSON with POST. */
  body?: unknown
}

/** Opens a stream and resolves once the headers are received. Throws Failure if it is refused or unanswered. */
export async function openStream(
  options: OpenStream,
): Promise<{ headers: HttpAnswer['headers']; chunks: AsyncGenerator<string> }> {
  const { url, path, key, keyFrom, type, signal, headers = {}, body } = options
  const silence = new AbortController()
  const headersTimer = setTimeout(() => silence.abort(new DOMException('No headers', 'TimeoutError')), 15_000)
  let response: HttpAnswer
  try {
    response = await sendHttp(new URL(path, url), {
      method: body === undefined ? 'GET' : 'POST',
      headers: {
        ...plainEncoding,
        accept: type,
        ...(key === undefined ? {} : { 'x-monitor-key': key }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
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
  const sent = response.headers.get('content-type') ?? ''
  if (!sent.startsWith(type) || response.body === null) {
    await response.body?.cancel()
    throw refusal(url, keyFrom, new WardlineError('No stream.', response.status, 'unexpected'))
  }
  return { headers: response.headers, chunks: texts(response.body, silence) }
}
