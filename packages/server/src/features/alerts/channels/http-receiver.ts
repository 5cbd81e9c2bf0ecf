import type { InboundAnswer, OutboundRequest } from '../../../egress/egress.ts'
import type { Sender, Verdict } from './channel.ts'

/** Reads a URL of the settings. The built-in error carries the whole text, which is secret; this one says only what is wrong. */
export function receiverUrl(text: string): URL {
  const url = URL.parse(text)
  if (url === null) throw new Error('settings.url is not a valid URL.')
  return url
}

/** The host for lists: everything else in a URL may be secret. */
export const receiverHost = ({ url }: { url: string }): string => receiverUrl(url).host

/** This deployment, for receivers that store a host with each message: fits a host name of RFC 1123. */
export const reporterName = ({ deployment }: Sender): string => `wardline-${deployment}`

/** For the header of that name. */
export const userAgent = ({ version }: Sender): string => `Wardline/${version}`

/** A POST of JSON. */
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

/** A receiver may ask for a pause, not for silence: more than a day counts as a day. */
const maxPauseSeconds = 86_400

/** Retry-After of RFC 9110, section 10.2.3, in its form of seconds; the form of a date is left to the schedule. */
function retryAfter(headers: Record<string, string>): number | undefined {
  const text = headers['retry-after']
  return text !== undefined && /^\d{1,9}$/.test(text) ? Math.min(Number(text), maxPauseSeconds) : undefined
}

/** By Standard Webhooks 1.0: only 2xx is success, a redirect is none, 410 means never again. */
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

/** Turns what counted as success into a failure, for receivers that say so only in the body. */
export const refused = (verdict: Verdict, error: string): Verdict => ({ ...verdict, delivered: false, error })

/** The fields of a JSON object; none when the body is anything else. */
export function answerFields(body: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(body)
    return typeof value === 'object' && value !== null ? { ...value } : {}
  } catch {
    return {}
  }
}

/** A pause in seconds, whole or not, that a receiver asks for in its body: at most a day, and nothing else than a number. */
export function askedPause(value: unknown): { retryAfterSeconds?: number } {
  if (typeof value !== 'number' || !Number.isFinite(value) || value < 0) return {}
  return { retryAfterSeconds: Math.min(Math.ceil(value), 86_400) }
}
