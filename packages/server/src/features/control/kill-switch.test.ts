import { createHmac } from 'node:crypto'
import type { ControlMessage, EventRow, InstanceDetail } from '@wardline/contract'
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { signControl } from '../../bus/control-signature.ts'
import { createMac } from '../../bus/signed-event.ts'
import { openTestService, type TestService } from '../../testing/service.ts'

let service: TestService
const messages: ControlMessage[] = []
let bot = ''
let count = 0
beforeAll(async () => {
  service = await openTestService()
  service.deps.bus.onControl((message) => messages.push(message))
})
afterAll(() => service[Symbol.asyncDispose]())
beforeEach(() => {
  bot = `bot-${count++}`
  messages.length = 0
})

const beat = (more: object = {}) =>
  service.call('POST', '/api/heartbeat', { body: { instance_id: bot, name: bot, ...more } })
const kill = (reason: string, id = bot) =>
  service.call<{ error?: string }>('POST', `/api/kill/${id}`, { body: { reason } })
const resume = (id = bot) => service.call<{ error?: string }>('POST', `/api/resume/${id}`)
const poll = (headers: Record<string, string> = {}, id = bot) =>
  service.call('GET', `/api/instances/${id}/status`, { headers })
const ack = (version: number, options: { key?: string } = {}) =>
  service.call<{ error?: string }>('POST', `/api/instances/${bot}/ack`, { body: { version }, ...options })
const control = async () =>
  (await service.call<{ control: InstanceDetail['control'] }>('GET', `/api/instances/${bot}`)).body.control
const mismatches = async () =>
  (
    await service.call<{ events: EventRow[] }>(
      'GET',
      `/api/events?event_type=control_version_mismatch&instance_id=${bot}`,
    )
  ).body.events
const auditRows = () =>
  service.rows<{ action: string; reason: string | null }>(
    `select action, reason from audit_log where target = '${bot}'`,
  )

describe('kill and resume', () => {
  it('change the state of an instance and report it', async () => {
    await beat()
    expect((await poll()).body).toEqual({ suspended: false, reason: null })
    expect(await kill('  leaked data \n')).toMatchObject({
      status: 200,
      body: { ok: true, instance_id: bot, status: 'suspended' },
    })
    expect((await poll()).body).toEqual({ suspended: true, reason: 'leaked data' })
    expect(await resume()).toMatchObject({ status: 200, body: { ok: true, instance_id: bot, status: 'active' } })
    expect((await poll()).body).toEqual({ suspended: false, reason: null })
  })

  it('are refused, without any change, when the state does not allow them', async () => {
    await beat()
    expect(await resume()).toMatchObject({ status: 400, headers: { 'x-error-code': 'not_suspended' } })
    await kill('first')
    expect(await kill('second')).toMatchObject({ status: 400, headers: { 'x-error-code': 'already_suspended' } })
    expect(await kill('first', 'nobody')).toMatchObject({ status: 404 })
    expect(await resume('nobody')).toMatchObject({ status: 404 })
    expect((await poll()).body).toEqual({ suspended: true, reason: 'first' })
    expect(await auditRows()).toEqual([{ action: 'instance.suspend', reason: 'first' }])
    expect(messages).toHaveLength(1)
  })

  it('succeed exactly once when many are requested at the same time', async () => {
    await beat()
    const answers = await Promise.all(Array.from({ length: 10 }, (_, index) => kill(`reason ${index}`)))
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, ...Array(9).fill(400)])
    expect(await auditRows()).toHaveLength(1)
    expect((await control()).version).toBe(1)
  })

  it('issue versions without gaps, with one audit row and one message each, in any order of calls', async () => {
    await beat()
    let expected = { suspended: false, version: 0 }
    await fc.assert(
      fc.asyncProperty(fc.array(fc.boolean(), { maxLength: 6 }), async (calls) => {
        for (const suspend of calls) {
          const allowed = suspend !== expected.suspended
          const { status } = suspend ? await kill('because') : await resume()
          expect(status).toBe(allowed ? 200 : 400)
          if (allowed) expected = { suspended: suspend, version: expected.version + 1 }
          expect((await poll()).body).toMatchObject({ suspended: expected.suspended })
        }
        expect((await control()).version).toBe(expected.version)
        expect(messages.map(({ version }) => version)).toEqual(
          Array.from({ length: expected.version }, (_, i) => i + 1),
        )
        expect(await auditRows()).toHaveLength(expected.version)
      }),
      { numRuns: 10 },
    )
  })

  // Otherwise a suspended agent would lift its own suspension with its next heartbeat.
  it('are not undone by heartbeats or events', async () => {
    await beat()
    await kill('stop')
    await beat({ control_version: 0, fail_mode: 'open' })
    await service.call('POST', '/api/events', {
      body: { severity: 'info', source: bot, event_type: 'tool_call', description: 'still here', instance_id: bot },
    })
    expect((await poll()).body).toEqual({ suspended: true, reason: 'stop' })
  })

  // A change must not happen without its audit record.
  it('do not happen when the audit record cannot be written', async () => {
    await beat()
    await kill('recorded')
    const head = await service.rows('select seq from audit_head')
    const allow = await service.refuse('insert', 'audit_log')
    expect(await resume()).toMatchObject({ status: 500, body: { error: 'The database is unavailable.' } })
    expect((await poll()).body).toEqual({ suspended: true, reason: 'recorded' })
    expect(await service.rows(`select suspended, control_version from instances where id = '${bot}'`)).toEqual([
      { suspended: 1, control_version: 1 },
    ])
    expect(await service.rows('select seq from audit_head')).toEqual(head)
    expect(messages).toHaveLength(1)
    await allow()
    expect((await resume()).status).toBe(200)
  })
})

