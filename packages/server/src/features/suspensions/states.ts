import type { SuspensionState } from '@wardline/contract'
import type { Config } from '../../config/config.ts'
import type { Schema } from '../../db/schema.ts'

type Row = Schema['suspensions']

/** Facts that determine the state of a suspension. Times are epoch milliseconds; null: not observed. */
export type StateFacts = Pick<
  Row,
  | 'requested_at'
  | 'delivered_at'
  | 'delivered_by'
  | 'acknowledged_at'
  | 'enforced_at'
  | 'enforced_by'
  | 'can_acknowledge'
  | 'silent_at'
  | 'quiet_at'
  | 'first_breach_at'
  | 'result_reported'
>

export interface SuspensionSettings {
  /** Without an event after the acknowledgement. */
  silenceMs: number
  /** Time after which a suspension without an acknowledgement is reported. */
  acknowledgeMs: number
}

/** The settings, in milliseconds. */
export const settingsOf = (
  config: Pick<Config, 'suspensionSilenceSeconds' | 'suspensionAckSeconds'>,
): SuspensionSettings => ({
  silenceMs: config.suspensionSilenceSeconds * 1_000,
  acknowledgeMs: config.suspensionAckSeconds * 1_000,
})

/** Silence expected of a client that cannot acknowledge: three poll intervals. */
const quietMs = 90_000
/** Grace after the delivery, in which an agent may finish its work and report it. */
export const graceMs = 10_000
/** By then a client that polls every 30 seconds has polled: one that never does gets no longer grace. */
export const deliveryMs = 35_000

/**
 * Returns how far a suspension is proven. Each state is based on a fact in the row, so it is the same in all processes,
 * independent of their clocks. `isUnenforced`: an enforcement point has not confirmed the suspension.
 */
export function suspensionState(facts: StateFacts, isUnenforced = false): SuspensionState {
  const state = stateByAgent(facts)
  return isUnenforced && ['quiet', 'confirmed', 'proven', 'enforced'].includes(state) ? 'partial' : state
}

/** Returns when a stream or poll delivered the suspension. A client may not know the header of other answers. */
const receivedAt = ({ delivered_at, delivered_by }: Pick<Row, 'delivered_at' | 'delivered_by'>): number | null =>
  delivered_by === 'answer' ? null : delivered_at

/** Returns the state shown by the agent itself, without enforcement points, which cannot prove silence. */
function stateByAgent(facts: StateFacts): Exclude<SuspensionState, 'partial'> {
  if (facts.first_breach_at !== null) return 'violated'
  // The gateway holds the model of the agent, not the agent.
  if (facts.enforced_at !== null && facts.enforced_by === 'supervisor') return 'enforced'
  if (facts.acknowledged_at !== null) return facts.silent_at === null ? 'confirmed' : 'proven'
  if (facts.result_reported === 'unconfirmed') {
    // A client that cannot acknowledge only counts as missing until it receives the suspension.
    if (facts.can_acknowledge === 1 || receivedAt(facts) === null) return 'unconfirmed'
  }
  if (facts.can_acknowledge === 1 || receivedAt(facts) === null) return 'pending'
  return facts.quiet_at === null ? 'delivered' : 'quiet'
}

/** Returns the time at which the state began; for a partial one, the time of the agent's part. */
export function sinceOf(facts: StateFacts, { acknowledgeMs }: SuspensionSettings): number {
  const begins: Record<ReturnType<typeof stateByAgent>, number | null> = {
    pending: facts.requested_at,
    delivered: receivedAt(facts),
    quiet: facts.quiet_at,
    confirmed: facts.acknowledged_at,
    proven: facts.silent_at,
    enforced: facts.enforced_at,
    unconfirmed: facts.requested_at + acknowledgeMs,
    violated: facts.first_breach_at,
  }
  return begins[stateByAgent(facts)] ?? facts.requested_at
}

/** Activity of the agent in the event log since the previous reading. */
export interface Activity {
  /** Events later than `breachAfter`. */
  breaches: number
  firstBreachAt: number | null
  lastBreachAt: number | null
  /** The last event of the agent. */
  lastAt: number | null
}

/**
 * Returns the time after which an event of the agent is a breach: the grace after the delivery by stream or poll; without
 * one, the time when a poll was due; after the silence was shown, the acknowledgement.
 */
export function breachAfter(
  row: Pick<Row, 'requested_at' | 'delivered_at' | 'delivered_by' | 'acknowledged_at' | 'silent_at'>,
): number {
  if (row.silent_at !== null && row.acknowledged_at !== null) return row.acknowledged_at
  // An acknowledgement also proves the delivery.
  const received = receivedAt(row) ?? row.acknowledged_at
  const due = row.requested_at + deliveryMs
  return received === null ? due : Math.min(received, due) + graceMs
}

