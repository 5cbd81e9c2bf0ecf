import { afterEach, beforeEach, expect, it } from 'vitest'
import { dayMs } from '../../../clock.ts'
import { type AlertReceiver, startAlertReceiver } from '../../../testing/alert-receiver.ts'
import { openTestService, type TestService } from '../../../testing/service.ts'

let receiver: AlertReceiver
let service: TestService
let posted = 0
let decoy: string

async function open(dataDir?: string, path = '/discord'): Promise<void> {
  const env = { DISCORD_WEBHOOK_URL: `${receiver.url}${path}`, SLACK_WEBHOOK_URL: `${receiver.url}/slack` }
  service = await openTestService({ env, ...(dataDir === undefined ? {} : { dataDir, clock: service.clock }) })
}

beforeEach(async () => {
  posted = 0
  receiver = await startAlertReceiver()
  // As Discord answers: a new id for a new message, the same for an edited one.
  receiver.answer = ({ path }) => {
    if (path === '/slack') return { status: 200, body: 'ok' }
    const [, edited] = /\/messages\/(\d+)/.exec(path) ?? []
    if (edited === undefined) posted += 1
    return { status: 200, body: JSON.stringify({ id: edited ?? String(posted) }) }
  }
  await open()
  await beat()
  const { body } = await service.call<{ key: string }>('POST', '/api/honeypots', {
    body: { type: 'api_key', keyType: 'openai', instanceId: 'bot-1' },
  })
  decoy = body.key
})
afterEach(async () => {
  await service[Symbol.asyncDispose]()
  await receiver[Symbol.asyncDispose]()
})

const beat = () => service.call('POST', '/api/heartbeat', { body: { instance_id: 'bot-1', name: 'bot-1' } })

async function dispatch(): Promise<void> {
  const { dispatcher, suspensionWatch } = service.services
  // Messages are in the order of their times.
  service.clock.advance(1)
  await suspensionWatch.run()
  for (let turn = 0; turn < 3; turn++) {
    await dispatcher.run()
    await dispatcher.whenIdle()
  }
}

async function touchDecoy(): Promise<void> {
  const { body } = await service.call<{ matched: boolean }>('POST', '/api/honeypots/check/key', {
    body: { key: decoy, meta: { instance_id: 'bot-1' } },
  })
  expect(body.matched).toBe(true)
  await dispatch()
  await service.call('POST', '/api/kill/bot-1', { body: { reason: 'decoy' } })
  await dispatch()
}

async function confirm(): Promise<void> {
  const { status } = await service.call('POST', '/api/instances/bot-1/ack', { body: { version: 1 } })
  expect(status).toBe(200)
  await dispatch()
}

async function resolve(): Promise<void> {
  const { body } = await service.call<{ alerts: { id: string }[] }>('GET', '/api/alerts?status=open')
  for (const { id } of body.alerts) await service.call('PATCH', `/api/alerts/${id}`, { body: { status: 'resolved' } })
  await dispatch()
}

/** What Discord shows: titles of each message, as last written. */
function shown(): string[][] {
  const messages = new Map<string, string[]>()
  let count = 0
  for (const { path, body } of receiver.taken.filter((each) => each.path !== '/slack')) {
    const [, edited = String(++count)] = /\/messages\/(\d+)/.exec(path) ?? []
    messages.set(
      edited,
      body.embeds.map(({ title }: { title: string }) => title.replaceAll('\\', '')),
    )
  }
  return [...messages.values()]
}

it('an incident is one message of Discord, from the breach to its end, and the next incident another', async () => {
  await touchDecoy()
  await confirm()
  expect(shown()).toEqual([['🚨 Breach: bot-1 used a decoy', '🛑 Stopped: bot-1 confirmed its suspension']])
  await resolve()
  expect(shown()).toEqual([['🚨 Breach: bot-1 used a decoy', '✅ Resolved: bot-1 used a decoy']])
  await service.call('POST', '/api/resume/bot-1', { body: { reason: 'clean' } })
  await dispatch()
  await touchDecoy()
  expect(shown().at(-1)![0]).toBe('🚨 Breach: bot-1 used a decoy')
  expect(shown().length).toBeGreaterThan(1)
})

