import type { Message } from '../channels/message.ts'

const second = 1_000
const minute = 60 * second
const hour = 60 * minute

/** Pauses after failed attempts, by Standard Webhooks 1.0: ten attempts within some 76 hours. */
const pauses = [5 * second, 5 * minute, 30 * minute, 2 * hour, 5 * hour, 10 * hour, 14 * hour, 20 * hour, 24 * hour]
/** Maximum attempts. An operator waits for the result of a test, and a late daily check counts as failed. */
const maxAttempts: Record<Message['kind'], number> = {
  alert: pauses.length + 1,
  digest: pauses.length + 1,
  reminder: pauses.length + 1,
  resolved: pauses.length + 1,
  test: 1,
  check: 3,
}

/**
 * Returns the time of the next attempt after `attempts` failed ones (epoch milliseconds); undefined: no retry. `spread`,
 * from 0 to 1, varies it by up to a fifth, so that messages that failed together are not retried together.
 */
export function nextAttempt(
  kind: Message['kind'],
  attempts: number,
  now: number,
  spread: number,
  retryAfterSeconds = 0,
): number | undefined {
  return attempts >= maxAttempts[kind] ? undefined : retryAt(pauses, attempts, now, spread, retryAfterSeconds)
}

/** The same by any list of pauses, one after each failed attempt; undefined after the last of them. */
export function retryAt(
  pausesMs: readonly number[],
  attempts: number,
  now: number,
  spread: number,
  retryAfterSeconds = 0,
): number | undefined {
  const pause = pausesMs[attempts - 1]
  if (pause === undefined) return undefined
  return now + Math.max(Math.round(pause * (0.8 + 0.4 * spread)), retryAfterSeconds * second)
}

/** After this many consecutive failures a receiver counts as down and is probed with one message at a time. */
export const downAfter = 5

/** Pause of a receiver after consecutive failures (milliseconds). */
export function pauseAfter(failures: number): number {
  return failures < downAfter ? 0 : Math.min(5 * minute, 5 * second * 2 ** Math.min(failures - downAfter, 10))
}
