import { knownTools, severities } from '@wardline/contract'
import fc from 'fast-check'
import { CompiledQuery } from 'kysely'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createMemoryBus } from '../../bus/memory.ts'
import type { Database } from '../../db/database.ts'
import { migrate } from '../../db/migrate.ts'
import { createMetrics } from '../../metrics.ts'
import { manualClock } from '../../testing/clock.ts'
import { openTestDatabase, type TestDatabase } from '../../testing/service.ts'
import { severityCounts, toolCounts } from './counts.ts'
import { createIngest } from './ingest.ts'
import { eventToStore } from './new-event.ts'
import { readEventFigures } from './posture.ts'

const noAlerts = { statements: () => [], notify: () => {} }
const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs

/** A stored event, in a plain list that is counted by hand. */
interface Known {
  at: number
  severity: (typeof severities)[number]
  type: string
  blocked: boolean
  tool: string | undefined
}

type Step = { passMs: number; events: Omit<Known, 'at'>[] }

// Whole minutes and hours, a millisecond less and more, and a clock that is set back.
const passing = fc.oneof(
  fc.constantFrom(0, 1, 29_999, minuteMs - 1, minuteMs, minuteMs + 1, hourMs - 1, hourMs, dayMs, 30 * dayMs - 1),
  fc.constantFrom(-1, -minuteMs, -hourMs - 1, -dayMs),
  fc.integer({ min: 0, max: 3 * hourMs }),
)
const known = fc.record({
  severity: fc.constantFrom(...severities),
  type: fc.constantFrom('tool_call', 'tool_call', 'injection_blocked', 'egress_blocked', 'note'),
  blocked: fc.boolean(),
  tool: fc.constantFrom(...knownTools, 'invented', undefined),
})
const schedule = fc.array(fc.record({ passMs: passing, events: fc.array(known, { maxLength: 4 }) }), {
  minLength: 1,
  maxLength: 12,
})
const start = fc
  .constantFrom(0, 1, minuteMs - 1, hourMs - 1, 12 * hourMs + 30_000)
  .map((ms) => Date.UTC(2026, 1, 3) + ms)

let opened: TestDatabase
beforeAll(async () => {
  opened = await openTestDatabase()
  await migrate(opened.database, 0)
  await opened.database.prepareDays(0)
})
afterAll(() => opened[Symbol.asyncDispose]())

async function forgetEverything({ batch }: Database) {
  const tables = ['events', 'event_counts', 'tool_counts', 'event_minutes']
  await batch(tables.map((table) => CompiledQuery.raw(`delete from ${table}`)))
}

/** Stores the events of a schedule. Resolves with the stored events, and the time at the end. */
async function play(database: Database, startMs: number, steps: Step[]) {
  await forgetEverything(database)
  const clock = manualClock(startMs)
  const ingest = createIngest(
    { database, bus: createMemoryBus({ alone: true }), clock, metrics: createMetrics() },
    noAlerts,
  )
  const stored: Known[] = []
  for (const { passMs, events } of steps) {
    clock.advance(passMs)
    if (events.length === 0) continue
    const rows = events.map(({ severity, type, blocked, tool }) => {
      const metadata = { ...(tool === undefined ? {} : { toolName: tool }), ...(blocked ? { blocked } : {}) }
      const report = { severity, source: 'test', event_type: type, description: 'counted', metadata }
      return eventToStore(report, null, clock.now())
    })
    await ingest.store(rows)
    stored.push(...events.map((event) => ({ ...event, at: clock.now() })))
  }
  return { stored, end: clock.now() }
}

/** Moments at which an event is about to leave a window, or has just left it. */
function moments(stored: Known[], end: number): number[] {
  const edges = stored
    .slice(0, 4)
    .flatMap(({ at }) => [hourMs, dayMs, 30 * dayMs].flatMap((ms) => [at + ms, at + ms + 1]))
  return [end, end + 12_345, ...edges]
}

const countBy = (values: (string | undefined)[], names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, values.filter((value) => value === name).length]))
const isInjection = ({ type }: Known) => type === 'injection_blocked'
const isBlocked = ({ type, blocked }: Known) => blocked || type.endsWith('_blocked')
const isIncident = ({ severity }: Known) => severity === 'critical' || severity === 'breach'
const since = (stored: Known[], from: number) => stored.filter(({ at }) => at >= from)

async function assertCounts({ db }: Database, stored: Known[], now: number): Promise<void> {
  const [day, month] = [since(stored, now - dayMs), since(stored, now - 30 * dayMs)]
  expect(await severityCounts(db, now)).toEqual(
    countBy(
      day.map(({ severity }) => severity),
      severities,
    ),
  )
  const calls = since(stored, now - hourMs).filter(({ type }) => type === 'tool_call')
  expect(await toolCounts(db, now)).toEqual(
    countBy(
      calls.map(({ tool }) => tool),
      knownTools,
    ),
  )
  const { breaches, ...figures } = await readEventFigures(db, now)
  const count = (events: Known[], counts: (event: Known) => boolean) => events.filter(counts).length
  expect(figures).toEqual({
    injectionBlocks24h: count(day, isInjection),
    blocked24h: count(day, isBlocked),
    threats24h: count(day, ({ severity }) => severity !== 'info'),
    eventsToday: since(stored, now - (now % dayMs)).length,
    incidents30d: count(month, isIncident),
    critical24h: count(day, ({ severity }) => severity === 'critical'),
    critical30d: count(month, ({ severity }) => severity === 'critical'),
    mildInjections24h: count(day, (event) => isInjection(event) && !isIncident(event)),
    plainWarnings24h: count(day, (event) => !isInjection(event) && event.severity === 'warning'),
  })
  // Breaches are weighted by age, for which the minute is precise enough.
  const minutes = stored.filter(({ severity, at }) => severity === 'breach' && at - (at % minuteMs) >= now - 30 * dayMs)
  expect(breaches.reduce((sum, breach) => sum + breach.count, 0)).toBe(minutes.length)
}

describe('counts', () => {
  it('equal a count of every event by hand, at any time and after any clock change', async () => {
    await fc.assert(
      fc.asyncProperty(start, schedule, async (startMs, steps) => {
        const { stored, end } = await play(opened.database, startMs, steps)
        for (const now of moments(stored, end)) await assertCounts(opened.database, stored, now)
      }),
      { numRuns: 25 },
    )
  })

  it('include every severity and every known tool, even at zero', async () => {
    await forgetEverything(opened.database)
    const { db } = opened.database
    expect(await severityCounts(db, 0)).toEqual({ critical: 0, warning: 0, info: 0, breach: 0 })
    expect(await toolCounts(db, 0)).toEqual(Object.fromEntries(knownTools.map((tool) => [tool, 0])))
  })
})
