import type { RouteView, SilenceView } from '@wardline/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isoTime } from '../../../clock.ts'
import { openTestService, type TestService } from '../../../testing/service.ts'

let service: TestService
beforeAll(async () => {
  service = await openTestService()
})
afterAll(() => service[Symbol.asyncDispose]())

interface Answered {
  id: string
  error?: string
}
const post = (url: string, body: object) => service.call<Answered>('POST', url, { body })
const newChannel = async () =>
  (await post('/api/alert-channels', { name: 'c', type: 'pagerduty', settings: { routing_key: 'R0'.repeat(16) } })).body
    .id
const routes = async () => (await service.call<{ routes: RouteView[] }>('GET', '/api/alert-routes')).body.routes
const silences = async () => (await service.call<{ silences: SilenceView[] }>('GET', '/api/silences')).body.silences
const current = () => service.services.routingTable.current
const audited = async (target: string) =>
  (
    await service.rows<{ action: string; before: string; after: string; target: string }>(
      'select * from audit_log order by seq',
    )
  )
    .filter((row) => row.target === target)
    .map(({ action, before, after }) => ({ action, before: JSON.parse(before), after: JSON.parse(after) }))
const unknownId = '01970000-0000-7000-8000-000000000000'

describe('a route', () => {
  it('applies after it is created, and contains each channel once', async () => {
    const channel = await newChannel()
    const route = { name: 'Database', match: { instances: ['db-*'] }, channels: [channel, channel] }
    const { status, body } = await post('/api/alert-routes', route)
    expect([status, body]).toEqual([201, { ok: true, id: body.id }])
    expect(await routes()).toEqual([
      { ...route, id: body.id, channels: [channel], created_at: isoTime(service.clock.now()) },
    ])
    expect(current().routes).toEqual([{ match: route.match, channels: [channel] }])
    expect(await audited(body.id)).toEqual([
      {
        action: 'alert_route.create',
        before: null,
        after: { name: 'Database', match: route.match, channels: [channel] },
      },
    ])
  })

  it('is replaced as a whole, and deleted', async () => {
    const [one, other] = [await newChannel(), await newChannel()]
    const first = { name: 'a', match: { severities: ['breach'] }, channels: [one] }
    const second = { name: 'b', match: {}, channels: [other] }
    const { id } = (await post('/api/alert-routes', first)).body
    const replaced = await service.call('PUT', `/api/alert-routes/${id}`, { body: second })
    expect([replaced.status, replaced.body]).toEqual([200, { ok: true, id }])
    expect((await routes()).find((route) => route.id === id)).toMatchObject(second)
    expect((await service.call('DELETE', `/api/alert-routes/${id}`)).body).toEqual({ ok: true, id })
    expect((await routes()).find((route) => route.id === id)).toBeUndefined()
    expect(current().routes.some(({ channels }) => channels.includes(other))).toBe(false)
    expect(await audited(id)).toEqual([
      { action: 'alert_route.create', before: null, after: first },
      { action: 'alert_route.change', before: first, after: second },
      { action: 'alert_route.delete', before: second, after: null },
    ])
  })

  it('that is unknown gets 404', async () => {
    const body = { name: 'a', match: {}, channels: [await newChannel()] }
    expect((await service.call('PUT', `/api/alert-routes/${unknownId}`, { body })).status).toBe(404)
    expect((await service.call('DELETE', `/api/alert-routes/${unknownId}`)).status).toBe(404)
  })

  it('loses a channel that is deleted, and is deleted with its last channel', async () => {
    const [going, staying] = [await newChannel(), await newChannel()]
    const both = (await post('/api/alert-routes', { name: 'both', match: {}, channels: [going, staying] })).body.id
    const alone = (await post('/api/alert-routes', { name: 'alone', match: {}, channels: [going] })).body.id
    await service.call('DELETE', `/api/alert-channels/${going}`)
    const left = await routes()
    expect(left.find(({ id }) => id === both)?.channels).toEqual([staying])
    expect(left.find(({ id }) => id === alone)).toBeUndefined()
    // Both were created in the same millisecond, so their order is random.
    const changed: { id: string }[] = (await audited(going)).at(-1)!.before.routes
    expect(changed.toSorted((one, other) => (one.id === both ? -1 : other.id === both ? 1 : 0))).toEqual([
      { id: both, name: 'both', deleted: false },
      { id: alone, name: 'alone', deleted: true },
    ])
  })

  it.each<[string, object, string]>([
    ['no name', { name: undefined }, 'name is required.'],
    ['a blank name', { name: ' ' }, 'name must not be blank.'],
    ['no match', { match: undefined }, 'match is required.'],
    ['an unknown part', { match: { text: 'x' } }, 'match.text is not a known field.'],
    ['an unknown severity', { match: { severities: ['high'] } }, 'match.severities.0 must be info,'],
    ['no types', { match: { types: [] } }, 'match.types must have at least 1 entries.'],
    [
      'a star inside',
      { match: { types: ['a*b'] } },
      'match.types.0 must be a type of event, or a prefix followed by *.',
    ],
    ['a strange instance', { match: { instances: ['A'] } }, 'match.instances.0 must be an instance id,'],
    ['no channels', { channels: [] }, 'channels must have at least 1 entries.'],
    ['a strange channel', { channels: ['x'] }, 'channels.0 must be a UUID, or env-<type>'],
    ['an unknown channel', { channels: [unknownId] }, `channels contains the unknown channel ${unknownId}.`],
    ['one of another environment', { channels: ['env-slack'] }, 'channels contains the unknown channel env-slack.'],
  ])('with %s is refused, and the error names the field', async (_what, part, sentence) => {
    const before = await routes()
    const good = { name: 'a', match: {}, channels: [await newChannel()] }
    const id = (await post('/api/alert-routes', good)).body.id
    for (const [method, url] of [
      ['POST', '/api/alert-routes'],
      ['PUT', `/api/alert-routes/${id}`],
    ] as const) {
      const answer = await service.call<Answered>(method, url, { body: { ...good, ...part } })
      expect([answer.status, answer.body.error]).toEqual([400, expect.stringContaining(sentence)])
    }
    await service.call('DELETE', `/api/alert-routes/${id}`)
    expect(await routes()).toEqual(before)
  })

  it('is refused if there are already 200', async () => {
    await using full = await openTestService()
    const body = { name: 'c', type: 'pagerduty', settings: { routing_key: 'R0'.repeat(16) } }
    const channel = (await full.call<Answered>('POST', '/api/alert-channels', { body })).body.id
    const rows = Array.from({ length: 199 }, (_, index) => `('r${index}', 'r', '{}', '["${channel}"]', 1)`)
    await full.execute(`insert into alert_routes (id, name, match, channels, created_at) values ${rows.join()}`)
    const route = { body: { name: 'a', match: {}, channels: [channel] } }
    expect((await full.call('POST', '/api/alert-routes', route)).status).toBe(201)
    const { status, body: refusal } = await full.call<Answered>('POST', '/api/alert-routes', route)
    expect([status, refusal.error]).toEqual([400, 'There are 200 routes, the maximum: delete one first.'])
  })
})

