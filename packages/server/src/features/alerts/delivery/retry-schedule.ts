import type { Message } from '../channels/message.ts'

const second = 1_000
const minute = 60 * second
const hour = 60 * minute

/** By Standard Webhooks 1.0: ten attempts within some 76 hours. */
const pauses = [5 * second, 5 * minute, 30 * minute, 2 * hour, 5 * hour, 10 * hour, 14 * hour, 20 * hour, 24 * hour]

/** Pauses after failed attempts. An operator waits for the result of a test, and a late daily check counts as failed. */
export const pausesMs: Record<Message['kind'], readonly number[]> = {
  alert: pauses,
  digest: pauses,
  reminder: pauses,
  resolved: pauses,
  test: [],
  check: pauses.slice(0, 2),
}

/** A mail to a person is of no use a day later. */
export const personalPausesMs = pauses.slice(0, 4)

/** After this many consecutive failures a receiver counts as down and is probed with one message at a time. */
export const downAfter = 5

/** Pause of a receiver after consecutive failures (milliseconds). */
export function pauseAfter(failures: number): number {
  return failures < downAfter ? 0 : Math.min(5 * minute, 5 * second * 2 ** Math.min(failures - downAfter, 10))
}