it('what calls people is a message, also within an incident: a reminder, and the next trouble', async () => {
  await touchDecoy()
  await confirm()
  for (let hours = 0; hours < 5; hours++) {
    service.clock.advance(3_600_000)
    await beat()
    await dispatch()
  }
  expect(shown().map(([title]) => title)).toEqual([
    '🚨 Breach: bot-1 used a decoy',
    '🚨 Not acknowledged: bot-1 used a decoy',
  ])
})

it('that an agent did not confirm its suspension is a message, which calls people, and no edit', async () => {
  await touchDecoy()
  service.clock.advance(60_000)
  await beat()
  await dispatch()
  expect(shown().map(([title]) => title)).toEqual([
    '🚨 Breach: bot-1 used a decoy',
    expect.stringContaining('bot-1 has not confirmed'),
  ])
})

it('a message that is sent again after later ones stands alone, and takes back no edit', async () => {
  await touchDecoy()
  service.clock.advance(1_000)
  await confirm()
  const edited = ['🚨 Breach: bot-1 used a decoy', '🛑 Stopped: bot-1 confirmed its suspension']
  expect(shown()).toEqual([edited])
  const { database } = service.deps
  const { id } = await database.db
    .updateTable('alert_messages')
    .set({ state: 'dead' })
    .where('channel_id', '=', 'env-discord')
    .where('title', 'like', '%suspended%')
    .returning('id')
    .executeTakeFirstOrThrow()
  await service.call('POST', `/api/alert-messages/${id}/replay`)
  await dispatch()
  expect(shown()).toEqual([edited, [expect.stringContaining('suspended')]])
})

it('a first message that Discord no longer has, or that another receiver got, is not edited', async () => {
  await touchDecoy()
  const { answer } = receiver
  receiver.answer = (alert) =>
    alert.path.includes('/messages/') ? { status: 404, body: '{"code":10008}' } : answer(alert)
  await confirm()
  service.clock.advance(60_000)
  await dispatch()
  expect(shown().map(([title]) => title)).toContain('🛑 Stopped: bot-1 confirmed its suspension')
  expect(receiver.attempts.filter(({ path }) => path.includes('/messages/')).length).toBeGreaterThan(0)

  receiver.answer = answer
  await resolve()
  const { dataDir } = service.deps.config
  await service.call('POST', '/api/resume/bot-1', { body: { reason: 'clean' } })
  await dispatch()
  await touchDecoy()
  const attempts = receiver.attempts.length
  const before = service
  await open(dataDir, '/another')
  await service.call('POST', '/api/resume/bot-1', { body: { reason: 'clean' } })
  await dispatch()
  await before[Symbol.asyncDispose]()
  const later = receiver.attempts.slice(attempts).filter(({ path }) => path.startsWith('/another'))
  expect(later.length).toBeGreaterThan(0)
  expect(later.filter(({ path }) => path.includes('/messages/'))).toEqual([])
})

it('what an agent reports of itself begins and joins no incident of Wardline, and a day later all is another', async () => {
  const incidents = async (lane: string) => {
    const rows = await service.rows(
      `select content from alert_messages where channel_id = 'env-discord' and lane = '${lane}' order by created_at, id`,
    )
    return rows.map(({ content }) => (JSON.parse(content as string) as { incident: { id: string } }).incident.id)
  }
  await service.call('POST', '/api/events', {
    body: {
      severity: 'critical',
      source: 'bot-1',
      event_type: 'policy_violation',
      description: 'x',
      instance_id: 'bot-1',
    },
  })
  await dispatch()
  await touchDecoy()
  const own = await incidents('own')
  expect(own.length).toBeGreaterThan(1)
  expect(new Set(own).size).toBe(1)
  expect(own).not.toContain((await incidents('reported'))[0])
  service.clock.advance(2 * dayMs)
  await service.call('POST', '/api/resume/bot-1', { body: { reason: 'clean' } })
  await dispatch()
  expect(own).not.toContain((await incidents('own')).at(-1))
})
