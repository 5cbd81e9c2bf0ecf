import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectRefusal, fields, isoTime, uuid } from './expectations.ts'
import { allEvents, anEvent, createKey, postEvent, storedEvent, unique } from './fleet.ts'
import { isExternal, type Service, startService } from './service.ts'
import type { Created, StreamBody } from './shapes.ts'

const rowFields = [
  'by_service',
  'created_at',
  'description',
  'event_type',
  'id',
  'instance_id',
  'ip_address',
  'metadata',
  'observed_ip_address',
  'seq',
  'session_id',
  'severity',
  'source',
]

describe('POST /api/events', () => {
  let service: Service
  beforeAll(async () => {
    service = await startService()
  })
  afterAll(() => service?.stop())

  const send = (body: unknown, headers: Record<string, string> = {}) =>
    service.call<Created>('POST', '/api/events', { body, headers })

  test('answers 201 with exactly { ok: true, id } where the id is a UUID', async () => {
    const answer = await send(anEvent())
    expect(answer.status).toBe(201)
    expect(answer.body).toEqual({ ok: true, id: expect.stringMatching(uuid) })
  })

  test('stores every field as sent and lists the row with all its fields', async () => {
    const event = {
      severity: 'warning',
      source: 'édge-рроху 🦊',
      event_type: 'policy_violation_2',
      description: 'Line one\nline two\t"quoted" \\ <b>markup</b> & $(echo) \u202e end',
      instance_id: unique('reported'),
      session_id: unique('session'),
      metadata: { nested: { list: [1, 2.5, -3, null, true, 'x'], empty: {} }, 'odd key.$': 'ok' },
      ip_address: '203.0.113.7',
    } as const
    const before = Date.now()
    const { body } = await send(event)
    const row = await storedEvent(service, body.id)
    expect(fields(row)).toEqual(rowFields)
    expect(row.by_service).toBe(false)
    expect(row).toMatchObject({ id: body.id, ...event })
    expect(row.metadata).toEqual(event.metadata)
    expect(Number.isInteger(row.seq) && row.seq > 0).toBe(true)
    expect(row.created_at).toMatch(isoTime)
    // The clock of a service elsewhere may differ by some seconds.
    expect(Date.parse(row.created_at)).toBeGreaterThan(before - 5_000)
    expect(Date.parse(row.created_at)).toBeLessThan(Date.now() + 5_000)
  })

  test('lists missing fields as null', async () => {
    const row = await storedEvent(service, await postEvent(service))
    expect(fields(row)).toEqual(rowFields)
    expect(row).toMatchObject({ instance_id: null, session_id: null })
    expect([null, JSON.stringify({})]).toContain(row.metadata === null ? null : JSON.stringify(row.metadata))
  })

  test.each(['info', 'warning', 'critical', 'breach'] as const)('accepts the severity %s', async (severity) => {
    const row = await storedEvent(service, await postEvent(service, { severity }))
    expect(row.severity).toBe(severity)
  })

  test('lists the severities when it refuses one', async () => {
    for (const severity of ['fatal', 'INFO', '', 'info ', 3, null, undefined, ['info']]) {
      const answer = await send({ ...anEvent(), severity })
      expectRefusal(answer, 400, 'severity must be info, warning, critical, or breach')
    }
  })

  test('uses the address of the client if the body has none', async () => {
    const row = await storedEvent(service, await postEvent(service))
    if (!isExternal) expect(row.ip_address).toBe('127.0.0.1')
    else expect(row.ip_address).not.toBeNull()
    expect(row.observed_ip_address).toBe(row.ip_address)
  })

  // An attacker who could name its own address in a header would blame another host in every alert.
  test('ignores X-Forwarded-For from a peer that is not a trusted proxy', async () => {
    const headers = { 'x-forwarded-for': '198.51.100.66', 'x-real-ip': '198.51.100.66', forwarded: 'for=198.51.100.66' }
    const row = await storedEvent(service, await postEvent(service, {}, { headers }))
    expect(row.ip_address).not.toBe('198.51.100.66')
  })

  test.each(['203.0.113.9', '2001:db8::1', '::1'])(
    'keeps the address %s of the body beside that of the client, in lists and streams',
    async (address) => {
      const { ip_address: own } = await storedEvent(service, await postEvent(service))
      const stream = await service.openStream('/api/stream', { key: service.key })
      const id = await postEvent(service, { ip_address: address })
      const stored = { ip_address: address, observed_ip_address: own }
      expect(await storedEvent(service, id)).toMatchObject(stored)
      const { json } = await stream.next<StreamBody>((body) => body.type === 'event' && body.data.id === id)
      stream.close()
      expect(json).toMatchObject({ data: stored })
    },
  )

  test.each(['localhost', '203.0.113.9:80', '203.0.113', '203.0.113.256', '1.2.3.4, 5.6.7.8', 'http://1.2.3.4', ''])(
    'refuses %j as an address',
    async (address) => {
      expectRefusal(await send(anEvent({ ip_address: address })), 400, 'ip_address')
    },
  )

  test('accepts each text at its limit, counted in characters', async () => {
    const instanceId = 'a'.repeat(64)
    const limits = {
      source: '🦊'.repeat(100),
      event_type: 'x'.repeat(100),
      description: '🦊'.repeat(1000),
      instance_id: instanceId,
    }
    const row = await storedEvent(service, await postEvent(service, limits))
    expect(row).toMatchObject(limits)
  })

  test.each([
    ['source', '🦊'.repeat(101)],
    ['event_type', 'x'.repeat(101)],
    ['description', '🦊'.repeat(1001)],
    ['instance_id', 'a'.repeat(65)],
  ])('refuses %s one character over its limit', async (field, value) => {
    expectRefusal(await send({ ...anEvent(), [field]: value }), 400, field)
  })

  test.each(['Tool_Call', 'tool-call', 'tool call', 'tool.call', 'tööl', '', 'tool_call\n'])(
    'refuses %j as an event_type',
    async (eventType) => {
      expectRefusal(await send(anEvent({ event_type: eventType })), 400, 'event_type')
    },
  )

  test('stores session metrics whose description is a JSON object of numbers', async () => {
    const description = JSON.stringify({ tool_calls_per_5min: 12, shell_exec_count: 0, custom_metric: -1.5 })
    const row = await storedEvent(service, await postEvent(service, { event_type: 'session_metrics', description }))
    expect(row.description).toBe(description)
  })

  test.each([
    'calm',
    '[1,2]',
    'null',
    '42',
    '"{}"',
    '{"a":"1"}',
    '{"a":null}',
    '{"a":{"b":1}}',
    '{"a":1e400}',
    '{"a":1',
  ])('refuses %j as session metrics', async (description) => {
    const answer = await send(anEvent({ event_type: 'session_metrics', description }))
    expectRefusal(answer, 400, 'description')
  })

  test('does not create an instance for an event that names an unknown one', async () => {
    const instanceId = unique('ghost')
    await postEvent(service, { instance_id: instanceId })
    expectRefusal(await service.call('GET', `/api/instances/${instanceId}/status`), 404)
  })

  test('numbers events in the order of their commits', async () => {
    const ids: string[] = []
    for (let index = 0; index < 5; index++) ids.push(await postEvent(service))
    const rows = await allEvents(service)
    const numbers = ids.map((id) => rows.find((row) => row.id === id)?.seq ?? 0)
    expect(numbers).toEqual([...numbers].sort((left, right) => left - right))
    expect(new Set(numbers).size).toBe(5)
  })

  test('gives each of many simultaneous events a separate id and number, and stores them all', async () => {
    const descriptions = Array.from({ length: 200 }, () => unique('crowd'))
    const ids = await Promise.all(descriptions.map((description) => postEvent(service, { description })))
    expect(new Set(ids).size).toBe(200)
    const rows = (await allEvents(service)).filter((row) => descriptions.includes(row.description))
    expect(rows).toHaveLength(200)
    expect(new Set(rows.map((row) => row.seq)).size).toBe(200)
    expect(rows.every((row) => ids[descriptions.indexOf(row.description)] === row.id)).toBe(true)
  })

  test('answers a repeated Idempotency-Key with the first id and stores no second row', async () => {
    const headers = { 'idempotency-key': unique('once') }
    const event = anEvent()
    const first = await send(event, headers)
    const second = await send(event, headers)
    expect(first.status).toBe(201)
    expect([200, 201]).toContain(second.status)
    expect(second.body).toEqual(first.body)
    const rows = (await allEvents(service)).filter((row) => row.description === event.description)
    expect(rows).toHaveLength(1)
  })

  test('stores one row for twenty concurrent requests with the same Idempotency-Key', async () => {
    const headers = { 'idempotency-key': unique('race') }
    const event = anEvent()
    const answers = await Promise.all(Array.from({ length: 20 }, () => send(event, headers)))
    expect(new Set(answers.map((answer) => answer.body.id)).size, answers[0]?.text).toBe(1)
    const rows = (await allEvents(service)).filter((row) => row.description === event.description)
    expect(rows).toHaveLength(1)
  })

  // A caller who could claim another's idempotency key would learn its event id and silence its report.
  test('separates the Idempotency-Keys of two callers', async () => {
    const otherCaller = await createKey(service, { scope: 'admin' })
    const headers = { 'idempotency-key': unique('shared') }
    const mine = await postEvent(service, {}, { headers })
    const theirs = await postEvent(service, {}, { headers, key: otherCaller })
    expect(theirs).not.toBe(mine)
    await storedEvent(service, theirs)
  })

  test('stores text that looks like SQL, templates or terminal control as plain text', async () => {
    for (const description of [
      "'); DROP TABLE security_events; --",
      '{{7*7}} %s %n <%= 7 %>',
      '\u001b[2J\u001b[31mred\u0007',
      '=cmd()',
    ]) {
      const row = await storedEvent(service, await postEvent(service, { description, source: description }))
      expect(row).toMatchObject({ description, source: description })
    }
  })
})

