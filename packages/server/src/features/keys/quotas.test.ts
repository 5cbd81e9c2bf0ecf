import { type EventBatchReply, type KeyQuotas, type KeyView, quotaNames } from '@wardline/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { adminKey, openTestService, type TestService } from '../../testing/service.ts'
import { limitsOf, limitsOfConfiguredKey } from './quota-limits.ts'

let service: TestService
beforeAll(async () => {
  service = await openTestService()
})
afterAll(() => service[Symbol.asyncDispose]())

interface Made {
  id: string
  key: string
}
async function agent(quotas: KeyQuotas, instances = ['agent-1'], more: object = {}): Promise<Made> {
  const body = { scope: 'agent', name: 'limited', instances, quotas, ...more }
  const answer = await service.call<Made>('POST', '/api/keys', { body })
  expect(answer.status, answer.text).toBe(201)
  return answer.body
}

const note = (severity = 'info', description = 'x') => ({
  severity,
  source: 'agent',
  event_type: 'note',
  description,
  instance_id: 'agent-1',
})
const report = ({ key }: { key: string }, event: object = note()) =>
  service.call<{ error?: string }>('POST', '/api/events', { key, body: event })
const reportAll = ({ key }: { key: string }, events: object[]) =>
  service.call<EventBatchReply>('POST', '/api/events/batch', { key, body: events })
const check = ({ key }: { key: string }, text: string) =>
  service.call<{ matched?: boolean }>('POST', '/api/honeypots/check/key', { key, body: { key: text } })

const json = { 'content-type': 'application/json' }

/** Makes `count` calls one after the other, and counts their statuses. */
async function statuses(count: number, call: () => Promise<{ status: number }>): Promise<Record<number, number>> {
  const seen: Record<number, number> = {}
  for (let time = 0; time < count; time++) {
    const { status } = await call()
    seen[status] = (seen[status] ?? 0) + 1
  }
  return seen
}

interface Reported {
  description: string
  by_service: boolean
  severity: string
  instance_id: string | null
  metadata: { key_id: string; refused: Record<string, number>; quotas: Record<string, number> }
}
/** Returns the reports about refusals of a key, oldest first. */
async function reportsOf({ id }: Made): Promise<Reported[]> {
  await service.services.ingest.whenIdle()
  const path = '/api/events?event_type=quota_exceeded&limit=1000'
  const { body } = await service.call<{ events: Reported[] }>('GET', path)
  return body.events.filter(({ metadata }) => metadata.key_id === id).reverse()
}
async function minutePasses(): Promise<void> {
  service.clock.advance(60_000)
  await service.services.countedReports.run()
}

