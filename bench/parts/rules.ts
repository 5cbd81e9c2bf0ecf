import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { temporaryFolder } from '../cleanup.ts'
import { eventBody } from '../events.ts'
import { fillEvents } from '../fill-events.ts'
import { fillInstances } from '../fill-instances.ts'
import type { Figure } from '../report.ts'
import { pairedLoads, ratios, sideOf } from '../rounds.ts'
import { type Service, startService } from '../service.ts'
import { median, quantile } from '../statistics.ts'
import { measureBound, measureEvaluation, measureWorstEvent, rule, ruleCount } from './rules-alone.ts'

const eventBytes = 322
const roundCount = 6
/** The disk may still write data of the last round. */
const restMs = 2_000
/** Longer would be a fault of the rules. */
const maxCatchUpMs = 60_000
const connections = 64
/** An empty folder of rules, in place of the starter rules of a new database. */
const onlyOwnRules = () => ({ WARDLINE_RULES_DIR: temporaryFolder() })
/** High enough that the limit on suspensions does not end the measurement. */
const unbraked = { WARDLINE_AUTO_SUSPEND_PER_MINUTE: '10000', WARDLINE_AUTO_SUSPEND_FLEET_PERCENT: '100' }
const perSecond = 5_000
const batchEvents = 50
const stops = 300
/** Stops in the first two seconds of the load, while the code is not compiled yet: shown, but not in the figure. */
const coldStops = 40
const backtestEvents = 1_000_000
const backtestRounds = 3
const stopEveryMs = 50
const largeEvents = 5_000

async function addRules(service: Service): Promise<void> {
  for (let n = 0; n < ruleCount; n++) await service.call('POST', '/api/rules', [201], rule(n))
  // The runner checks for new rules twice a second.
  await sleep(1_500)
}

async function lagOf(service: Service): Promise<number> {
  const { text } = await service.call('GET', '/api/rules', [200])
  return JSON.parse(text).runner.lag_events
}

async function measureCost(): Promise<Figure> {
  const withRules = await startService(undefined, onlyOwnRules())
  const without = await startService(undefined, onlyOwnRules())
  await addRules(withRules)
  const bodies = Array.from({ length: 64 }, (_, n) => eventBody(n, eventBytes))
  const load = (name: string, service: Service) => ({
    name,
    port: service.port,
    connections,
    seconds: 4,
    expect: [201],
    requests: bodies.map((body) => service.prepare('POST', '/api/events', body)),
  })
  let lag = 0
  let longestMs = 0
  // Rules that catch up after a flood would slow down the other side.
  async function catchUp(): Promise<void> {
    lag = Math.max(lag, await lagOf(withRules))
    const startedAt = performance.now()
    while ((await lagOf(withRules)) > 0) {
      if (performance.now() - startedAt > maxCatchUpMs) throw new Error('The rules do not catch up.')
      await sleep(100)
    }
    longestMs = Math.max(longestMs, performance.now() - startedAt)
    await sleep(restMs)
  }
  const pairs = await pairedLoads(roundCount, load('with rules', withRules), load('without', without), catchUp)
  const rounds = ratios(pairs, (result) => result.perSecond)
  const figure = {
    name: `ingest with ${ruleCount} rules`,
    value: median(rounds),
    unit: '× without',
    min: 0.95,
    sides: [sideOf('with rules', pairs.a), sideOf('without', pairs.b)],
    rounds,
    notes: [`at most ${lag} events behind after a round, caught up ${(longestMs / 1_000).toFixed(1)} s later`],
    faults: pairs.faults,
  }
  await withRules.stop()
  await without.stop()
  return figure
}