describe.skipIf(isExternal)('POST /api/events behind a trusted proxy', () => {
  let service: Service
  beforeAll(async () => {
    service = await startService({ env: { WARDLINE_TRUSTED_PROXIES: '127.0.0.1/32,10.0.0.0/8' } })
  })
  afterAll(() => service?.stop())

  const addressSeen = async (forwarded: string) => {
    const headers = { 'x-forwarded-for': forwarded }
    return (await storedEvent(service, await postEvent(service, {}, { headers }))).ip_address
  }

  test('uses the address that the trusted proxy saw', async () => {
    expect(await addressSeen('203.0.113.20')).toBe('203.0.113.20')
    expect(await addressSeen('203.0.113.20, 10.1.2.3')).toBe('203.0.113.20')
  })

  // The left end of the header is written by the client; believing it would let an attacker choose its address.
  test('uses the rightmost address that is not a trusted proxy, not the leftmost', async () => {
    expect(await addressSeen('198.51.100.66, 203.0.113.20')).toBe('203.0.113.20')
    expect(await addressSeen('127.0.0.1, 198.51.100.66, 203.0.113.20, 10.1.2.3')).toBe('203.0.113.20')
  })

  test('survives an invalid forwarded address', async () => {
    const headers = { 'x-forwarded-for': 'unknown, "><script>' }
    const answer = await service.call('POST', '/api/events', { body: anEvent(), headers })
    expect([201, 400]).toContain(answer.status)
  })
})