describe('a quota', () => {
  it('refuses further requests with 429, an error code, Retry-After, and how to raise it', async () => {
    const limited = await agent({ events_per_second: 2 })
    expect(await statuses(25, () => report(limited))).toEqual({ 201: 20, 429: 5 })
    const refused = await report(limited)
    expect(refused.headers).toMatchObject({ 'x-error-code': 'quota_exceeded', 'retry-after': '1' })
    expect(refused.body.error).toBe(
      `The quota of this key is used up: 2 events a second (events_per_second); "wardline keys quota ${limited.id} events_per_second=<number>" raises it.`,
    )
    service.clock.advance(1_000)
    expect(await statuses(5, () => report(limited))).toEqual({ 201: 2, 429: 3 })
  })

  it('of one key does not limit another key', async () => {
    const [flooder, quiet] = [await agent({ events_per_second: 1 }), await agent({ events_per_second: 1 })]
    await statuses(30, () => report(flooder))
    expect(await statuses(10, () => report(quiet))).toEqual({ 201: 10 })
  })

  // An agent that floods the service with minor events, or is made to, must still be able to report a breach.
  it('of ordinary events does not limit breaches, which have a separate quota', async () => {
    const limited = await agent({ events_per_second: 1, critical_events_per_second: 2, bytes_per_second: 300 })
    expect((await statuses(30, () => report(limited)))[429]).toBeGreaterThan(15)
    expect(await statuses(25, () => report(limited, note('breach')))).toEqual({ 201: 20, 429: 5 })
    expect((await report(limited, note('critical'))).headers['x-error-code']).toBe('quota_exceeded')
  })

  it('accepts a batch with a breach on credit, and another one after the bucket has refilled', async () => {
    const limited = await agent({ events_per_second: 1 })
    expect(await statuses(15, () => report(limited))).toEqual({ 201: 10, 429: 5 })
    const mixed = [note('breach'), ...Array.from({ length: 10 }, () => note())]
    expect(await statuses(3, () => reportAll(limited, mixed))).toEqual({ 200: 1, 429: 2 })
    expect((await reportAll(limited, [note('breach')])).status).toBe(200)
    service.clock.advance(10_000)
    expect(await statuses(2, () => reportAll(limited, mixed))).toEqual({ 200: 1, 429: 1 })
  })

  it('counts the events of a batch, and accepts a batch larger than its burst if the bucket is full', async () => {
    const limited = await agent({ events_per_second: 1 })
    const batch = Array.from({ length: 100 }, () => note())
    expect((await reportAll(limited, batch)).status).toBe(200)
    const refused = await reportAll(limited, batch)
    expect(refused.status).toBe(429)
    expect(refused.headers['retry-after']).toBe('100')
  })

  it('also limits bytes', async () => {
    const limited = await agent({ bytes_per_second: 1_000 })
    const large = note('info', 'y'.repeat(1_000))
    expect(await statuses(10, () => report(limited, large))).toEqual({ 201: 8, 429: 2 })
    expect((await report(limited, large)).body.error).toContain('1000 bytes of events a second')
  })

  // A client must not mistake a refusal for "no decoy".
  it('of checks refuses without a result, and the retry reports the match', async () => {
    const { body: decoy } = await service.call<{ key: string }>('POST', '/api/honeypots', {
      body: { instanceId: 'agent-1', type: 'api_key', keyType: 'openai' },
    })
    const limited = await agent({ checks_per_second: 1 })
    expect(await statuses(12, () => check(limited, 'harmless'))).toEqual({ 200: 10, 429: 2 })
    const refused = await check(limited, decoy.key)
    expect(refused.status).toBe(429)
    expect(refused.body).not.toHaveProperty('matched')
    service.clock.advance(Number(refused.headers['retry-after']) * 1_000)
    expect((await check(limited, decoy.key)).body).toEqual({ matched: true })
  })

  // Reading bodies of some kilobytes only to refuse them delayed kills.
  it('of checks refuses before the body is parsed', async () => {
    const limited = await agent({ checks_per_second: 1 })
    const invalidRequest = () =>
      service.call('POST', '/api/honeypots/check/path', { key: limited.key, body: '{"path":', headers: json })
    expect(await statuses(12, invalidRequest)).toEqual({ 400: 10, 429: 2 })
  })

  it('of checks is also charged for the work of a costly text', async () => {
    const limited = await agent({ checks_per_second: 10 })
    expect(await statuses(1, () => check(limited, '+ASt'.repeat(16_000)))).toEqual({ 200: 1 })
    const { 200: left = 0, 429: refused = 0 } = await statuses(99, () => check(limited, 'harmless'))
    expect(left).toBeLessThan(80)
    expect(refused).toBe(99 - left)
  })

  // One report of 1,000 characters can contain over 100 metrics, each of which can raise an anomaly.
  it('of events is also charged for the anomalies that the agent causes', async () => {
    const limited = await agent({ events_per_second: 1 })
    const metrics = (value: number) => ({
      ...note('info', JSON.stringify(Object.fromEntries([...'abcdefghijklmnop'].map((name) => [name, value])))),
      event_type: 'session_metrics',
    })
    for (let time = 0; time < 12; time++) {
      await report(limited, metrics(10 + (time % 3)))
      service.clock.advance(10_000)
    }
    expect((await report(limited, metrics(1e9))).status).toBe(201)
    const refused = await report(limited)
    expect(refused.status).toBe(429)
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(5)
  })

  it('of new instances limits registrations, but not heartbeats of known instances', async () => {
    const limited = await agent({ new_instances_per_hour: 2 }, ['fresh-*'])
    const beat = (id: string) =>
      service.call<{ error?: string }>('POST', '/api/heartbeat', {
        key: limited.key,
        body: { instance_id: id, name: 'x' },
      })
    const answers = await Promise.all(['fresh-1', 'fresh-1', 'fresh-2', 'fresh-3', 'fresh-4'].map(beat))
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429, 429])
    expect(answers[3]!.body.error).toContain('2 new instances an hour')
    expect(answers[3]!.headers['retry-after']).toBe('1800')
    expect(await statuses(5, () => beat('fresh-1'))).toEqual({ 200: 5 })
    expect(await service.rows("select id from instances where id like 'fresh-%' order by id")).toEqual([
      { id: 'fresh-1' },
      { id: 'fresh-2' },
    ])
    service.clock.advance(1_800_000)
    expect([(await beat('fresh-3')).status, (await beat('fresh-4')).status]).toEqual([200, 429])
  })

  it('of streams is released when a stream ends', async () => {
    const limited = await agent({ streams: 2 })
    const { quotas } = service.services
    const [first] = [quotas.openStream(limited.id), quotas.openStream(limited.id)]
    expect(() => quotas.openStream(limited.id)).toThrow('2 open streams')
    first()
    quotas.openStream(limited.id)()
    quotas.openStream(limited.id)
    expect(() => quotas.openStream(limited.id)).toThrow('2 open streams')
  })
})