describe('a silence', () => {
  const inSeconds = (seconds: number) => isoTime(service.clock.now() + seconds * 1_000)
  const maintenance = { match: { instances: ['db-1'] }, reason: 'Maintenance' }

  it('is listed until its end, with the key that created it', async () => {
    const { id: keyId, key } = await service.createKey('operator')
    const ends_at = inSeconds(60)
    const { status, body } = await service.call<Answered>('POST', '/api/silences', {
      key,
      body: { ...maintenance, ends_at },
    })
    expect([status, body]).toEqual([201, { ok: true, id: body.id }])
    expect(await silences()).toEqual([
      {
        id: body.id,
        ...maintenance,
        created_by: keyId,
        created_by_name: expect.stringMatching(/\S/),
        created_at: isoTime(service.clock.now()),
        ends_at,
      },
    ])
    expect(current().silences).toEqual([{ match: maintenance.match, ends_at: Date.parse(ends_at) }])
    service.clock.advance(60_000)
    expect(await silences()).toEqual([])
    expect((await service.call('DELETE', `/api/silences/${body.id}`)).status).toBe(404)
    expect(await audited(body.id)).toEqual([
      { action: 'silence.create', before: null, after: { ...maintenance, ends_at } },
    ])
  })

  it('ends immediately if it is deleted', async () => {
    const { id } = (await post('/api/silences', { ...maintenance, ends_at: inSeconds(60) })).body
    expect((await service.call('DELETE', `/api/silences/${id}`)).body).toEqual({ ok: true, id })
    expect(await silences()).toEqual([])
    expect(current().silences).toEqual([])
    expect((await audited(id)).map(({ action }) => action)).toEqual(['silence.create', 'silence.end'])
    expect((await service.call('DELETE', `/api/silences/${id}`)).status).toBe(404)
  })

  it('may last a year, with its end in any time zone', async () => {
    const year = isoTime(service.clock.now() + 365 * 86_400_000).replace('Z', '+02:00')
    expect((await post('/api/silences', { ...maintenance, ends_at: year })).status).toBe(201)
  })

  it.each<[string, () => object, string]>([
    ['no match', () => ({ match: undefined }), 'match is required.'],
    ['no reason', () => ({ reason: undefined }), 'reason is required.'],
    ['a blank reason', () => ({ reason: ' ' }), 'reason must not be blank.'],
    ['no end', () => ({ ends_at: undefined }), 'ends_at is required.'],
    ['an end that is none', () => ({ ends_at: 'tomorrow' }), 'ends_at must be a valid date-time.'],
    ['an end that is now', () => ({ ends_at: inSeconds(0) }), 'ends_at must be in the future.'],
    ['an end too far', () => ({ ends_at: inSeconds(367 * 86_400) }), 'ends_at must be within a year.'],
  ])('with %s is refused, and the error names the field', async (_what, part, sentence) => {
    const answer = await post('/api/silences', { ...maintenance, ends_at: inSeconds(60), ...part() })
    expect([answer.status, answer.body.error]).toEqual([400, sentence])
  })

  it('is refused if there are already 1,000 that have not ended', async () => {
    await using full = await openTestService()
    const row = (index: number) => `('s${index}', '{}', 'r', 'k', 1, ${index === 0 ? 1 : full.clock.now() + 60_000})`
    const rows = Array.from({ length: 1_000 }, (_, index) => row(index))
    await full.execute(
      `insert into silences (id, match, reason, created_by, created_at, ends_at) values ${rows.join()}`,
    )
    const body = { ...maintenance, ends_at: isoTime(full.clock.now() + 60_000) }
    expect((await full.call('POST', '/api/silences', { body })).status).toBe(201)
    const { status, body: refusal } = await full.call<Answered>('POST', '/api/silences', { body })
    expect([status, refusal.error]).toEqual([400, 'There are 1000 silences, the maximum: end one first.'])
  })
})
