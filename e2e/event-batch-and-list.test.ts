import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Answer } from './call.ts'
import { expectRefusal, fields, uuid } from './expectations.ts'
import { allEvents, anEvent, postEvent, unique } from './fleet.ts'
import { type Service, startService } from './service.ts'
import type { BatchAnswer, EventPage } from './shapes.ts'

let service: Service
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service?.stop())

describe('POST /api/events/batch', () => {
  const sendArray = (events: unknown) => service.call<BatchAnswer>('POST', '/api/events/batch', { body: events })
  const sendLines = (raw: string) =>
    service.call<BatchAnswer>('POST', '/api/events/batch', { raw, headers: { 'content-type': 'application/x-ndjson' } })
  const expectAccepted = (answer: Answer) => expect([200, 201, 207], answer.text).toContain(answer.status)
  const rowsOf = async (descriptions: string[]) =>
    (await allEvents(service)).filter((row) => descriptions.includes(row.description))

  test('stores an array and answers { ok, ids, errors } with the ids in the order sent', async () => {
    const events = Array.from({ length: 25 }, () => anEvent())
    const answer = await sendArray(events)
    expectAccepted(answer)
    expect(fields(answer.body)).toEqual(['errors', 'ids', 'ok'])
    expect(answer.body).toMatchObject({ ok: true, errors: [] })
    expect(answer.body.ids).toHaveLength(25)
    const rows = await rowsOf(events.map((event) => event.description))
    const stored = events.map((event) => rows.find((row) => row.description === event.description)?.id)
    expect(answer.body.ids).toEqual(stored)
    for (const id of answer.body.ids) expect(id).toMatch(uuid)
  })

  test('stores one event for each line of NDJSON, with or without a last line break', async () => {
    const events = Array.from({ length: 4 }, () => anEvent())
    const lines = events.map((event) => JSON.stringify(event)).join('\n')
    for (const raw of [lines, `${lines}\n`, `${lines.replaceAll('\n', '\r\n')}\r\n`]) {
      const answer = await sendLines(raw)
      expectAccepted(answer)
      expect(answer.body.ids).toHaveLength(4)
      expect(answer.body.errors).toEqual([])
    }
    expect(await rowsOf(events.map((event) => event.description))).toHaveLength(12)
  })

  test('stores the valid events of a mixed batch and reports the invalid ones with reasons', async () => {
    const good = Array.from({ length: 3 }, () => anEvent())
    const bad = [
      { ...anEvent(), severity: 'fatal' },
      { ...anEvent(), source: 7 },
    ]
    const answer = await sendArray([good[0], bad[0], good[1], bad[1], good[2]])
    expect(answer.status, answer.text).toBeLessThan(500)
    expect(answer.body.errors.map((error) => error.index)).toEqual([1, 3])
    expect(answer.body.errors[0]?.error).toContain('severity must be info, warning, critical, or breach')
    expect(answer.body.errors[1]?.error).toContain('source')
    expect(await rowsOf(good.map((event) => event.description))).toHaveLength(3)
    expect(await rowsOf(bad.map((event) => event.description))).toHaveLength(0)
    expect(answer.body.ids.filter((id) => id !== null)).toHaveLength(3)
  })

  test('names the line that is not JSON and stores the others', async () => {
    const [first, last] = [anEvent(), anEvent()]
    const answer = await sendLines(`${JSON.stringify(first)}\n{"severity":\n${JSON.stringify(last)}\n`)
    expect(answer.status, answer.text).toBeLessThan(500)
    expect(answer.body.errors.map((error) => error.index)).toEqual([1])
    expect(await rowsOf([first.description, last.description])).toHaveLength(2)
  })

  test('accepts 1,000 events and refuses 1,001 without storing any', async () => {
    const mark = unique('bulk')
    const events = Array.from({ length: 1001 }, (_, index) => anEvent({ description: `${mark} ${index}` }))
    expectRefusal(await sendArray(events), [400, 413])
    expect((await allEvents(service)).filter((row) => row.description.startsWith(mark))).toHaveLength(0)
    const answer = await sendArray(events.slice(0, 1000))
    expectAccepted(answer)
    expect(new Set(answer.body.ids).size).toBe(1000)
    expect((await allEvents(service)).filter((row) => row.description.startsWith(mark))).toHaveLength(1000)
  })

  test('accepts a body between 256 KiB and 1 MiB and refuses a larger one', async () => {
    const metadata = { padding: 'x'.repeat(2_000) }
    const large = Array.from({ length: 300 }, () => anEvent({ metadata }))
    expect(JSON.stringify(large).length).toBeGreaterThan(512 * 1024)
    expectAccepted(await sendArray(large))
    const tooLarge = Array.from({ length: 500 }, () => anEvent({ metadata }))
    expect(JSON.stringify(tooLarge).length).toBeGreaterThan(1024 * 1024)
    expectRefusal(await sendArray(tooLarge), 413)
  })

  test.each([
    ['an object', { events: [] }],
    ['a string', 'events'],
    ['null', null],
  ])('refuses %s in place of the array', async (_title, body) => {
    expectRefusal(await sendArray(body), 400)
  })
})

describe('GET /api/events', () => {
  const page = (query: string) => service.call<EventPage>('GET', `/api/events${query}`)

  test('answers { events, next } with the newest first', async () => {
    const ids: string[] = []
    for (let index = 0; index < 3; index++) ids.push(await postEvent(service))
    const answer = await page('?limit=3')
    expect(answer.status).toBe(200)
    expect(fields(answer.body)).toEqual(['events', 'next'])
    expect(answer.body.events.map((row) => row.id)).toEqual(ids.reverse())
  })

  test('pages without gaps or duplicates while new events arrive', async () => {
    const ids: string[] = []
    for (let index = 0; index < 20; index++) ids.push(await postEvent(service))
    const seen: string[] = []
    let query = '?limit=6'
    for (let pages = 0; pages < 4; pages++) {
      const { body } = await page(query)
      expect(body.events.length).toBeLessThanOrEqual(6)
      seen.push(...body.events.map((row) => row.id))
      expect(body.next).toBeTypeOf('string')
      query = `?limit=6&before=${encodeURIComponent(body.next ?? '')}`
      await postEvent(service)
    }
    expect(seen.slice(0, 20)).toEqual(ids.reverse())
    expect(new Set(seen).size).toBe(seen.length)
  })

  test('ends with a next of null', async () => {
    const rows = await allEvents(service, 500)
    const numbers = rows.map((row) => row.seq)
    expect(new Set(numbers).size).toBe(rows.length)
    expect(numbers).toEqual([...numbers].sort((left, right) => right - left))
  })

  test.each(['0', '-1', 'many', '1.5', '1e3', '', '99999999999999999999'])('refuses limit=%s', async (limit) => {
    expectRefusal(await page(`?limit=${limit}`), 400, 'limit')
  })

  test('never returns more than 1,000 rows', async () => {
    const answer = await page('?limit=5000')
    if (answer.status === 200) expect(answer.body.events.length).toBeLessThanOrEqual(1000)
    else expectRefusal(answer, 400, 'limit')
  })

  test.each(['%00', 'abc%27--', '{}', '-5', '%F0%9F%A6%8A'])(
    'refuses before=%s as a cursor it never gave',
    async (before) => {
      expectRefusal(await page(`?limit=5&before=${before}`), 400, 'before')
    },
  )
})