describe('refusals by quota', () => {
  it('are reported once a minute for each key, with exact counts', async () => {
    const limited = await agent({ events_per_second: 1, checks_per_second: 1 }, ['agent-1'])
    let events = 0
    let checks = 0
    const flood = async () => {
      events += (await statuses(40, () => report(limited)))[429] ?? 0
      checks += (await statuses(20, () => check(limited, 'x')))[429] ?? 0
      if ((await reportAll(limited, [note(), note(), note()])).status === 429) events += 3
    }
    await flood()
    expect(await reportsOf(limited)).toHaveLength(1)
    service.clock.advance(59_999)
    await service.services.countedReports.run()
    expect(await reportsOf(limited)).toHaveLength(1)
    service.clock.advance(1)
    await service.services.countedReports.run()
    expect(await reportsOf(limited)).toHaveLength(2)
    await flood()
    await minutePasses()
    await minutePasses()
    const reports = await reportsOf(limited)
    expect(reports).toHaveLength(3)
    const sum = (name: string) => reports.reduce((total, { metadata }) => total + (metadata.refused[name] ?? 0), 0)
    expect({ events: sum('events_per_second'), checks: sum('checks_per_second') }).toEqual({ events, checks })
    expect(reports.at(-1)).toMatchObject({
      severity: 'warning',
      by_service: true,
      instance_id: 'agent-1',
      metadata: { key_id: limited.id, quotas: { events_per_second: 1, checks_per_second: 1 } },
    })
  })

  it('are counted by quota in the metrics', async () => {
    const limited = await agent({ events_per_second: 1 })
    const counted = async () => {
      const { values } = await service.deps.metrics.quotaRefusals.get()
      return values.find(({ labels }) => labels.quota === 'events_per_second')?.value ?? 0
    }
    const before = await counted()
    await statuses(13, () => report(limited))
    expect((await counted()) - before).toBe(3)
  })
})

