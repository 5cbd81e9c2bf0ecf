import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import type { Metrics } from '../metrics.ts'
import type { Database } from './database.ts'

/** The time that all processes of a database share, and whether it ran steadily of late. */
export interface Timekeeping {
  /** The clock of this machine, set right by the database's. */
  clock: Clock
  /** How far this machine's clock is behind the database's; negative when it is ahead. */
  readonly offsetMs: number
  /** False for a while after the time jumped: what looks overdue then may only look so. */
  mayJudge(): boolean
  /** Periodic work: compares with the database's clock each minute, and at once when this machine's clock jumped. */
  check(): Promise<void>
}

const compareEveryMs = 60_000
/** A machine's clock that moved so much against its own monotonic time was set, or the machine was suspended. */
const localJumpMs = 1_000
/** Beyond this a jump, or the difference at startup, is worth a word, and nothing is judged by the time before it. */
const jumpMs = 10_000
/** Whatever was measured against the time before a jump is a minute old by then. */
const jumpHoldMs = 60_000
/** Below this a correction is noise, whatever the round trip was. */
const precisionMs = 10

/**
 * Processes compare times that others wrote: leases, heartbeats, kills. One whose clock runs ahead would take the leases
 * of others and report outages that are none. Time here runs by the monotonic clock from what the database said last,
 * so that setting this machine's clock moves nothing. On SQLite both are the same machine, and only jumps matter.
 */
export function keepTime(base: Clock, database: Pick<Database, 'serverTime'>, tools: { log: Log; metrics: Metrics }) {
  const { log, metrics } = tools
  /** Undefined while this machine's clock is taken as it is. */
  let anchor: { time: number; base: number; monotonic: number } | undefined
  let comparedAt = -Infinity
  let last = { time: base.now(), monotonic: base.monotonic() }
  let jumpedAt = -Infinity

  const now = () => (anchor ? Math.round(anchor.time + base.monotonic() - anchor.monotonic) : base.now())
  const clock: Clock = { now, monotonic: () => base.monotonic() }

  function localJump(): number {
    if (!anchor) return 0
    return Math.abs(base.now() - anchor.base - (base.monotonic() - anchor.monotonic))
  }

  async function compare(): Promise<void> {
    const askedAt = base.monotonic()
    const said = await database.serverTime()
    if (said === undefined) return
    const monotonic = base.monotonic()
    const uncertainMs = (monotonic - askedAt) / 2
    const time = said + uncertainMs
    comparedAt = monotonic
    const isFirst = anchor === undefined
    const difference = time - now()
    // A late answer says little: it must not move the time back and forth.
    if (isFirst || Math.abs(difference) > uncertainMs + precisionMs) anchor = { time, base: base.now(), monotonic }
    else anchor = { time: now(), base: base.now(), monotonic }
    const offsetMs = now() - base.now()
    metrics.clockOffset.set(offsetMs / 1_000)
    if (isFirst) last = { time: now(), monotonic }
    if (Math.abs(difference) <= jumpMs) return
    log.warn(
      { differenceMs: Math.round(difference), offsetMs },
      isFirst
        ? 'the clock of this machine differs from that of the database, whose time is used; check its time service'
        : 'the time jumped: offline instances and unconfirmed kills are not reported for a minute',
    )
  }

  const keeper: Timekeeping = {
    clock,
    get offsetMs() {
      return now() - base.now()
    },
    mayJudge() {
      const current = { time: now(), monotonic: base.monotonic() }
      const jump = Math.abs(current.time - last.time - (current.monotonic - last.monotonic))
      last = current
      if (jump > jumpMs) jumpedAt = current.monotonic
      return current.monotonic - jumpedAt >= jumpHoldMs
    },
    async check() {
      if (base.monotonic() - comparedAt >= compareEveryMs || localJump() > localJumpMs) await compare()
    },
  }
  return keeper
}
