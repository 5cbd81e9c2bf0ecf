import fc from 'fast-check'
import { expect, test } from 'vitest'
import { demoReport, injectionBlocked, runawayMetrics, usualMetrics } from './events.ts'
import { seededRandom } from './random.ts'
import { roles } from './story.ts'

const seeds = fc.integer({ min: 0, max: 0xffff_ffff })
const metricsOf = (report: { description: string }) => JSON.parse(report.description) as Record<string, number>

test('an event is tagged as a demo', () => {
  const report = demoReport('session', injectionBlocked())
  expect(report).toMatchObject({ sessionId: 'session', metadata: { demo: true, blocked: true } })
})

test('usual metrics vary by less than 3 times the minimum deviation of the detector, which is 1 or 5 %', () => {
  fc.assert(
    fc.property(seeds, fc.constantFrom(...roles), (seed, role) => {
      const random = seededRandom(seed)
      const reports = Array.from({ length: 15 }, () => metricsOf(usualMetrics(random, role)))
      for (const name of Object.keys(reports[0]!)) {
        const values = reports.map((report) => report[name]!)
        const spread = Math.max(...values) - Math.min(...values)
        expect(spread, name).toBeLessThan(3 * Math.max(1, 0.05 * Math.min(...values)))
        expect(Math.min(...values), name).toBeGreaterThanOrEqual(0)
      }
    }),
  )
})

test('the metrics of a runaway are more than 3 times the usual ones of any role', () => {
  fc.assert(
    fc.property(seeds, fc.constantFrom(...roles), (seed, role) => {
      const report = metricsOf(runawayMetrics(seededRandom(seed), role))
      expect(report.tool_calls_per_5min).toBeGreaterThan(role.usual.toolCalls * 3)
      expect(report.shell_exec_count).toBeGreaterThan(role.usual.shellCalls * 3)
    }),
  )
})