/** A suspension as read by the watch. */
type WatchedFacts = StateFacts &
  Pick<
    Row,
    | 'breaches'
    | 'breaches_reported'
    | 'breach_reported_at'
    | 'last_breach_at'
    | 'last_activity_at'
    | 'resumed_at'
    | 'ends_at'
  >

/** Changes of a suspension to store and report. */
export interface Decision {
  breaches: number
  first_breach_at: number | null
  last_breach_at: number | null
  last_activity_at: number | null
  silent_at: number | null
  quiet_at: number | null
  result_reported: 'unconfirmed' | 'confirmed' | null
  /** Number of breaches since the last report; 0: nothing to report. */
  reports: number
  /** Time of the next check; null: when another fact arrives. */
  look_at: number | null
}

/** Breaches of one instance are reported together, at most once a minute. */
const reportEveryMs = 60_000

const latest = (left: number | null, right: number | null): number | null =>
  left === null ? right : right === null ? left : Math.max(left, right)
const earliest = (left: number | null, right: number | null): number | null =>
  left === null ? right : right === null ? left : Math.min(left, right)

/** How far a process can rely on its measured time: see `Timekeeping`. */
interface Steadiness {
  mayJudge: boolean
  steadyMs: number
}

/** Decides on a suspension after a reading of the log. */
export function decide(
  row: WatchedFacts,
  activity: Activity,
  now: number,
  { mayJudge, steadyMs, settings }: Steadiness & { settings: SuspensionSettings },
): Decision {
  const breaches = row.breaches + activity.breaches
  const lastActivityAt = latest(row.last_activity_at, activity.lastAt)
  const facts = {
    ...row,
    breaches,
    first_breach_at: earliest(row.first_breach_at, activity.firstBreachAt),
    last_breach_at: latest(row.last_breach_at, activity.lastBreachAt),
    // The clock was set back since: count the silence from now.
    last_activity_at: lastActivityAt === null ? null : Math.min(lastActivityAt, now),
  }
  const isOver = row.resumed_at !== null
  const isViolated = facts.first_breach_at !== null
  let next: number | null = null
  const due = (at: number): boolean => {
    if (at <= now && mayJudge) return true
    // Whole milliseconds, as they are stored: the measured time has fractions.
    next = earliest(next, Math.ceil(Math.max(at, now + 1_000)))
    return false
  }
  const isSilent = (since: number, ms: number) => due(Math.max(since + ms, now + ms - steadyMs))
  const received = receivedAt(row)
  const isMissed = row.can_acknowledge === 1 || received === null
  let { silent_at, quiet_at, result_reported } = row
  if (!isOver && row.acknowledged_at !== null) {
    result_reported = 'confirmed'
    const since = Math.max(row.acknowledged_at, facts.last_activity_at ?? 0)
    if (!isViolated && silent_at === null && isSilent(since, settings.silenceMs)) silent_at = now
  } else if (!isOver) {
    if (isMissed && result_reported === null && due(row.requested_at + settings.acknowledgeMs)) {
      result_reported = 'unconfirmed'
    }
    if (row.can_acknowledge === 0 && received !== null && !isViolated && quiet_at === null) {
      const since = Math.max(received, facts.last_activity_at ?? 0)
      if (isSilent(since, quietMs)) quiet_at = now
    }
  }
  // A timer may end before the time for an acknowledgement and the grace are over. An agent that worked on all the same is
  // reported then; one that polls may not have received it.
  const isTimedOut = row.ends_at !== null && row.resumed_at !== null && row.resumed_at >= row.ends_at
  if (isTimedOut && isMissed && row.acknowledged_at === null && result_reported === null) {
    if (facts.last_activity_at !== null) result_reported = 'unconfirmed'
  }
  let reports = 0
  if (breaches > row.breaches_reported) {
    const reportAt = row.breach_reported_at === null ? now : row.breach_reported_at + reportEveryMs
    // A clock that was set back must not delay a report indefinitely.
    if (reportAt <= now || reportAt > now + reportEveryMs) reports = breaches - row.breaches_reported
    else next = earliest(next, reportAt)
  }
  const { first_breach_at, last_breach_at, last_activity_at } = facts
  return {
    breaches,
    first_breach_at,
    last_breach_at,
    last_activity_at,
    silent_at,
    quiet_at,
    result_reported,
    reports,
    look_at: next,
  }
}
