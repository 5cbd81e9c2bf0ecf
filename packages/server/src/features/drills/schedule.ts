import { createHash } from 'node:crypto'
import { hourMs, minuteMs } from '../../clock.ts'

/** An unanswered drill is repeated after this time, because the stream may have been dead. */
export const retryDrillMs = hourMs
/** Agents that missed their time get the drill within this period after they connect, spread evenly too. */
export const catchUpMs = 10 * minuteMs

/** Returns two evenly distributed numbers from 0 to 1, derived from the id. */
function fractionsOf(instanceId: string): [number, number] {
  const digest = createHash('sha256').update(instanceId).digest()
  return [digest.readUInt32BE(0) / 2 ** 32, digest.readUInt32BE(4) / 2 ** 32]
}

interface DrillHistory {
  /** Times of the last scheduled drill and of its answer, in epoch milliseconds. */
  askedAt: number | null
  answeredAt: number | null
  /** Time at which the agent connected. */
  openedAt: number
}

/**
 * Returns the time of the next scheduled drill of a connected agent: once per period, at a time derived from its id, so
 * that the drills of a fleet are spread evenly. A time in the past means now.
 */
export function nextDrillAt(instanceId: string, history: DrillHistory, periodMs: number, now: number): number {
  const [slot, catchUp] = fractionsOf(instanceId)
  const offset = Math.floor(slot * periodMs)
  const lastSlot = (at: number) => Math.floor((at - offset) / periodMs) * periodMs + offset
  // A time in the future was stored before the clock was set back.
  const past = (at: number | null) => (at === null || at > now ? null : at)
  const askedAt = past(history.askedAt)
  const answeredAt = past(history.answeredAt)
  const due = answeredAt === null ? lastSlot(history.openedAt) : lastSlot(answeredAt) + periodMs
  const missed = due <= history.openedAt
  const at = missed ? history.openedAt + Math.floor(catchUp * catchUpMs) : due
  const isUnanswered = askedAt !== null && (answeredAt === null || answeredAt < askedAt)
  return isUnanswered ? Math.max(at, askedAt + retryDrillMs) : at
}