describe('the poll', () => {
  it('answers 304 to the ETag of the current state, and to no other', async () => {
    await beat()
    expect((await poll()).headers).toMatchObject({ etag: 'W/"0"', 'cache-control': 'no-store' })
    for (const tag of ['W/"0"', '"0"', '"9", W/"0"', '*']) {
      expect(await poll({ 'if-none-match': tag }), tag).toMatchObject({ status: 304, text: '' })
    }
    for (const tag of ['W/"1"', '"00"', '0', '', 'garbage']) {
      expect(await poll({ 'if-none-match': tag }), tag).toMatchObject({ status: 200 })
    }
    await kill('now')
    expect(await poll({ 'if-none-match': 'W/"0"' })).toMatchObject({ status: 200, headers: { etag: 'W/"1"' } })
    await resume()
    expect(await poll({ 'if-none-match': 'W/"0"' })).toMatchObject({ status: 200, headers: { etag: 'W/"2"' } })
  })

  // "Not suspended" for a mistyped id would let an agent continue that was killed under its correct id.
  it('answers 404 for an unknown instance, also with an ETag', async () => {
    expect((await poll()).status).toBe(404)
    expect((await poll({ 'if-none-match': '*' })).status).toBe(404)
    await beat()
    expect((await poll()).status).toBe(200)
  })

  // Control messages may arrive late or twice; an old "resume" must not free an agent that was killed since.
  it('follows only messages of a higher version', async () => {
    await beat()
    await kill('first')
    await resume()
    await kill('second')
    await poll()
    for (const message of messages.toReversed()) service.deps.bus.publishControl(message)
    expect((await poll()).body).toEqual({ suspended: true, reason: 'second' })
    service.deps.bus.publishControl({ ...messages[1]!, version: 9 })
    // If other processes share the database, only the database counts.
    const believed = service.deps.bus.receivesAll
      ? { suspended: false, reason: null }
      : { suspended: true, reason: 'second' }
    expect((await poll()).body).toEqual(believed)
  })

  it('returns a change by another process once its message arrived, and reads uncached instances from the database', async () => {
    await beat()
    await using other = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
    await other.call('POST', `/api/kill/${bot}`, { body: { reason: 'from elsewhere' } })
    expect((await poll()).body).toEqual({ suspended: true, reason: 'from elsewhere' })
  })
})

describe('the control message', () => {
  it('has a signature that covers every field', async () => {
    await beat()
    service.clock.advance(1_234)
    await kill('line one\nline two')
    await resume()
    const [suspend, lift] = messages
    expect(suspend).toMatchObject({ instance_id: bot, action: 'suspend', reason: 'line one\nline two', version: 1 })
    expect(lift).toMatchObject({ instance_id: bot, action: 'resume', version: 2 })
    expect(lift).not.toHaveProperty('reason')
    for (const { instance_id, action, reason = '', version, issued_at, signature } of messages) {
      expect(issued_at).toBe(new Date(service.clock.now()).toISOString())
      const signed = `${instance_id}\n${action}\n${reason}\n${version}\n${issued_at}\n`
      expect(signature).toBe(createHmac('sha256', service.deps.secrets.controlKey).update(signed).digest('hex'))
    }
  })

  // A program that can publish on the channel could otherwise turn one signed message into another.
  it('has a different signature for every message', () => {
    const message = fc.record({
      instance_id: fc.constantFrom('a', 'b', 'a-1'),
      action: fc.constantFrom('suspend' as const, 'resume' as const),
      reason: fc.constantFrom('', 'x', 'x\n1', 'x\n1\n2026-01-01T00:00:00.000Z\n', '1'),
      version: fc.nat(20),
      issued_at: fc.constantFrom('2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.001Z'),
    })
    const mac = createMac(Buffer.from('k'))
    fc.assert(
      fc.property(message, message, (one, other) => {
        const same = JSON.stringify(one) === JSON.stringify(other)
        expect(signControl(one, mac) === signControl(other, mac)).toBe(same)
      }),
      { numRuns: 500 },
    )
  })
})