describe('the quotas of a key', () => {
  const set = (id: string, quotas: unknown, key = adminKey) =>
    service.call<{ error?: string }>('PUT', `/api/keys/${id}/quotas`, { key, body: quotas })
  const view = async (id: string) =>
    (await service.call<{ keys: KeyView[] }>('GET', '/api/keys')).body.keys.find((key) => key.id === id)!

  it('are replaced immediately and audited, without refilling a bucket', async () => {
    const limited = await agent({ events_per_second: 1, streams: 3 })
    expect((await view(limited.id)).quotas).toEqual({ events_per_second: 1, streams: 3 })
    await statuses(11, () => report(limited))
    expect((await set(limited.id, { events_per_second: 5 })).body).toEqual({
      ok: true,
      id: limited.id,
      quotas: { events_per_second: 5 },
    })
    expect((await report(limited)).status).toBe(429)
    service.clock.advance(1_000)
    expect(await statuses(7, () => report(limited))).toEqual({ 201: 5, 429: 2 })
    expect((await view(limited.id)).quotas).toEqual({ events_per_second: 5 })
    const [entry] = await service.rows<{ before: string; after: string }>(
      `select before, after from audit_log where action = 'key.quotas' and target = '${limited.id}'`,
    )
    expect(JSON.parse(entry!.before)).toEqual({ quotas: { events_per_second: 1, streams: 3 } })
    expect(JSON.parse(entry!.after)).toEqual({ quotas: { events_per_second: 5 } })
    expect((await set(limited.id, { events_per_second: null })).status).toBe(200)
    expect(await statuses(30, () => report(limited))).toEqual({ 201: 30 })
  })

  it('apply in other processes after their next refresh, and carry over to a rotated key', async () => {
    await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
    const limited = await agent({})
    await set(limited.id, { events_per_second: 1 })
    await other.services.keyring.refresh()
    const answers = await statuses(12, () => other.call('POST', '/api/events', { key: limited.key, body: note() }))
    expect(answers).toEqual({ 201: 10, 429: 2 })
    const rotated = await service.call<Made>('POST', `/api/keys/${limited.id}/rotate`, { body: {} })
    expect((await view(rotated.body.id)).quotas).toEqual({ events_per_second: 1 })
  })

  it('are set by admins only, for a valid key, to positive integers or no limit', async () => {
    const limited = await agent({})
    expect((await set(limited.id, {}, limited.key)).status).toBe(403)
    expect((await set('00000000', {})).status).toBe(404)
    for (const bad of [0, -1, 1.5, '5', 1e10]) {
      const answer = await set(limited.id, { events_per_second: bad })
      expect(answer.status, String(bad)).toBe(400)
      expect(answer.body.error).toContain('events_per_second')
    }
    await service.call('DELETE', `/api/keys/${limited.id}`)
    expect((await set(limited.id, {})).status).toBe(404)
  })

  it('default to the agent settings, times ten for a key bound to a prefix, and to no limit for other scopes', () => {
    const { config } = service.deps
    const of = (scope: 'agent' | 'operator', instances: string[], quotas: KeyQuotas | null = null) =>
      limitsOf({ scope, instances: JSON.stringify(instances), quotas: quotas && JSON.stringify(quotas) }, config)
    expect(of('agent', ['bot-1', 'bot-2'])).toEqual({
      events_per_second: 500,
      critical_events_per_second: 50,
      bytes_per_second: 1_048_576,
      checks_per_second: 100,
      new_instances_per_hour: 100,
      streams: 200,
    })
    expect(of('agent', ['bot-*'])).toMatchObject({ events_per_second: 5_000, streams: 2_000 })
    expect(of('agent', ['bot-*'], { streams: 7, events_per_second: null })).toMatchObject({
      events_per_second: null,
      streams: 7,
      checks_per_second: 1_000,
    })
    const none = Object.fromEntries(quotaNames.map((name) => [name, null]))
    expect(of('operator', [])).toEqual(none)
    expect(of('operator', [], { checks_per_second: 3 })).toEqual({ ...none, checks_per_second: 3 })
    expect(limitsOfConfiguredKey(config)).toEqual(none)
  })

  it('come from the settings, and apply to WARDLINE_API_KEY if configured', async () => {
    await using strict = await openTestService({
      env: { WARDLINE_API_KEY_QUOTAS: 'true', WARDLINE_QUOTA_EVENTS: '1', WARDLINE_QUOTA_CHECKS: 'none' },
    })
    const call = (path: string, body: object) => () => strict.call('POST', path, { body })
    expect(await statuses(103, call('/api/events', note()))).toEqual({ 201: 100, 429: 3 })
    expect((await strict.call<{ error: string }>('POST', '/api/events', { body: note() })).body.error).toContain(
      'WARDLINE_QUOTA_',
    )
    expect(await statuses(50, call('/api/honeypots/check/key', { key: 'x' }))).toEqual({ 200: 50 })
  })
})
