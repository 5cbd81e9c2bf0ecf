import type { InboundAnswer, OutboundRequest } from '../../../egress/egress.ts'
import type { Sender, Verdict } from './channel.ts'

/** Parses a URL of the settings. Unlike the error of `new URL`, this one does not contain the text, which is secret. */
export function receiverUrl(text: string): URL {
  const url = URL.parse(text)
  if (url === null) throw new Error('settings.url is not a valid URL.')
  return url
}

/** Returns the host, for lists; everything else in a URL may be secret. */
export const receiverHost = ({ url }: { url: string }): string => receiverUrl(url).host

/** Name of this deployment, for receivers that store a host with each message; a valid host name of RFC 1123. */
export const reporterName = ({ deployment }: Sender): string => `wardline-${deployment}`

export const userAgent = ({ version }: Sender): string => `Wardline/${version}`

export const jsonPost = (
  url: string,
  payload: object,
  sender: Sender,
  headers: Record<string, string> = {},
): OutboundRequest => ({
  url,
  headers: { 'content-type': 'application/json', 'user-agent': userAgent(sender), ...headers },
  body: JSON.stringify(payload),
})

/** One day. A longer delay would let a receiver stop delivery altogether. */
const maxPauseSeconds = 86_400

/** Returns Retry-After (RFC 9110, section 10.2.3) in seconds. A date is ignored, so the retry schedule applies. */
function retryAfter(headers: Record<string, string>): number | undefined {
  const text = headers['retry-after']
  return text !== undefined && /^\d{1,9}$/.test(text) ? Math.min(Number(text), maxPauseSeconds) : undefined
}

/** As in Standard Webhooks 1.0: only 2xx is a success, a redirect is a failure, 410 ends delivery to this receiver. */
export function judgeByStatus({ status, headers, body }: InboundAnswer): Verdict {
  const delivered = status >= 200 && status < 300
  const pause = delivered ? undefined : retryAfter(headers)
  return {
    delivered,
    status,
    answer: body,
    error: delivered ? null : `The receiver answered ${status}.`,
    ...(pause === undefined ? {} : { retryAfterSeconds: pause }),
    ...(status === 410 ? { gone: true } : {}),
  }
}

/** Turns a verdict into a failure, for receivers whose status does not show it. */
export const refused = (verdict: Verdict, error: string): Verdict => ({ ...verdict, delivered: false, error })

/** Returns the fields of a JSON object; none for any other body. */
export function answerFields(body: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(body)
    return typeof value === 'object' && value !== null ? { ...value } : {}
  } catch {
    return {}
  }
}

/** Reads a retry delay in seconds from the body, rounded up, at most one day. Anything but a number is ignored. */
export function askedPause(value: unknown): { retryAfterSeconds?: number } {
  if (typeof value !== 'number' || !Number.isFinite(value) || value < 0) return {}
  return { retryAfterSeconds: Math.min(Math.ceil(value), maxPauseSeconds) }
}
