import { createHash } from 'node:crypto'
import { hourMs, minuteMs } from '../../clock.ts'

/** After this long without an answer an agent is asked again: its stream may have been dead. */
export const retryDrillMs = hourMs
/** Agents that were not listening at their time are asked within this long after they connected, spread out as well. */
export const catchUpMs = 10 * minuteMs

/** Two numbers from 0 to 1 that follow from the id alone, evenly spread. */
function fractionsOf(instanceId: string): [number, number] {
  const digest = createHash('sha256').update(instanceId).digest()
  return [digest.readUInt32BE(0) / 2 ** 32, digest.readUInt32BE(4) / 2 ** 32]
}

interface DrillHistory {
  /** When the service last asked by itself, and when that was answered. Epoch milliseconds. */
  askedAt: number | null
  answeredAt: number | null
  /** Since when the agent listens. */
  openedAt: number
}

/**
 * When an agent that listens is asked next: once in each period, at a time that follows from its id, so that the questions
 * to a fleet are spread evenly. An instant in the past = now.
 */
export function nextDrillAt(instanceId: string, history: DrillHistory, periodMs: number, now: number): number {
  const [slot, catchUp] = fractionsOf(instanceId)
  const offset = Math.floor(slot * periodMs)
  const lastSlot = (at: number) => Math.floor((at - offset) / periodMs) * periodMs + offset
  // What lies in the future was written before the clock was set back.
  const past = (at: number | null) => (at === null || at > now ? null : at)
  const askedAt = past(history.askedAt)
  const answeredAt = past(history.answeredAt)
  const due = answeredAt === null ? lastSlot(history.openedAt) : lastSlot(answeredAt) + periodMs
  const missed = due <= history.openedAt
  const at = missed ? history.openedAt + Math.floor(catchUp * catchUpMs) : due
  const isUnanswered = askedAt !== null && (answeredAt === null || answeredAt < askedAt)
  return isUnanswered ? Math.max(at, askedAt + retryDrillMs) : at
}
