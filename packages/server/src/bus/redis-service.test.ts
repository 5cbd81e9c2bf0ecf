import { RedisClient } from '@redis/client'
import type { ApprovalAnswer, EventRow, StreamedRow } from '@wardline/contract'
import { alertTypes, eventTypes, StreamMessage } from '@wardline/contract'
import { Compile } from 'typebox/schema'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it, vi } from 'vitest'
import { startRedis, type TestRedis } from '../../../../test-servers/redis.ts'
import { createApp } from '../app.ts'
import type { Deps } from '../deps.ts'
import { controlMessage } from '../features/control/control-message.ts'
import { listJobs, startJobs } from '../jobs.ts'
import { closeStreams, openServices, type Services } from '../services.ts'
import { askingCall, hashOf } from '../testing/approvals.ts'
import { adminKey, openTestService, type TestService } from '../testing/service.ts'
import { RedisBus } from './redis.ts'

// Two services in one process share a test database of any engine, to test the backplane between them.

/** Timeout for everything that is expected to happen. */
const deadline = { timeout: 60_000, interval: 10 }
const isStreamMessage = Compile(StreamMessage)

interface Member extends AsyncDisposable {
  deps: Deps
  services: Services
  base: TestService
  url: string
  bus: RedisBus
  call(method: string, path: string, body?: unknown, key?: string): Promise<{ status: number; body: never }>
  metric(sample: string): Promise<string | undefined>
}

