import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import type { Metrics } from '../metrics.ts'
import type { Database } from './database.ts'

/** Time shared by all processes of a database, and whether it jumped recently. */
export interface Timekeeping {
  /** This machine's clock, corrected by the database's clock. */
  clock: Clock
  /** Milliseconds by which this machine's clock is behind the database's; negative if it is ahead. */
  readonly offsetMs: number
  /** False for a minute after a time jump, when overdue times may only be apparent. */
  mayJudge(): boolean
  /** Milliseconds for which this process has run without a time jump. A longer silence is not proven. */
  steadyMs(): number
  /** Call periodically. Compares with the database's clock each minute, and at once if this machine's clock jumped. */
  check(): Promise<void>
}

const compareEveryMs = 60_000
/** A wall clock that moves this far from monotonic time was set, or the machine was suspended. */
const localJumpMs = 1_000
/** A larger jump or difference at startup is logged; after a jump, mayJudge returns false. */
const jumpMs = 5_000
/** After this, times measured before the jump are at least a minute old. */
const jumpHoldMs = 60_000
/** Smaller corrections are noise, even with a short round trip. */
const precisionMs = 10

/**
 * Keeps the time shared by all processes of a database. Processes compare times written by others (leases, heartbeats,
 * kills), so one with a fast clock would take over leases and report false outages. The time advances by the monotonic
 * clock from the last database time, so setting this machine's clock has no effect. With SQLite only jumps matter,
 * because the database uses this machine's clock.
 */
export function keepTime(base: Clock, database: Pick<Database, 'serverTime'>, tools: { log: Log; metrics: Metrics }) {
  const { log, metrics } = tools
  /** Undefined while this machine's clock is used uncorrected. */
  let anchor: { time: number; base: number; monotonic: number } | undefined
  let comparedAt = -Infinity
  let last = { time: base.now(), monotonic: base.monotonic() }
  const startedAt = last.monotonic
  let jumpedAt = -Infinity

  const now = () => (anchor ? Math.round(anchor.time + base.monotonic() - anchor.monotonic) : base.now())
  const clock: Clock = { now, monotonic: () => base.monotonic() }

  function localJump(): number {
    if (!anchor) return 0
    return Math.abs(base.now() - anchor.base - (base.monotonic() - anchor.monotonic))
  }

  /** Returns the milliseconds since the last jump. */
  function sinceJump(): number {
    const current = { time: now(), monotonic: base.monotonic() }
    const jump = Math.abs(current.time - last.time - (current.monotonic - last.monotonic))
    last = current
    if (jump > jumpMs) jumpedAt = current.monotonic
    return current.monotonic - jumpedAt
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
    // A slow reply is imprecise and must not move the time back and forth.
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
    mayJudge: () => sinceJump() >= jumpHoldMs,
    steadyMs: () => Math.min(sinceJump(), base.monotonic() - startedAt),
    async check() {
      if (base.monotonic() - comparedAt >= compareEveryMs || localJump() > localJumpMs) await compare()
    },
  }
  return keeper
}
