import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { effort } from '../../../test-servers/effort.ts'
import { keyCheckUnits, pathCheckUnits } from './features/honeypots/decoy-search.ts'
import { KeySearch } from './features/honeypots/key-extraction.ts'
import { lookupKeys, pathForms } from './features/honeypots/path-forms.ts'
import { type Method, openTestService, type TestService } from './testing/service.ts'
import { type Slices, sliceUnits, WorkBudget } from './work-turns.ts'

/** The service guarantees 20 ms of CPU time of its thread. The guard leaves room for a loaded machine. */
const guardMs = 250

const searchMs = effort(60_000, 3_600_000)

/** CPU time of this thread, which excludes other work of the machine. */
const threadMs = (): number => {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

/** Records the cost of each slice. */
class CountingBudget extends WorkBudget {
  sinceYield = 0
  total = 0
  override take(units: number): boolean {
    const isPaid = super.take(units)
    if (isPaid) {
      this.sinceYield += units
      this.total += units
    }
    return isPaid
  }
}

interface Cost {
  /** Units of the most expensive slice, and of all slices. */
  slice: number
  total: number
  ms: number
}

function costOf(units: number, work: (budget: WorkBudget) => Slices<unknown>): Cost {
  const budget = new CountingBudget(units)
  const steps = work(budget)
  const cost: Cost = { slice: 0, total: 0, ms: 0 }
  for (let isDone = false; !isDone; ) {
    budget.sinceYield = 0
    const startedAt = threadMs()
    isDone = steps.next().done === true
    cost.ms = Math.max(cost.ms, threadMs() - startedAt)
    cost.slice = Math.max(cost.slice, budget.sinceYield)
  }
  return { ...cost, total: budget.total }
}

const texts = (units: readonly string[], length: number) =>
  fc
    .array(fc.tuple(fc.constantFrom(...units), fc.integer({ min: 1, max: 4_000 })), { minLength: 1, maxLength: 6 })
    .map((parts) => {
      let text = ''
      for (let round = 0; text.length < length; round++) {
        for (const [unit, times] of parts) text += unit.replaceAll('9', String(round)).repeat(times)
      }
      return text.slice(0, length)
    })

/** Searches for the most expensive input, prints it, and checks every input against the limits. */
function searchWorst<Input>(
  name: string,
  inputs: fc.Arbitrary<Input>,
  budgetUnits: number,
  work: (input: Input, budget: WorkBudget) => Slices<unknown>,
): void {
  const seed = Date.now() & 0x7fffffff
  let worst: { cost: Cost; input: Input } | undefined
  fc.assert(
    fc.property(inputs, (input) => {
      const cost = costOf(budgetUnits, (budget) => work(input, budget))
      if (worst === undefined || cost.ms > worst.cost.ms) worst = { cost, input }
      expect(cost.total).toBeLessThanOrEqual(budgetUnits)
      // A single step is never split: a decoding of the longest reading, or the spellings of one text.
      expect(cost.slice).toBeLessThan(sliceUnits + largestStep)
      expect(cost.ms).toBeLessThan(guardMs)
    }),
    { seed, numRuns: effort(40, 5_000) },
  )
  const { cost, input } = worst!
  const shown = JSON.stringify(input).slice(0, 100)
  console.log(`${name}: ${cost.ms.toFixed(1)} ms of ${cost.slice} units in one slice, ${shown}, seed ${seed}`)
}

/** Units per character of a reading that the most expensive decoding costs. */
const largestStep = 68 * 64 * 1024

const keyUnits =
  '\\|"| |%25|VVVV|sk-proj-|8Q~|+ASt|/aB1|\ufdfa|41|" + |\\\\n|1\n|+\n|%41\\u0041|0x41, |115,|&#65;|=41|MFRGG|ac|eJwA|H4sI|chr(0x41)+|a |AKIAQ9|aB19 |\u0000|🦀|9'
const pathUnits =
  "cd a;|cd 9;|../|9 |~\\9 |%25%2e |a,|'|\"|{a,|\ufdfa|a/|tar c 9;|$'\\x7e' |*/|~/.a*/c* |-C 9 |file:|a=|:|\\|\u0000|🦀|find ~ |/proc/self/cwd/"

// Any agent key can send such a text. While a check blocks the event loop, no kill is sent.
describe('no text accepted by a check blocks the event loop', () => {
  test(
    'as a key',
    () => {
      const inputs = texts(keyUnits.split('|'), 64 * 1024)
      searchWorst('key check', inputs, keyCheckUnits, function* (text, budget) {
        const search = new KeySearch(text, budget)
        yield* search.plainCandidates()
        yield* search.nestedCandidates()
      })
    },
    searchMs,
  )

  test(
    'as a path',
    () => {
      const command = texts(pathUnits.split('|'), 4_000)
      const folder = fc.constantFrom('/home/x', `/home/x/${'y/'.repeat(1_900)}`, `/home/x/${'y/'.repeat(900)}`, 'a/b')
      searchWorst('path check', fc.tuple(command, folder), pathCheckUnits, function* ([text, cwd], budget) {
        const forms = yield* pathForms(text, { cwd, realPath: cwd }, budget)
        yield* lookupKeys([...forms.keys()], budget)
      })
    },
    searchMs,
  )
})

let service: TestService
beforeAll(async () => {
  service = await openTestService()
  for (const path of ['~/.aws/credentials', '/srv/app/secrets/*.pem', '.env.production']) {
    await service.call('POST', '/api/honeypots', { body: { instanceId: 'bot-1', type: 'file_path', path } })
  }
})
afterAll(() => service[Symbol.asyncDispose]())

/** Longest time for which the request blocked the event loop. */
async function longestHold(request: () => Promise<unknown>): Promise<number> {
  let isOver = false
  let longest = 0
  const watched = (async () => {
    while (!isOver) {
      const startedAt = threadMs()
      await new Promise(setImmediate)
      longest = Math.max(longest, threadMs() - startedAt)
    }
  })()
  await request()
  isOver = true
  await watched
  return longest
}

const fill = (unit: (index: number) => string, length: number): string => {
  let text = ''
  for (let index = 0; text.length < length; index++) text += unit(index)
  return text
}
const list = (unit: (index: number) => string, length: number) => `[${fill(unit, length - 20)}0]`
const cd = 'cd a;'.repeat(819)
const deep = `/home/x/${'y/'.repeat(1_900)}`
const anEvent = { severity: 'info', source: 'a', event_type: 'b', description: 'c' }
const kib = 1024

const requests: Record<string, [Method, string, unknown?]> = {
  'a change of folder': ['POST', '/api/honeypots/check/path', { path: cd, meta: { cwd: deep } }],
  'a change of folder, resolved': [
    'POST',
    '/api/honeypots/check/path',
    { path: cd, meta: { cwd: deep, realPath: deep } },
  ],
  'words in a deep folder': [
    'POST',
    '/api/honeypots/check/path',
    { path: fill((index) => `${index.toString(36)} `, 4_000), meta: { cwd: '/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q' } },
  ],
  'sweeps of a deep folder': [
    'POST',
    '/api/honeypots/check/path',
    { path: fill((index) => `tar c ${index};`, 4_000), meta: { cwd: deep } },
  ],
  'globs in a deep folder': [
    'POST',
    '/api/honeypots/check/path',
    { path: fill((index) => `credentials${index}* `, 4_000), meta: { cwd: deep } },
  ],
  'text of many encodings': [
    'POST',
    '/api/honeypots/check/key',
    { key: fill((index) => `%4${index % 10}"\\u0041${btoa(`%41 ${index}`)}`, 65_000) },
  ],
  'marks of keys': ['POST', '/api/honeypots/check/key', { key: '+ASt'.repeat(16_000) }],
  'many shapes of objects': ['POST', '/api/events', list((index) => `{"${index.toString(36)}":0},`, 256 * kib)],
  'few enough shapes': ['POST', '/api/events', list((index) => `{"${index.toString(36)}":0},`, 80 * kib)],
  'empty lists': ['POST', '/api/events', list(() => '[],', 256 * kib)],
  'an event with many fields': [
    'POST',
    '/api/events',
    { ...anEvent, metadata: Object.fromEntries(Array.from({ length: 1_500 }, (_, index) => [`f${index}`, 0])) },
  ],
  'a batch of small objects': [
    'POST',
    '/api/events/batch',
    list((index) => `{"${index.toString(36)}":0},`, 1024 * kib),
  ],
  'a batch of events': [
    'POST',
    '/api/events/batch',
    JSON.stringify(
      Array.from({ length: 1_000 }, (_, index) => ({ ...anEvent, metadata: { text: 'x'.repeat(800), index } })),
    ),
  ],
  'a batch of refused events': [
    'POST',
    '/api/events/batch',
    JSON.stringify(Array.from({ length: 1_000 }, () => ({ ...anEvent, source: 7 }))),
  ],
  'a batch of empty lines': ['POST', '/api/events/batch', '\n'.repeat(1024 * kib)],
  'a list filter': ['GET', `/api/events?q=${encodeURIComponent('%_'.repeat(100))}&limit=1000`],
  'a long query': ['GET', `/api/events?${fill((index) => `a${index}=%41&`, 7_000)}`],
  'a silence': [
    'POST',
    '/api/silences',
    {
      match: {
        types: Array.from({ length: 100 }, (_, index) => `a${index}*`),
        instances: Array.from({ length: 100 }, () => 'b*'),
      },
      reason: 'x'.repeat(500),
      ends_at: '2026-01-16T00:00:00Z',
    },
  ],
  'a route': [
    'POST',
    '/api/alert-routes',
    {
      name: 'x',
      match: { types: Array.from({ length: 100 }, () => 'a*') },
      channels: Array.from({ length: 100 }, (_, index) => `c${index}`),
    },
  ],
  'a channel': [
    'POST',
    '/api/alert-channels',
    {
      id: 'c',
      name: 'c',
      type: 'webhook',
      settings: {
        url: `https://a.test/${'x'.repeat(1_900)}`,
        headers: Object.fromEntries(Array.from({ length: 3_000 }, (_, index) => [`h${index}`, 'v'])),
      },
    },
  ],
  'a key': ['POST', '/api/keys', { scope: 'agent', name: 'x', instances: Array.from({ length: 20_000 }, () => 'a*') }],
  'a decoy': ['POST', '/api/honeypots', { instanceId: 'bot-1', type: 'file_path', path: '/a'.repeat(512) }],
  'a decoy pattern': [
    'POST',
    '/api/honeypots',
    { instanceId: 'bot-1', type: 'file_path', path: `/srv/${'a/b*/'.repeat(16)}secrets/credentials` },
  ],
}

// Any key can send these bodies, some of which could block the event loop for seconds.
test.each(Object.entries(requests))('%s is processed in slices', async (name, [method, url, body]) => {
  const text = typeof body === 'string' || body === undefined ? body : JSON.stringify(body)
  const headers: Record<string, string> = name.includes('lines') ? { 'content-type': 'application/x-ndjson' } : {}
  let status = 0
  const holds: number[] = []
  for (let round = 0; round < 3; round++) {
    const request = async () => {
      status = (await service.call(method, url, { body: text, headers })).status
    }
    holds.push(await longestHold(request))
  }
  expect(status).toBeLessThan(500)
  console.log(`${name}: ${status}, held for ${Math.min(...holds).toFixed(1)} ms`)
  expect(Math.min(...holds)).toBeLessThan(guardMs)
})