describe('the acknowledgement', () => {
  it('confirms the current version', async () => {
    await beat()
    expect(await control()).toMatchObject({ version: 0, confirmed: true })
    await kill('stop')
    expect(await control()).toMatchObject({ version: 1, applied_version: null, confirmed: false })
    service.clock.advance(2_000)
    expect((await ack(1)).body).toEqual({ ok: true })
    expect(await control()).toMatchObject({ applied_version: 1, confirmed: true })
    // The previous tests acknowledged nothing.
    const metrics = (await service.call('GET', '/metrics')).text
    expect(metrics).toContain('wardline_kill_confirm_seconds_sum 2')
    expect(metrics).toContain('wardline_kill_confirm_seconds_count 1')
  })

  // An agent that acknowledges future versions would appear to obey every later kill.
  it('is refused for a version that was not issued yet', async () => {
    await beat()
    expect(await ack(1)).toMatchObject({ status: 400 })
    expect(await control()).toMatchObject({ applied_version: null })
    await beat({ control_version: 7 })
    expect(await control()).toMatchObject({ applied_version: null })
  })

  // After a restore, or a forged message over plain HTTP, an agent ignores every kill up to the version that it knows.
  it.each([
    ['a heartbeat', (version: number) => beat({ control_version: version })],
    ['an acknowledgement', (version: number) => ack(version)],
  ])('by %s above what was issued is reported, and the next kill is above both', async (_name, claim) => {
    await beat()
    await claim(8)
    expect(await control()).toMatchObject({ version: 0, claimed_version: 8, mismatch: true })
    await kill('stop')
    expect(await control()).toMatchObject({ version: 9, claimed_version: null, mismatch: false, confirmed: false })
    expect(messages.map(({ version }) => version)).toEqual([9])
    await claim(9)
    expect(await control()).toMatchObject({ version: 9, confirmed: true, mismatch: false })
    await resume()
    expect((await control()).version).toBe(10)
    const events = await mismatches()
    expect(events).toHaveLength(1)
    expect(events[0]).toMatchObject({ severity: 'critical', by_service: true, instance_id: bot })
    expect(events[0]!.metadata).toEqual({ claimed_version: 8, version: 0, occurrences: 1 })
  })

  // Otherwise an agent could exhaust the range of version numbers and become unreachable for good.
  it.each([1_000_001, 2 ** 52, Number.MAX_SAFE_INTEGER])(
    'of version %d does not carry the versions with it',
    async (version) => {
      await beat({ control_version: version })
      expect(await control()).toMatchObject({ claimed_version: version, mismatch: true })
      await kill('stop')
      expect(await control()).toMatchObject({ version: 1, claimed_version: version, mismatch: true })
      await beat({ control_version: 1 })
      expect(await control()).toMatchObject({ claimed_version: null, mismatch: false, confirmed: true })
    },
  )

  it('is reported once a minute, with its count, when it repeats', async () => {
    for (let count = 0; count < 5; count++) await beat({ control_version: 3 })
    await vi.waitFor(async () => expect(await mismatches()).toHaveLength(1), 60_000)
    service.clock.advance(60_000)
    await service.services.countedReports.run()
    expect((await mismatches()).map(({ metadata }) => (metadata as { occurrences: number }).occurrences)).toEqual([
      4, 1,
    ])
  })

  it('never lowers the acknowledged version', async () => {
    await beat()
    await kill('stop')
    await resume()
    await ack(2)
    expect((await ack(1)).status).toBe(200)
    await beat({ control_version: 1 })
    expect(await control()).toMatchObject({ applied_version: 2, confirmed: true })
  })

  it('is accepted from a heartbeat, too', async () => {
    await beat()
    await kill('stop')
    await beat({ control_version: 1 })
    expect(await control()).toMatchObject({ applied_version: 1, confirmed: true })
  })

  it('gets 404 for an unknown instance', async () => {
    expect((await ack(0)).status).toBe(404)
  })

  // Otherwise a compromised agent could confirm for another one that never stopped.
  it('is refused with the key of another instance', async () => {
    await beat()
    await kill('stop')
    const { key } = await service.createKey('agent', ['another'])
    expect((await ack(1, { key })).status).toBe(403)
    expect(await control()).toMatchObject({ confirmed: false })
  })
})
