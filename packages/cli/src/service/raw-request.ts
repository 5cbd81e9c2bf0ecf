import { answerLimits, boundedText, type HttpAnswer, parsedJson, plainEncoding } from '@wardline/contract'
import { sendHttp } from './send-http.ts'

/** Longer than any response of a healthy service takes. */
export const answerWithinMs = 10_000

export interface RawAnswer {
  status: number
  headers: HttpAnswer['headers']
  /** Parsed JSON; undefined if the body is not JSON. */
  body: unknown
  /** Epoch milliseconds of this machine, before and after the request. */
  sentAt: number
  answeredAt: number
}

interface RawRequest {
  method?: 'GET' | 'POST'
  key?: string | undefined
  body?: unknown
}

/** Sends a request and resolves with any response, whatever its status. Rejects if there is none. */
export async function rawRequest(
  url: string,
  path: string,
  { method = 'GET', key, body }: RawRequest = {},
): Promise<RawAnswer> {
  const sentAt = Date.now()
  const response = await sendHttp(new URL(path, url), {
    method,
    headers: {
      ...plainEncoding,
      ...(key === undefined ? {} : { 'x-monitor-key': key }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(answerWithinMs),
  })
  const answeredAt = Date.now()
  const json = parsedJson(await boundedText(response, answerLimits.list))
  return { status: response.status, headers: response.headers, body: json, sentAt, answeredAt }
}
