import {
  answerLimits,
  boundedText,
  type HttpAnswer,
  InvalidAnswer,
  parsedJson,
  plainEncoding,
} from './bounded-answer.ts'
import type { Endpoint } from './endpoint.ts'
import { type BodyOf, type EndpointName, endpoints, type ParamsOf, type QueryOf, type ReplyOf } from './endpoints.ts'

/** An error response of the service; `status` is 0 when no response arrived. */
export class WardlineError extends Error {
  override name = 'WardlineError'
  readonly status: number
  readonly code: string
  /** The whole response body: some endpoints add fields to `error`. */
  readonly answer: Record<string, unknown>

  constructor(
    message: string,
    status: number,
    code: string,
    { answer = {}, ...options }: ErrorOptions & { answer?: Record<string, unknown> } = {},
  ) {
    super(message, options)
    this.status = status
    this.code = code
    this.answer = answer
  }
}

type Given<Key extends string, Value> = [Value] extends [undefined] ? { [K in Key]?: never } : { [K in Key]: Value }
type Call<Name extends EndpointName> = Given<'params', ParamsOf<Name>> &
  Given<'body', BodyOf<Name>> & { query?: QueryOf<Name>; headers?: Record<string, string>; signal?: AbortSignal }

export interface HttpCall {
  method: string
  headers: Record<string, string>
  body?: string
  signal: AbortSignal
}

/** Sends one request without following redirects, and resolves once the response headers have arrived. */
type SendHttp = (url: URL, call: HttpCall) => Promise<HttpAnswer>

interface ClientOptions {
  /** Base address of the service, for example http://127.0.0.1:4747 */
  url: string
  /** Sent as X-Monitor-Key. */
  key?: string
  /** For browsers, which decompress responses themselves: a proxy may compress them. */
  acceptsCompressed?: boolean
  /** Default: `fetch`. */
  send?: SendHttp
}

export type Client = <Name extends EndpointName>(name: Name, call: Call<Name>) => Promise<ReplyOf<Name>>

/** Timeout of calls without a signal. */
const answerWithinMs = 60_000

// Following a redirect would send the key to its target.
const sendByFetch: SendHttp = (url, call) => fetch(url, { ...call, redirect: 'error' })

/** Creates a client for every endpoint that returns one JSON body. Throws WardlineError for anything but a success. */
export function createClient({ url, key, acceptsCompressed = false, send = sendByFetch }: ClientOptions): Client {
  return async (name, call) => {
    const endpoint: Endpoint = endpoints[name]
    const input = call as {
      params?: object
      query?: object
      body?: unknown
      headers?: Record<string, string>
      signal?: AbortSignal
    }
    const params = (input.params ?? {}) as Record<string, string>
    const path = endpoint.path.replaceAll(/:(\w+)/g, (_, field: string) => encodeURIComponent(params[field] ?? ''))
    const target = new URL(path, url)
    for (const [field, value] of Object.entries(input.query ?? {})) {
      if (value !== undefined) target.searchParams.set(field, String(value))
    }
    const hasBody = input.body !== undefined
    let response: HttpAnswer
    let text: string
    try {
      response = await send(target, {
        method: endpoint.method,
        headers: {
          ...plainEncoding,
          ...(key ? { 'x-monitor-key': key } : {}),
          ...(hasBody ? { 'content-type': 'application/json' } : {}),
          ...input.headers,
        },
        ...(hasBody ? { body: JSON.stringify(input.body) } : {}),
        signal: input.signal ?? AbortSignal.timeout(answerWithinMs),
      })
      text = await boundedText(
        response,
        endpoint.method === 'GET' ? answerLimits.list : answerLimits.other,
        acceptsCompressed,
      )
    } catch (cause) {
      if (cause instanceof InvalidAnswer) throw new WardlineError(cause.message, 0, 'unfit_answer', { cause })
      throw new WardlineError(`No answer from ${target.origin}.`, 0, 'unreachable', { cause })
    }
    const answer = (parsedJson(text) ?? {}) as { error?: unknown }
    const isUnchanged = endpoint.unchanged !== undefined && response.status === 200
    if (response.status !== endpoint.status && !isUnchanged) {
      const message = typeof answer.error === 'string' ? answer.error : `Unexpected answer ${response.status}.`
      const code = response.headers.get('x-error-code') ?? 'unexpected'
      throw new WardlineError(message, response.status, code, { answer: answer as Record<string, unknown> })
    }
    return answer as ReplyOf<typeof name>
  }
}
