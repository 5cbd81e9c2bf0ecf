import { describe, expect, it } from 'vitest'
import { dayMs, hourMs, minuteMs } from '../../clock.ts'
import { simulateAgent } from '../../testing/simulated-witnesses.ts'
import { CallMatcher, graceMs, judgeEveryMs, type ReportedCall } from './mismatch.ts'

// The whole simulation, 1,000 agents for 30 days, found 3 false mismatches: docs/adr/0089.
describe('simulated agents', () => {
  it('with honest delays, losses and sampling cause at most one false mismatch a day in a fleet of 1,000', () => {
    const [agents, days, firstSeed] = [60, 14, 1]
    const found = Array.from({ length: agents }, (_, index) => simulateAgent(firstSeed + index, days).mismatches).flat()
    expect(found.length, `seeds from ${firstSeed}: ${JSON.stringify(found)}`).toBeLessThanOrEqual(
      (agents * days) / 1_000,
    )
  })

  it.each(['client', 'otlp'] as const)('whose %s is removed are found, unless sampling hides most of it', (missing) => {
    const at = 3 * dayMs + 11 * hourMs
    const seeds = Array.from({ length: 60 }, (_, index) => 1 + index)
    const found = seeds.filter((seed) =>
      simulateAgent(seed, 7, { missing, at }).mismatches.some((one) => one.missing === missing && one.since >= at),
    )
    expect(found.length).toBeGreaterThan(0.6 * seeds.length)
  })
})

describe('calls of two witnesses', () => {
  const matcher = new CallMatcher()
  const call = (by: ReportedCall['by'], at: number, number: number, more: Partial<ReportedCall> = {}) =>
    matcher.take({ by, at, tool: 'bash', session: `s${number % 9}`, id: `c-${number}`, ...more })

  it('are compared once both sides reported some, and a removed hook is found within a minute of the first call', () => {
    let at = 0
    for (let number = 0; number < 30; number++, at += 10_000) {
      call('client', at, number)
      call('otlp', at + 3_000, number)
      expect(matcher.judge(at + 4_000)).toEqual([])
    }
    const firstAt = at
    for (let number = 0; number < 5; number++, at += 10_000) call('otlp', at, 100 + number, { session: 'late' })
    expect(matcher.judge(firstAt + minuteMs)).toMatchObject([{ missing: 'client', since: firstAt }])
    call('client', firstAt + minuteMs, 104, { session: 'late' })
    expect(matcher.judge(firstAt + minuteMs + graceMs.client)).toEqual([])
  })

  it.each([
    ['within a minute of its first missing call', 'at once', 3_000, 60_000],
    ['once a collector that holds it back would have sent it', 'after half a minute', 33_000, 90_000],
  ])('find a silent exporter %s, where telemetry comes %s', (_, __, delayMs, withinMs) => {
    const matcher = new CallMatcher()
    const everyMs = 10_000
    const silentAt = 60 * everyMs
    let foundAt: number | undefined
    const due: { at: number; by: ReportedCall['by']; number: number }[] = []
    for (let number = 0; number < 80; number++) {
      const at = number * everyMs
      due.push({ at, by: 'client', number })
      if (at < silentAt) due.push({ at: at + delayMs, by: 'otlp', number })
    }
    due.sort((one, other) => one.at - other.at)
    for (let now = 0; now < 80 * everyMs && foundAt === undefined; now += judgeEveryMs) {
      while (due[0] && due[0].at <= now) {
        const { at, by, number } = due.shift()!
        matcher.take({ by, at, tool: 'bash', session: `s${Math.floor(number / 6)}`, id: `${number}` })
      }
      const [found] = matcher.judge(now)
      if (!found) continue
      expect(found).toMatchObject({ missing: 'otlp', since: silentAt })
      foundAt = now
    }
    expect(foundAt).toBeGreaterThan(silentAt)
    expect(foundAt! - silentAt).toBeLessThanOrEqual(withinMs)
  })

  it('that only failed in telemetry, or whose tool one side never shows, say nothing', () => {
    const quiet = new CallMatcher()
    const take = (by: ReportedCall['by'], at: number, id: number, more: Partial<ReportedCall> = {}) =>
      quiet.take({ by, at, tool: 'bash', session: 's', id: `${id}`, ...more })
    for (let id = 0; id < 30; id++) for (const by of ['client', 'otlp'] as const) take(by, id * 1_000, id)
    for (let id = 100; id < 130; id++) take('otlp', id * 10_000, id, { isFailed: true })
    for (let id = 200; id < 230; id++) take('otlp', id * 10_000, id, { tool: 'web-search' })
    expect(quiet.judge(hourMs)).toEqual([])
  })
})
