import { describe, expect, it } from 'vitest'
import { createLog } from '../log.ts'
import { createMetrics } from '../metrics.ts'
import { manualClock } from '../testing/clock.ts'
import { keepTime } from './timekeeping.ts'

/** A machine whose clock is `aheadMs` ahead of the database, with a round trip of `tripMs`. */
async function start({ aheadMs = 0, tripMs = 0 } = {}) {
  const machine = manualClock()
  const database = { aheadMs, tripMs }
  const logged: string[] = []
  const log = createLog('debug', { write: (line) => void logged.push(line) })
  const metrics = createMetrics()
  const serverTime = async () => {
    const said = machine.now() - database.aheadMs
    machine.advance(database.tripMs)
    return said
  }
  const keeper = keepTime(machine, { serverTime }, { log, metrics })
  await keeper.check()
  return { machine, database, keeper, logged, metrics, right: () => machine.now() - database.aheadMs }
}

describe('the time', () => {
  it.each([120_000, -120_000])('is the database’s time on a machine that is %d ms ahead', async (aheadMs) => {
    const { keeper, machine, right, logged, metrics } = await start({ aheadMs })
    expect(keeper.clock.now()).toBe(right())
    machine.advance(30_000)
    expect(keeper.clock.now()).toBe(right())
    expect(keeper.offsetMs).toBe(-aheadMs)
    expect(logged.join()).toContain('the clock of this machine differs from that of the database')
    expect(await metrics.registry.metrics()).toContain(`wardline_clock_offset_seconds ${-aheadMs / 1_000}`)
    expect(keeper.mayJudge()).toBe(true)
  })

  // Otherwise the process would take over other processes' leases until the next comparison.
  it('does not change when the machine’s clock is set', async () => {
    const { keeper, machine, database, right } = await start()
    const before = keeper.clock.now()
    machine.jump(120_000)
    database.aheadMs = 120_000
    expect(keeper.clock.now()).toBe(before)
    await keeper.check()
    expect(keeper.clock.now()).toBe(right())
    expect(keeper.offsetMs).toBe(-120_000)
    expect(keeper.mayJudge()).toBe(true)
  })

  it('follows a jump of the database’s clock within a minute, and then suspends judgement for a minute', async () => {
    const { keeper, machine, database, right, logged } = await start()
    expect(keeper.mayJudge()).toBe(true)
    machine.advance(1_000)
    database.aheadMs = -15_000
    await keeper.check()
    expect(keeper.clock.now()).not.toBe(right())
    machine.advance(60_000)
    await keeper.check()
    expect(keeper.clock.now()).toBe(right())
    expect(keeper.mayJudge()).toBe(false)
    expect(logged.join()).toContain('the time jumped')
    machine.advance(59_000)
    expect(keeper.mayJudge()).toBe(false)
    machine.advance(1_000)
    expect(keeper.mayJudge()).toBe(true)
  })

  it('is steady since the start of the process, and since its last jump', async () => {
    const { keeper, machine, database } = await start()
    machine.advance(30_000)
    expect(keeper.steadyMs()).toBe(30_000)
    database.aheadMs = -6_000
    machine.advance(60_000)
    await keeper.check()
    expect(keeper.steadyMs()).toBe(0)
    machine.advance(1_000)
    expect(keeper.steadyMs()).toBe(1_000)
  })

  it('is not changed by a slow reply', async () => {
    const { keeper, machine, database } = await start()
    database.tripMs = 1_500
    machine.advance(60_000)
    const before = keeper.clock.now()
    await keeper.check()
    expect(keeper.clock.now()).toBe(before + 1_500)
    expect(keeper.offsetMs).toBe(0)
  })
})
