import type { InboundAnswer } from '../../../egress/egress.ts'
import type { Verdict } from './channel.ts'

/** A receiver may ask for a pause, not for silence: more than a day counts as a day. */
const longestPauseSeconds = 86_400

/** Retry-After of RFC 9110, section 10.2.3, in its form of seconds; the form of a date is left to the schedule. */
export function retryAfter(headers: Record<string, string>): number | undefined {
  const text = headers['retry-after']
  return text !== undefined && /^\d{1,9}$/.test(text) ? Math.min(Number(text), longestPauseSeconds) : undefined
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