/** Milliseconds from the commit of an event until its suspension was stored. */
async function measureResponse(): Promise<Figure> {
  const folder = temporaryFolder()
  const first = await startService(folder, onlyOwnRules())
  await first.stop(false)
  fillInstances(folder, coldStops + stops)
  const service = await startService(folder, unbraked)
  await addRules(service)
  await service.call('POST', '/api/rules', [201], {
    title: 'Stop at once',
    severity: 'critical',
    mode: 'enforce',
    detection: { trigger: { event_type: 'bench_trigger' }, condition: 'trigger' },
    response: [{ action: 'suspend' }],
    tests: { match: [[{ event_type: 'bench_trigger' }]], no_match: [[{ event_type: 'other' }]] },
  })
  await sleep(1_500)
  const database = new DatabaseSync(join(folder, 'wardline.db'), { readOnly: true })
  const ids = database.prepare('select id from instances order by id limit ?').all(coldStops + stops) as {
    id: string
  }[]
  const batches = Array.from({ length: 20 }, (_, at) =>
    Array.from({ length: batchEvents }, (_, n) => eventBody(at * batchEvents + n, eventBytes)),
  )
  let sent = 0
  const startedAt = performance.now()
  const isOver = () => performance.now() - startedAt > (coldStops + stops) * stopEveryMs
  const background = (async () => {
    const pending = new Set<Promise<unknown>>()
    while (!isOver()) {
      const due = ((performance.now() - startedAt) / 1_000) * perSecond
      while (sent < due) {
        const call = service.call(
          'POST',
          '/api/events/batch',
          [200, 503],
          batches[(sent / batchEvents) % batches.length],
        )
        pending.add(call)
        void call.finally(() => pending.delete(call))
        sent += batchEvents
      }
      await sleep(5)
    }
    await Promise.all(pending)
  })()
  for (const [index, { id }] of ids.entries()) {
    await sleep(Math.max(0, startedAt + index * stopEveryMs - performance.now()))
    const event = { severity: 'info', source: 'bench', event_type: 'bench_trigger', description: 'x', instance_id: id }
    void service.call('POST', '/api/events', [201, 503], event)
  }
  await background
  const seconds = (performance.now() - startedAt) / 1_000
  await sleep(2_000)
  const rows = database
    .prepare(`select coalesce(suspensions.stored_at, 9e15) - events.created_at as ms,
        firings.created_at - events.created_at as found, suspensions.requested_at - events.created_at as begun
      from suspensions join events on events.id = suspensions.event_id
      join rule_firings as firings on firings.event_id = events.id order by events.seq`)
    .all() as { ms: number; found: number; begun: number }[]
  database.close()
  await service.stop()
  const cold = rows.splice(0, coldStops)
  const sorted = (column: 'ms' | 'found' | 'begun') => Float64Array.from(rows.map((row) => Number(row[column]))).sort()
  const marks = (column: 'found' | 'begun') => [0.5, 0.99].map((p) => quantile(sorted(column), p)).join('/')
  const times = sorted('ms')
  return {
    name: `event to suspension at ${perSecond}/s, p99`,
    value: quantile(times, 0.99),
    unit: 'ms',
    max: 100,
    sides: [],
    notes: [
      `p50 ${quantile(times, 0.5)} ms, p95 ${quantile(times, 0.95)} ms over ${times.length} suspensions, ${ruleCount} rules, ${Math.round(sent / seconds)} events/s`,
      `p50/p99 in ms: found ${marks('found')}, suspension begun ${marks('begun')}`,
      `slowest in the first two seconds, while the code is not compiled yet: ${Math.max(...cold.map(({ ms }) => Number(ms)))} ms`,
    ],
    faults: rows.length === stops ? [] : [`${cold.length + rows.length} of ${coldStops + stops} were suspended`],
  }
}