/** Opens a listening service connected to Redis, on the database of `beside` if given. */
async function openMember(redisUrl: string, beside?: Member): Promise<Member> {
  const base = await openTestService(beside ? { dataDir: beside.deps.config.dataDir, clock: beside.base.clock } : {})
  const { clock, log, metrics, secrets } = base.deps
  const channels = { eventsChannel: 'test:events', controlChannel: 'test:control' }
  const bus = new RedisBus({ url: () => redisUrl, ...channels, clock, log, metrics, secrets })
  await bus.open()
  const deps = { ...base.deps, bus, database: { ...base.deps.database, isShared: true } }
  const services = await openServices(deps)
  const app = await createApp(deps, services)
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  return {
    deps,
    services,
    base,
    url,
    bus,
    async call(method, path, body, key = adminKey) {
      const response = await fetch(url + path, {
        method,
        headers: { 'x-monitor-key': key, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      const text = await response.text()
      return { status: response.status, body: (text ? JSON.parse(text) : undefined) as never }
    },
    async metric(sample) {
      const lines = (await metrics.registry.metrics()).split('\n')
      return lines.find((line) => line.startsWith(`${sample} `))?.slice(sample.length + 1)
    },
    async [Symbol.asyncDispose]() {
      closeStreams(services, () => 0)
      const closed = app.close()
      // The test client reconnects after an aborted stream without sending a request.
      app.server.closeAllConnections()
      await closed
      await Promise.all([services.ingest.whenIdle(), services.heartbeats.whenIdle()])
      await bus.close()
      await base[Symbol.asyncDispose]()
    },
  }
}

interface Frame {
  id: string | undefined
  data: { type: string; data: never }
}

/** Collects the frames of a stream from now on. */
async function listen(member: Member, path = '/api/stream') {
  const abort = new AbortController()
  const response = await fetch(member.url + path, { headers: { 'x-monitor-key': adminKey }, signal: abort.signal })
  expect(response.status).toBe(200)
  const frames: Frame[] = []
  const ended = (async () => {
    let rest = ''
    for await (const text of response.body!.pipeThrough(new TextDecoderStream())) {
      const parts = (rest + text).split('\n\n')
      rest = parts.pop()!
      for (const part of parts) {
        const field = (name: string) =>
          part
            .split('\n')
            .find((line) => line.startsWith(`${name}: `))
            ?.slice(name.length + 2)
        const data = field('data')
        if (data !== undefined) frames.push({ id: field('id'), data: JSON.parse(data) })
      }
    }
  })().catch(() => {})
  // Wait for at least the first frame; counts caused by an earlier test's events may follow.
  await vi.waitFor(() => expect(frames).not.toEqual([]), deadline)
  return {
    frames,
    rows: () => frames.filter(({ data }) => data.type === 'event').map(({ data }) => data.data as StreamedRow),
    async [Symbol.asyncDispose]() {
      abort.abort()
      await ended
    },
  }
}

async function connectOutsider(url: string) {
  const client = new RedisClient({ url })
  client.on('error', () => {})
  await client.connect()
  return {
    publish: (message: string | Buffer, channel = 'test:events') => client.sendCommand(['PUBLISH', channel, message]),
    [Symbol.asyncDispose]: async () => client.destroy(),
  }
}

const report = { severity: 'info', source: 'scanner', event_type: 'port_scan', description: 'found' }
const beat = (member: Member, id: string) => member.call('POST', '/api/heartbeat', { instance_id: id, name: id })
const poll = async (member: Member, id: string) => (await member.call('GET', `/api/instances/${id}/status`)).body

const missing = inject('redisMissing')
let redis: TestRedis
let one: Member
let other: Member
beforeAll(async () => {
  if (missing) return
  redis = await startRedis()
  one = await openMember(redis.url)
  other = await openMember(redis.url, one)
})
afterAll(async () => {
  await other?.[Symbol.asyncDispose]()
  await one?.[Symbol.asyncDispose]()
  await redis?.stop()
})
beforeEach(({ skip }) => {
  if (missing) skip(missing)
})

describe('two services on one backplane', () => {
  it('stream the same events from both services as the list shows', async () => {
    await using listener = await listen(other)
    for (let turn = 0; turn < 5; turn++) {
      await one.call('POST', '/api/events', { ...report, metadata: { turn } })
      await other.call('POST', '/api/events', { ...report, severity: 'warning', metadata: { turn } })
    }
    await vi.waitFor(() => expect(listener.rows()).toHaveLength(10), deadline)
    const { body } = await one.call('GET', '/api/events?limit=10')
    expect(listener.rows()).toEqual((body as { events: EventRow[] }).events.toReversed())
    for (const { data } of listener.frames) expect(isStreamMessage.Check(data)).toBe(true)
  })

  it('notify agents on one service of kills on the other', async () => {
    await beat(one, 'agent')
    expect(await poll(other, 'agent')).toEqual({ suspended: false, reason: null })
    await using listener = await listen(other, '/api/instances/agent/control')
    await one.call('POST', '/api/kill/agent', { reason: 'stop' })
    await vi.waitFor(() => expect(listener.frames).toHaveLength(2), deadline)
    expect(listener.frames[1]!.data).toMatchObject({ action: 'suspend', reason: 'stop', version: 1 })
  })

  it('notify agents on one service of approvals on the other, and of two operators one decides', async () => {
    await beat(one, 'asking')
    await using listener = await listen(other, '/api/instances/asking/control?understands=approval,policy')
    const asker = await one.base.createKey('agent', ['asking'])
    const operators = [await one.base.createKey('operator'), await one.base.createKey('operator')] as const
    await Promise.all([one, other].map(({ services }) => services.keyring.refresh()))
    const decide = (member: Member, id: string, decision: string, { key }: { key: string }) =>
      member.call('POST', `/api/approvals/${id}`, { decision }, key)
    for (let turn = 0; turn < 20; turn++) {
      const call = askingCall({ args_sha256: hashOf(turn) })
      const ask = async (member: Member): Promise<ApprovalAnswer> =>
        (await member.call('POST', '/api/instances/asking/approvals', call, asker.key)).body
      const { id } = await ask(one)
      const presses = [decide(one, id, 'approve', operators[0]), decide(other, id, 'deny', operators[1])]
      expect((await Promise.all(presses)).map(({ status }) => status).toSorted()).toEqual([200, 409])
      await vi.waitFor(() => expect(listener.frames).toHaveLength(turn + 2), deadline)
      const { state } = listener.frames.at(-1)!.data as unknown as { state: string }
      expect(listener.frames.at(-1)!.data).toEqual({ action: 'approval', instance_id: 'asking', id, state })
      // Whichever service the agent asks: what was announced is committed.
      expect((await ask(turn % 2 ? one : other)).state).toBe(state === 'approved' ? 'granted' : 'denied')
    }
  })

  it('respond to each poll with the last confirmed kill or resume of either service', async () => {
    await beat(one, 'pendulum')
    for (let turn = 0; turn < 100; turn++) {
      const [actor, asked] = turn % 3 === 0 ? [one, other] : [other, one]
      const isKill = turn % 2 === 0
      const { status } = await actor.call('POST', `/api/${isKill ? 'kill' : 'resume'}/pendulum`, { reason: 'x' })
      expect([status, await poll(asked, 'pendulum')]).toEqual([200, { suspended: isKill, reason: isKill ? 'x' : null }])
    }
  })

  it('report that they are ready and connected', async () => {
    const { status, body } = await one.call('GET', '/readyz')
    expect([status, body]).toEqual([200, { ok: true, database: 'ok', backplane: 'ok', clock_offset_ms: 0 }])
  })

  // An attacker on the channel may have recorded all earlier resumes with their signatures.
  it('ignore replayed old resumes', async () => {
    await using outsider = await connectOutsider(redis.url)
    await beat(one, 'freed')
    await one.call('POST', '/api/kill/freed', { reason: 'first' })
    await one.call('POST', '/api/resume/freed')
    const state = { version: 2, suspended: false, reason: null }
    const resume = JSON.stringify(controlMessage('freed', state, one.base.clock.now(), one.deps.controlSigner))
    await one.call('POST', '/api/kill/freed', { reason: 'second' })
    await using late = await openMember(redis.url, one)
    await using listener = await listen(late, '/api/instances/freed/control')
    const heard: string[] = []
    late.bus.onControl(({ instance_id }) => heard.push(instance_id))
    for (let turn = 0; turn < 3; turn++) await outsider.publish(resume, 'test:control')
    // The marker is published last, so its arrival proves that the replayed messages arrived.
    await beat(one, 'mark')
    await one.call('POST', '/api/kill/mark', { reason: 'mark' })
    await vi.waitFor(() => expect(heard).toEqual(['freed', 'freed', 'freed', 'mark']), deadline)
    expect(await poll(late, 'freed')).toEqual({ suspended: true, reason: 'second' })
    expect(listener.frames).toHaveLength(1)
  })

  // The channel's HMAC does not cover the signature for agents, and older processes send none. Agents that verify
  // signatures would then ignore the kill.
  it('sign messages for agents if another process published them with no or a wrong signature', async () => {
    await using outsider = await connectOutsider(redis.url)
    await beat(one, 'verifying')
    await using listener = await listen(one, '/api/instances/verifying/control')
    const { controlSigner, clock } = one.base.deps
    for (const [version, wrong] of [[1, {}] as const, [2, { signature_ed25519: 'A'.repeat(86) }] as const]) {
      const state = { version, suspended: version === 1, reason: version === 1 ? 'stop' : null }
      const { signature_ed25519, ...old } = controlMessage('verifying', state, clock.now(), controlSigner)
      await outsider.publish(JSON.stringify({ ...old, ...wrong }), 'test:control')
      await vi.waitFor(() => expect(listener.frames).toHaveLength(version + 1), deadline)
      expect(listener.frames[version]!.data).toEqual({ ...old, signature_ed25519 })
    }
  })
})

describe('while the backplane is unavailable', () => {
  it('polls are correct at once, streams within a second, and the service stays ready', async () => {
    await using own = await startRedis()
    await using here = await openMember(own.url)
    await using there = await openMember(own.url, here)
    const stopJobs = startJobs(listJobs(there.deps, there.services), there.deps, there.services)
    try {
      await beat(here, 'agent')
      await poll(there, 'agent')
      await using events = await listen(there)
      await using control = await listen(there, '/api/instances/agent/control')
      await own.kill()
      await vi.waitFor(() => expect(there.bus.state).toBe('unavailable'), deadline)
      const { status, body } = await there.call('GET', '/readyz')
      expect([status, body]).toEqual([200, { ok: true, database: 'ok', backplane: 'unavailable', clock_offset_ms: 0 }])

      await here.call('POST', '/api/kill/agent', { reason: 'unheard' })
      expect(await poll(there, 'agent')).toEqual({ suspended: true, reason: 'unheard' })
      await here.call('POST', '/api/events', report)
      await vi.waitFor(() => expect([events.rows().length, control.frames.length]).toEqual([1, 2]), deadline)

      await here.call('POST', '/api/resume/agent')
      await own.start()
      await vi.waitFor(() => expect([here.bus.state, there.bus.state]).toEqual(['ok', 'ok']), deadline)
      expect(await poll(there, 'agent')).toEqual({ suspended: false, reason: null })
      await here.call('POST', '/api/events', report)
      await vi.waitFor(() => expect(events.rows().map(({ seq }) => seq)).toEqual([1, 2]), deadline)
    } finally {
      await stopJobs()
    }
  })

  it('missed changes are read on reconnection, without a timer', async () => {
    await using own = await startRedis()
    await using here = await openMember(own.url)
    await using there = await openMember(own.url, here)
    await beat(here, 'agent')
    await using events = await listen(there)
    await using control = await listen(there, '/api/instances/agent/control')
    await own.kill()
    await vi.waitFor(() => expect([here.bus.state, there.bus.state]).toEqual(['unavailable', 'unavailable']), deadline)
    await here.call('POST', '/api/events', report)
    await here.call('POST', '/api/kill/agent', { reason: 'unheard' })
    await own.start()
    await vi.waitFor(() => expect([events.rows().length, control.frames.length]).toEqual([1, 2]), deadline)
  })

  it('missed kills of any age are published to the channel after reconnection', async () => {
    await using own = await startRedis()
    await using here = await openMember(own.url)
    await beat(here, 'agent')
    await own.kill()
    await vi.waitFor(() => expect(here.bus.state).toBe('unavailable'), deadline)
    await here.call('POST', '/api/kill/agent', { reason: 'unheard' })
    for (const passed of [1_000, 3_600_000]) {
      here.base.clock.advance(passed)
      await here.services.controlRelay.run()
    }
    const versions: number[] = []
    here.bus.onControl(({ version }) => versions.push(version))
    await own.start()
    // Once within the process, and once from the channel, on which agents may listen too.
    await vi.waitFor(() => expect(versions).toEqual([1, 1]), deadline)
  })
})

describe('an event that another program publishes', () => {
  it('is streamed unchanged, without a seq, and is not stored', async () => {
    await using outsider = await connectOutsider(redis.url)
    await using listener = await listen(one)
    const before = (await one.call('GET', '/api/events')).body
    const given = {
      ...report,
      severity: 'breach',
      id: '0190cafe-0000-7000-8000-0123456789ab',
      created_at: '2026-01-02T03:04:05.678Z',
      instance_id: 'agent',
      session_id: null,
      ip_address: '192.0.2.7',
      metadata: { nested: [null, '\u2028</script>'] },
    }
    const more = { seq: 1, signature: 'f'.repeat(64), class: 'blocked', unknown: {} }
    await outsider.publish(JSON.stringify({ ...given, ...more }))
    await vi.waitFor(() => expect(listener.frames.map(({ data }) => data.type)).toContain('stats'), deadline)
    const shown = listener.frames.find(({ data }) => data.type === 'event')!
    expect(shown.data.data).toEqual({ ...given, seq: null, by_service: false, observed_ip_address: null })
    expect(shown.id).toBeUndefined()
    for (const { data } of listener.frames) expect(isStreamMessage.Check(data)).toBe(true)
    expect((await one.call('GET', '/api/events')).body).toEqual(before)
  })

  it('gets an id and a time if it has no valid ones', async () => {
    await using outsider = await connectOutsider(redis.url)
    await using listener = await listen(one)
    for (const [id, created_at] of [
      [undefined, undefined],
      ['<b>', 'yesterday'],
      [7, 7],
      ['0190CAFE', '2026-13-99T99:99:99Z'],
    ]) {
      await outsider.publish(JSON.stringify({ ...report, id, created_at }))
    }
    await vi.waitFor(() => expect(listener.rows()).toHaveLength(4), deadline)
    for (const row of listener.rows()) {
      expect(row.id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7/)
      expect(row.created_at).toBe(new Date(one.base.clock.now()).toISOString())
    }
    expect(new Set(listener.rows().map(({ id }) => id)).size).toBe(4)
  })

  // Otherwise a program that can publish could convince SIEMs and people that a kill was confirmed or an outage ended.
  it('is never attributed to the service, whatever its type and fields', async () => {
    await using outsider = await connectOutsider(redis.url)
    await using listener = await listen(one)
    const stored = () =>
      Promise.all(
        ['events', 'alerts', 'instances', 'honeypot_hits'].map((table) => one.base.rows(`select * from ${table}`)),
      )
    const before = await stored()
    const types = [...Object.values(eventTypes), ...Object.values(alertTypes)].filter(
      (type) => type !== eventTypes.sessionMetrics,
    )
    for (const event_type of types) {
      const forged = { ...report, event_type, severity: 'critical', instance_id: 'agent', by_service: true }
      await outsider.publish(JSON.stringify({ ...forged, source: 'wardline' }))
      await outsider.publish(JSON.stringify({ ...forged, source: 'Wardline ' }))
      await outsider.publish(JSON.stringify({ ...forged, signature: 'f'.repeat(64) }))
    }
    await vi.waitFor(() => expect(listener.rows()).toHaveLength(types.length), deadline)
    expect(listener.rows().map(({ event_type }) => event_type)).toEqual(types)
    expect(listener.rows().filter(({ by_service, seq }) => by_service || seq !== null)).toEqual([])
    expect(await stored()).toEqual(before)
  })

  // Otherwise a row with the next seq would hide the event that gets this seq.
  it('affects neither the fleet’s events nor the position of clients, whatever seq it claims', async () => {
    await using outsider = await connectOutsider(redis.url)
    await using listener = await listen(one)
    const claim = async (by: number) => {
      const seq = Number((await one.base.rows<{ seq: number }>('select max(seq) as seq from events'))[0]!.seq) + by
      await outsider.publish(JSON.stringify({ ...report, description: 'forged', seq }))
    }
    for (let turn = 0; turn < 3; turn++) {
      await claim(1)
      await claim(2)
      await one.call('POST', '/api/events', { ...report, description: 'real' })
    }
    await vi.waitFor(() => expect(listener.rows()).toHaveLength(9), deadline)
    const real = listener.frames.filter(({ id }) => id !== undefined)
    expect(real.map(({ data }) => (data.data as EventRow).description)).toEqual(['real', 'real', 'real'])
    expect(
      listener
        .rows()
        .filter(({ description }) => description === 'forged')
        .map(({ seq }) => seq),
    ).toEqual(Array(6).fill(null))
  })

  // One text that a reader fails on would end the stream for all clients.
  it('is dropped and counted if it is invalid', async () => {
    await using outsider = await connectOutsider(redis.url)
    await using listener = await listen(one)
    const refused = async () =>
      Number(await one.metric('wardline_backplane_messages_refused_total{channel="events",reason="malformed"}')) || 0
    const before = await refused()
    const deep = `${'['.repeat(20)}${']'.repeat(20)}`
    const mismatches: (string | Buffer)[] = [
      '',
      'no JSON',
      'null',
      '[]',
      '"text"',
      '{}',
      JSON.stringify({ ...report, severity: 'fatal' }),
      JSON.stringify({ ...report, source: undefined }),
      JSON.stringify({ ...report, source: 7 }),
      JSON.stringify({ ...report, event_type: 'Port Scan' }),
      JSON.stringify({ ...report, description: 'x'.repeat(1_001) }),
      JSON.stringify({ ...report, description: 'nul \u0000' }),
      JSON.stringify({ ...report, description: 'lone \ud800' }),
      JSON.stringify({ ...report, instance_id: '../x' }),
      JSON.stringify({ ...report, ip_address: 'localhost' }),
      JSON.stringify({ ...report, metadata: [] }),
      JSON.stringify({ ...report, metadata: { text: 'x'.repeat(17_000) } }),
      JSON.stringify({ ...report, event_type: 'session_metrics', description: 'no numbers' }),
      JSON.stringify(report).replace('}', ',"metadata":{"__proto__":{}}}'),
      JSON.stringify(report).replace('}', `,"metadata":{"deep":${deep}}}`),
      JSON.stringify(report).replace('}', ',"metadata":{"number":1e999}}'),
      Buffer.from(JSON.stringify(report).replace('found', '\u00ff'), 'latin1'),
    ]
    for (const mismatched of mismatches) await outsider.publish(mismatched)
    await outsider.publish(JSON.stringify({ ...report, description: 'fits' }))
    await vi.waitFor(() => expect(listener.rows()).toHaveLength(1), deadline)
    expect(listener.rows()[0]!.description).toBe('fits')
    expect((await refused()) - before).toBe(mismatches.length)
  })

  // A malfunctioning program would bury the one event that matters.
  it('is dropped and counted above a thousand per second', async () => {
    await using outsider = await connectOutsider(redis.url)
    one.base.clock.advance(1_000)
    await using listener = await listen(one)
    const sample = 'wardline_backplane_messages_refused_total{channel="events",reason="too_many"}'
    await Promise.all(Array.from({ length: 1_250 }, () => outsider.publish(JSON.stringify(report))))
    await vi.waitFor(async () => expect(await one.metric(sample)).toBe('250'), deadline)
    await vi.waitFor(() => expect(listener.rows()).toHaveLength(1_000), deadline)
    await one.call('POST', '/api/events', { ...report, description: 'real' })
    one.base.clock.advance(1_000)
    await outsider.publish(JSON.stringify({ ...report, description: 'next' }))
    await vi.waitFor(() => expect(listener.rows()).toHaveLength(1_002), deadline)
    expect(
      listener
        .rows()
        .slice(1_000)
        .map(({ description }) => description),
    ).toEqual(['real', 'next'])
  })
})
