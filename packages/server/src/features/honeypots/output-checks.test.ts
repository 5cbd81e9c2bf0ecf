import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'

let service: TestService
let agent: string
beforeAll(async () => {
  service = await openTestService({
    env: {
      WARDLINE_AUTO_SUSPEND: 'decoy',
      WARDLINE_AUTO_SUSPEND_PER_MINUTE: '100',
      WARDLINE_AUTO_SUSPEND_FLEET_MIN: '100',
    },
  })
  for (const id of ['bot-1', 'bot-2']) {
    expect((await service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id } })).status).toBe(200)
  }
  agent = (await service.createKey('agent', ['bot-1'])).key
})
afterAll(() => service[Symbol.asyncDispose]())

async function plant(instanceId = 'bot-1') {
  const body = { instanceId, type: 'api_key', keyType: 'github' }
  return (await service.call<{ id: string; key: string }>('POST', '/api/honeypots', { body })).body
}
const compare = (of: string, text: string, meta: object = { tool: 'Grep' }) =>
  service.call<{ ok?: boolean; error?: string }>('POST', '/api/honeypots/check/output', {
    key: agent,
    body: { of, text, meta },
  })
interface Detail {
  state: string
  hits: { form: string; reporter: string; event_id: string }[]
}
const detail = async (id: string) => (await service.call<Detail>('GET', `/api/honeypots/${id}`)).body
const eventsOf = async (id: string) => {
  const rows = await service.rows<{ severity: string; event_type: string; instance_id: string; metadata: string }>(
    `select severity, event_type, instance_id, metadata from events where metadata like '%"honeypot_id":"${id}"%' order by seq`,
  )
  return rows.map((row) => ({ ...row, metadata: JSON.parse(row.metadata) as Record<string, unknown> }))
}
const statusOf = async (id: string) =>
  (await service.call<{ status: string }>('GET', `/api/instances/${id}`)).body.status

describe('a decoy key', () => {
  it('in a result is a warning, once a minute, and neither a hit nor a reason to suspend', async () => {
    const { id, key } = await plant()
    for (const line of [`TOKEN=${key}`, `.env:3:TOKEN=${key}`]) expect((await compare('result', line)).status).toBe(200)
    // Reports are stored in their order.
    const last = await plant()
    await compare('result', last.key)
    await expect.poll(() => eventsOf(last.id)).toHaveLength(1)
    expect(await eventsOf(id)).toEqual([
      {
        severity: 'warning',
        event_type: 'decoy_read',
        instance_id: 'bot-1',
        metadata: {
          honeypot_id: id,
          type: 'api_key',
          keyType: 'github',
          planted_at: 'bot-1',
          tool: 'Grep',
          found_in: 'result',
          occurrences: 1,
        },
      },
    ])
    expect(await detail(id)).toMatchObject({ state: 'issued', hits: [] })
    expect(await statusOf('bot-1')).toBe('active')
    // Only where it is used is it a breach.
    const used = await service.call('POST', '/api/honeypots/check/key', { key: agent, body: { key } })
    expect(used.body).toEqual({ matched: true })
    expect(await detail(id)).toMatchObject({ state: 'tripped', hits: [{ form: 'bare' }] })
    await service.call('POST', '/api/resume/bot-1', { body: {} })
  })

  it('in an answer is a hit and a breach, and suspends the agent', async () => {
    const { id, key } = await plant('bot-2')
    expect((await compare('answer', `The token is ${Buffer.from(key).toString('base64')}.`, {})).body).toEqual({
      ok: true,
    })
    expect(await detail(id)).toMatchObject({ state: 'tripped', hits: [{ form: 'base64', reporter: 'bot-1' }] })
    expect(await eventsOf(id)).toMatchObject([
      {
        severity: 'breach',
        event_type: 'honeypot_triggered',
        instance_id: 'bot-1',
        metadata: { found_in: 'answer', tool: null, outside: true },
      },
    ])
    expect(await statusOf('bot-1')).toBe('suspended')
    await service.call('POST', '/api/resume/bot-1', { body: {} })
  })

  // Attack: the holder of an agent's key asks for less than a breach whether a key that it found is a decoy.
  it('gets the same answer as another text', async () => {
    const { key } = await plant()
    const answers = [await compare('result', key), await compare('result', `${key.slice(0, -1)}!`)]
    expect(answers.map(({ status, text }) => [status, text])).toEqual([
      [200, '{"ok":true}'],
      [200, '{"ok":true}'],
    ])
    const headers = answers.map((answer) => Object.keys(answer.headers).sort())
    expect(headers[0]).toEqual(headers[1])
  })

  it('in the result of an ignored tool is not reported, and is stored and logged nowhere', async () => {
    const { id, key } = await plant()
    const until = new Date(service.clock.now() + 3_600_000).toISOString()
    const body = { tool: 'scanner', reason: 'reads all keys', until }
    expect((await service.call('POST', '/api/honeypots/ignores', { body })).status).toBe(201)
    await compare('result', key, { tool: 'scanner' })
    await compare('result', key, { tool: 'Read' })
    await expect.poll(() => eventsOf(id)).toMatchObject([{ metadata: { tool: 'Read' } }])
    const contents = await Promise.all((await service.tables()).map((name) => service.rows(`select * from ${name}`)))
    expect(JSON.stringify(contents) + service.logged.join()).not.toContain(key)
  })
})

it('refuses an unknown place and a text that is too long', async () => {
  for (const [of, text, fault] of [
    ['call', 'x', 'of must be'],
    ['result', '', 'text'],
    ['answer', 'x'.repeat(64 * 1024 + 1), 'text must have at most'],
  ]) {
    const { status, body } = await compare(of!, text!)
    expect([status, body.error]).toEqual([400, expect.stringContaining(fault!)])
  }
})

// Attack: what tools return uses up the checks, so that the calls of the agent are denied.
it('takes the quota of events, and leaves that of checks', async () => {
  const { key, id } = await service.createKey('agent', ['bot-1'])
  await service.call('PUT', `/api/keys/${id}/quotas`, { body: { events_per_second: 1, checks_per_second: 1 } })
  const send = (route: string, body: object) => service.call('POST', `/api/honeypots/check/${route}`, { key, body })
  const statuses: number[] = []
  for (let count = 0; count < 12; count++) {
    statuses.push((await send('output', { of: 'result', text: 'harmless' })).status)
  }
  expect(statuses).toContain(429)
  expect((await send('key', { key: 'harmless' })).status).toBe(200)
})