/** A backtest over the events of a day, while the service handles small requests. */
async function measureBacktest(): Promise<Figure> {
  const folder = temporaryFolder()
  await (await startService(folder, onlyOwnRules())).stop(false)
  fillEvents(folder, backtestEvents)
  const service = await startService(folder)
  const document = {
    title: 'Many calls of the shell',
    severity: 'warning',
    detection: { shell: { event_type: 'tool_call', tool: 'shell-exec' }, condition: 'shell' },
    correlation: { type: 'event_count', 'group-by': ['instance_id'], timespan: '10m', condition: { gte: 5 } },
    response: [{ action: 'suspend', for: '15m' }, { action: 'suspend' }],
  }
  const from = new Date(Date.now() - 23 * 3_600_000).toISOString()
  const faults: string[] = []
  const times: number[] = []
  const waits: number[] = []
  let last: { firings: number; events_read: number; duration_ms: number } | undefined
  for (let round = 0; round < backtestRounds; round++) {
    let isRunning = true
    const startedAt = performance.now()
    const backtest = service.call('POST', '/api/rules/backtest', [200], { rule: document, from })
    void backtest.finally(() => {
      isRunning = false
    })
    while (isRunning) {
      const askedAt = performance.now()
      await service.call('GET', '/healthz', [200])
      waits.push(performance.now() - askedAt)
      await sleep(5)
    }
    last = JSON.parse((await backtest).text)
    if (last!.events_read < 0.97 * backtestEvents) faults.push(`only ${last!.events_read} events were read`)
    times.push(((performance.now() - startedAt) / last!.events_read) * 1_000)
  }
  await service.stop()
  const sorted = Float64Array.from(waits).sort()
  return {
    name: 'backtest of 1,000,000 events',
    value: median(times),
    unit: 's',
    max: 15,
    sides: [],
    rounds: times,
    notes: [
      `${last!.firings} firings in ${last!.events_read} events, ${last!.duration_ms} ms`,
      `another request meanwhile: p50 ${quantile(sorted, 0.5).toFixed(1)} ms, p99 ${quantile(sorted, 0.99).toFixed(1)} ms`,
    ],
    faults,
  }
}

/** The longest answer of /healthz in each backtest of 5,000 events with 16 KiB of metadata. */
async function measurePages(): Promise<Figure> {
  const service = await startService(undefined, onlyOwnRules())
  const large = { ...eventBody(0, eventBytes), metadata: { text: 'a word '.repeat(2_300) } }
  const batch = Array(batchEvents).fill(large)
  for (let sent = 0; sent < largeEvents; sent += batchEvents) {
    await service.call('POST', '/api/events/batch', [200], batch)
  }
  const detection = { a: { 'metadata.text|contains': 'zzzz' }, condition: 'a' }
  const from = new Date(Date.now() - 3_600_000).toISOString()
  const body = { rule: { title: 'A text', severity: 'warning', detection }, from }
  // The first backtest of a process loads what checks rules, once.
  await service.call('POST', '/api/rules/backtest', [200], { ...body, from: new Date().toISOString() })
  const rounds: number[] = []
  for (let round = 0; round < backtestRounds; round++) {
    let isRunning = true
    let longest = 0
    const backtest = service.call('POST', '/api/rules/backtest', [200], body)
    void backtest.finally(() => {
      isRunning = false
    })
    while (isRunning) {
      const askedAt = performance.now()
      await service.call('GET', '/healthz', [200])
      longest = Math.max(longest, performance.now() - askedAt)
    }
    const { events_read } = JSON.parse((await backtest).text)
    if (events_read !== largeEvents) throw new Error(`${events_read} of ${largeEvents} events were read.`)
    rounds.push(longest)
  }
  await service.stop()
  const name = 'backtest of events of 16 KiB, longest /healthz'
  return { name, value: median(rounds), unit: 'ms', max: 20, sides: [], rounds, notes: [], faults: [] }
}

/** Speed and memory of rules, their cost for ingest, the delay of their suspensions, and the duration of a backtest. */
export async function measureRules(): Promise<Figure[]> {
  return [
    measureEvaluation(),
    measureWorstEvent(),
    measureBound(),
    await measureCost(),
    await measureResponse(),
    await measureBacktest(),
    await measurePages(),
  ]
}
