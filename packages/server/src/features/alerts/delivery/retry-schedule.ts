import type { Message } from '../channels/message.ts'

const second = 1_000
const minute = 60 * second
const hour = 60 * minute

/** Pauses after each failed attempt by Standard Webhooks 1.0; ten attempts within some 76 hours. */
const pauses = [5 * second, 5 * minute, 30 * minute, 2 * hour, 5 * hour, 10 * hour, 14 * hour, 20 * hour, 24 * hour]
/** Attempts in all. An operator who asks for a test waits for its answer; a daily check that is late has failed. */
const maxAttempts: Record<Message['kind'], number> = {
  alert: pauses.length + 1,
  digest: pauses.length + 1,
  reminder: pauses.length + 1,
  resolved: pauses.length + 1,
  test: 1,
  check: 3,
}

/**
 * When to retry after `attempts` failed ones (epoch milliseconds); undefined = never. `spread` from 0 to 1 puts it up to
 * a fifth sooner or later, so that what failed together does not come back together.
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

/** After so many failures in a row a receiver counts as down, and one message at a time probes whether it is back. */
export const downAfter = 5

/** How long a receiver gets nothing after its last failure in a row (milliseconds). */
export function pauseAfter(failures: number): number {
  return failures < downAfter ? 0 : Math.min(5 * minute, 5 * second * 2 ** Math.min(failures - downAfter, 10))
}
