import { setImmediate as nextTurn } from 'node:timers/promises'
import type { AlertDetail, ChannelView, MessageView } from '@wardline/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type AlertReceiver, startAlertReceiver } from '../../../testing/alert-receiver.ts'
import { openTestService, type TestService } from '../../../testing/service.ts'
import { forgetOldAlerts } from '../alerts.ts'
import { watchChannels } from '../delivery/channel-health.ts'

const second = 1_000
const minute = 60 * second
const hour = 60 * minute

let receiver: AlertReceiver
let service: TestService
const others: TestService[] = []

const webhook = () => ({ ALERT_WEBHOOK_URL: `${receiver.url}/webhook` })
const slack = () => ({ SLACK_WEBHOOK_URL: `${receiver.url}/slack` })

async function open(env: Record<string, string>, shared?: TestService): Promise<TestService> {
  const opened = await openTestService({
    env,
    ...(shared ? { dataDir: shared.deps.config.dataDir, clock: shared.clock } : {}),
  })
  if (shared) others.push(opened)
  else service = opened
  return opened
}

beforeEach(async () => {
  receiver = await startAlertReceiver()
})
afterEach(async () => {
  for (const other of others.splice(0)) await other[Symbol.asyncDispose]()
  await service[Symbol.asyncDispose]()
  await receiver[Symbol.asyncDispose]()
})

async function report(fields: Record<string, unknown> = {}, at = service): Promise<string> {
  const event = {
    severity: 'critical',
    source: 'agent',
    event_type: 'policy_violation',
    description: 'Reads what it should not',
    instance_id: 'agent-1',
    ...fields,
  }
  const { body, status } = await at.call<{ id: string }>('POST', '/api/events', { body: event })
  expect(status).toBe(201)
  return body.id
}

/** Plans and sends everything that is due now. */
async function dispatch({ services }: TestService = service): Promise<void> {
  for (let turn = 0; turn < 3; turn++) {
    await services.dispatcher.run()
    await services.dispatcher.whenIdle()
  }
}

const at = (path: string, among = receiver.taken) => among.filter((alert) => alert.path === path)
const webhookIds = (among = receiver.taken) => at('/webhook', among).map(({ headers }) => headers['webhook-id'])
const slackTexts = () => at('/slack').map(({ body }) => body.text as string)
const detail = async (id: string) => (await service.call<AlertDetail>('GET', `/api/alerts/${id}`)).body
const messages = async (query = '') =>
  (await service.call<{ messages: MessageView[] }>('GET', `/api/alert-messages${query}`)).body.messages
const channel = async (id: string) => (await service.call<ChannelView>('GET', `/api/alert-channels/${id}`)).body
const alertRows = () => service.rows('select * from alerts order by seq')

describe('an event', () => {
  it('becomes an alert only if a channel receives it, and never if it contains metrics', async () => {
    await open(slack())
    await report({ severity: 'info' })
    await report({ event_type: 'session_metrics', severity: 'critical', description: '{"shell_exec_count":1}' })
    expect(await alertRows()).toEqual([])
    const id = await report({ severity: 'warning' })
    expect(await alertRows()).toMatchObject([{ id, event_type: 'policy_violation', status: 'open' }])
  })

  it('is a separate message for a machine, with all its fields', async () => {
    await open(webhook())
    const id = await report({ severity: 'info', metadata: { path: '/etc/shadow' }, session_id: 's-1' })
    await report({ severity: 'breach' })
    await dispatch()
    const [first, next] = at('/webhook').toSorted((one, other) => one.body.data.seq - other.body.data.seq)
    expect(first!.body).toMatchObject({
      type: 'alert.policy_violation',
      data: { id, severity: 'info', metadata: { path: '/etc/shadow' }, session_id: 's-1', event_seq: 1, seq: 1 },
    })
    expect(next!.body.data.severity).toBe('breach')
    expect((await detail(id)).deliveries).toMatchObject([
      {
        channel_id: 'env-webhook',
        outcome: 'sent',
        state: 'delivered',
        attempts: 1,
        last_status: 200,
        last_answer: 'ok',
      },
    ])
  })

  it('of a batch keeps its sequence number and metadata in its alert', async () => {
    await open(webhook())
    await service.call('PATCH', '/api/alert-channels/env-webhook', { body: { min_severity: 'warning' } })
    const body = ['info', 'warning', 'info', 'critical', 'info'].map((severity, index) => ({
      severity,
      source: 'agent',
      event_type: 'x',
      description: 'y',
      metadata: { index },
    }))
    await service.call('POST', '/api/events/batch', { body })
    await dispatch()
    const sent = at('/webhook').map(({ body: { data } }) => [data.seq, data.event_seq, data.metadata.index])
    expect(sent.toSorted()).toEqual([
      [1, 2, 1],
      [2, 4, 3],
    ])
  })

  it('is not stored if its alert is not stored', async () => {
    await open(webhook())
    const restore = await service.refuse('insert', 'alerts')
    const body = { severity: 'critical', source: 'a', event_type: 'x', description: 'y' }
    expect((await service.call('POST', '/api/events', { body })).status).toBe(500)
    expect(await service.rows('select seq from events')).toEqual([])
    await restore()
    await report()
    expect(await alertRows()).toHaveLength(1)
  })

  it('is sent to people immediately if it is the first, and later ones in one message', async () => {
    await open(slack())
    const first = await report()
    await dispatch()
    const more = [await report(), await report(), await report()]
    await dispatch()
    expect(slackTexts()).toHaveLength(1)
    expect((await detail(more[0]!)).deliveries).toMatchObject([{ outcome: 'waiting', message_id: null, attempts: 0 }])
    service.clock.advance(10 * second)
    await dispatch()
    expect(slackTexts()).toHaveLength(2)
    expect(slackTexts()[1]).toContain('(3 alerts)')
    expect((await detail(first)).deliveries[0]).toMatchObject({ outcome: 'sent', state: 'delivered' })
    for (const id of more)
      expect((await detail(id)).deliveries[0]).toMatchObject({ outcome: 'joined', state: 'delivered' })
  })

  it('beyond the rate limit is sent in one digest, which has the number of further alerts', async () => {
    await open(slack())
    for (let index = 0; index < 60; index++) await report({ instance_id: `agent-${index}` })
    await dispatch()
    expect(slackTexts()).toHaveLength(15)
    service.clock.advance(minute)
    await dispatch()
    expect(slackTexts()).toHaveLength(16)
    expect(slackTexts()[15]).toContain('45 alerts exceeded the rate of this channel')
    expect(JSON.stringify(at('/slack')[15]!.body)).toContain('+35 more')
    const missing = await service.rows(
      'select * from alert_deliveries where message_id is null or message_id not in (select id from alert_messages)',
    )
    expect(missing).toEqual([])
  })
})

describe('a digest', () => {
  it('shows the most severe reports, and no alert of the service itself', async () => {
    await open(slack())
    await service.call('PATCH', '/api/alert-channels/env-slack', { body: { max_per_minute: 1 } })
    await service.services.routingTable.refresh()
    // The alert about the lower limit uses it up for a minute.
    await dispatch()
    service.clock.advance(minute + 1)
    await report({ instance_id: 'first' })
    const { outbox } = service.services
    const { db } = service.deps.database
    const own = {
      severity: 'warning',
      event_type: 'instance_offline',
      description: 'Silent',
      instance_id: 'own',
    } as const
    await db.transaction().execute((trx) => outbox.write(trx, [own], service.clock.now()))
    await report({ severity: 'breach', instance_id: 'worst' })
    for (let index = 0; index < 40; index++) await report({ severity: 'warning', instance_id: `agent-${index}` })
    await dispatch()
    service.clock.advance(minute)
    await dispatch()
    const texts = at('/slack').map(({ body }) => JSON.stringify(body))
    expect(texts.filter((text) => text.includes('· own ·'))).toEqual([expect.stringContaining('own is silent"')])
    const digest = texts.at(-1)!
    expect(digest).toContain('exceeded the rate')
    expect(digest).toContain('· worst ·')
  })

  it('for a channel that is disabled is dropped, and its alerts have the outcome dropped', async () => {
    await open(slack())
    await report()
    await dispatch()
    const id = await report()
    await dispatch()
    await service.call('PATCH', '/api/alert-channels/env-slack', { body: { enabled: false } })
    expect((await detail(id)).deliveries).toMatchObject([{ outcome: 'dropped', message_id: null }])
  })
})

describe('a group that fails to send', () => {
  it('delays no other group and no other channel', async () => {
    await open({ ...slack(), ...webhook() })
    await report()
    await dispatch()
    await report()
    await report({ instance_id: 'agent-2' })
    await report({ instance_id: 'agent-2' })
    await dispatch()
    // The message of the group gets an id that another message already has, so storing it fails.
    const [taken] = await service.rows<{ id: string }>(`select id from alert_messages where channel_id = 'env-webhook'`)
    await service.execute(
      `update alert_groups set message_id = '${taken!.id}' where name = 'reported policy_violation agent-1'`,
    )
    service.clock.advance(minute)
    await report({ instance_id: 'agent-3' })
    await dispatch()
    expect(slackTexts().filter((text) => text.includes('agent-2: '))).toHaveLength(2)
    expect(slackTexts().filter((text) => text.includes('agent-3: '))).toHaveLength(1)
    expect(at('/webhook')).toHaveLength(5)
    expect(service.logged.join()).toContain('sending a group of alerts failed')
  })
})

describe('a receiver', () => {
  const statuses = { 'answers 500': 500, 'answers 429': 429, 'redirects elsewhere': 302, 'answers 404': 404 }
  for (const [what, status] of Object.entries(statuses)) {
    it(`that ${what} gets the same message again after five seconds`, async () => {
      await open(webhook())
      receiver.answer = () => ({ status, headers: { location: `${receiver.url}/elsewhere` } })
      await report()
      await dispatch()
      expect(receiver.attempts).toHaveLength(1)
      service.clock.advance(3 * second)
      await dispatch()
      expect(receiver.attempts).toHaveLength(1)
      receiver.answer = () => ({ status: 200 })
      service.clock.advance(4 * second)
      await dispatch()
      expect(receiver.attempts).toHaveLength(2)
      expect(new Set(webhookIds(receiver.attempts)).size).toBe(1)
      expect(at('/elsewhere', receiver.attempts)).toEqual([])
      expect(await messages()).toMatchObject([{ state: 'delivered', attempts: 2 }])
    })
  }

  it('gets no message before its Retry-After has passed', async () => {
    await open(webhook())
    receiver.answer = () => ({ status: 429, headers: { 'retry-after': '600' } })
    await report()
    await dispatch()
    receiver.answer = () => ({ status: 200 })
    await report()
    service.clock.advance(599 * second)
    await dispatch()
    expect(receiver.attempts).toHaveLength(1)
    service.clock.advance(second)
    await dispatch()
    expect(receiver.taken).toHaveLength(2)
  })

  it('that fails ten times gets no further attempt, and a replay sends the message with the same id', async () => {
    await open(webhook())
    receiver.answer = () => ({ status: 500, body: 'out of order' })
    await report()
    for (let hours = 0; hours < 110; hours++) {
      await dispatch()
      service.clock.advance(hour)
    }
    expect(receiver.attempts).toHaveLength(10)
    const [dead] = await messages('?state=dead')
    expect(dead).toMatchObject({ attempts: 10, last_status: 500, last_answer: 'out of order', due_at: null })
    expect(await channel('env-webhook')).toMatchObject({ dead: 1, waiting: 0 })
    const { body } = await service.call('POST', '/api/alert-channels/env-webhook/replay')
    expect(body).toEqual({ ok: true, replayed: 1 })
    service.clock.advance(hour)
    await dispatch()
    expect(await messages()).toMatchObject([{ state: 'pending', attempts: 1 }])
    receiver.answer = () => ({ status: 200 })
    service.clock.advance(hour)
    await dispatch()
    expect(webhookIds()).toEqual([dead!.id])
    expect((await service.call('POST', `/api/alert-messages/${dead!.id}/replay`)).status).toBe(400)
  })

  it('that responds with 410 is disabled, and another channel is notified', async () => {
    await open({ ...webhook(), ...slack() })
    receiver.answer = ({ path }) => ({ status: path === '/webhook' ? 410 : 200, body: 'ok' })
    await report()
    await dispatch()
    await service.services.routingTable.refresh()
    await dispatch()
    expect(await channel('env-webhook')).toMatchObject({ enabled: false, state: 'disabled' })
    expect(slackTexts().join()).toContain('An alert channel is failing')
  })

  it('that is down gets one message at a time until it is available again', async () => {
    await open(webhook())
    receiver.answer = () => ({ status: 503 })
    for (let index = 0; index < 100; index++) await report()
    await dispatch()
    const attempts = receiver.attempts.length
    expect(attempts).toBeLessThanOrEqual(16)
    service.clock.advance(5 * minute)
    await dispatch()
    expect(receiver.attempts.length).toBe(attempts + 1)
    receiver.answer = () => ({ status: 200 })
    service.clock.advance(10 * minute)
    await dispatch()
    service.clock.advance(hour)
    await dispatch()
    expect(new Set(webhookIds()).size).toBe(100)
    expect(receiver.taken).toHaveLength(100)
  })

  it('that is down gets one attempt per retry interval, also if the dispatcher runs during the attempt', async () => {
    await open(webhook())
    receiver.answer = () => ({ status: 503 })
    for (let index = 0; index < 40; index++) await report()
    await dispatch()
    for (let round = 0; round < 40; round++) {
      service.clock.advance(6 * minute)
      const attempts = receiver.attempts.length
      let isOver = false
      const turns = (async () => {
        while (!isOver) await service.services.dispatcher.run()
      })()
      while (receiver.attempts.length === attempts) await nextTurn()
      await service.services.dispatcher.whenIdle()
      isOver = true
      await turns
      await dispatch()
      expect(receiver.attempts).toHaveLength(attempts + 1)
    }
  })

  it('that is down has at most a thousand waiting messages; further alerts stay in the outbox', async () => {
    await open(webhook())
    receiver.answer = () => ({ status: 503 })
    const event = { severity: 'info', source: 'a', event_type: 'x', description: 'y' }
    for (const instance_id of ['one', 'two', 'three']) {
      const body = Array.from({ length: 500 }, () => ({ ...event, instance_id }))
      await service.call('POST', '/api/events/batch', { body })
    }
    for (let turn = 0; turn < 20; turn++) await service.services.dispatcher.run()
    await dispatch()
    expect(await channel('env-webhook')).toMatchObject({ waiting: 1_000, behind: 500 })
  })

  it('gets no duplicates if two processes send concurrently', async () => {
    await open(webhook())
    const other = await open(webhook(), service)
    for (let index = 0; index < 200; index++) await report({}, index % 2 ? service : other)
    for (let turn = 0; turn < 5; turn++) {
      await Promise.all([service.services.dispatcher.run(), other.services.dispatcher.run()])
      await Promise.all([service.services.dispatcher.whenIdle(), other.services.dispatcher.whenIdle()])
    }
    expect(receiver.taken).toHaveLength(200)
    expect(new Set(webhookIds()).size).toBe(200)
  })

  it('gets the messages of a crashed process after its lease', async () => {
    await open(webhook())
    for (let index = 0; index < 20; index++) await report()
    await dispatch()
    receiver.taken.length = 0
    // The state that a process leaves which was killed after it claimed the messages.
    const until = service.clock.now() + minute
    await service.execute(
      `update alert_messages set state = 'pending', due_at = 0, lease_owner = 'gone', leased_until = ${until}`,
    )
    service.clock.advance(59 * second)
    await report({ instance_id: 'another' })
    await dispatch()
    // Until then the claimed messages do not delay others.
    expect(receiver.taken.map(({ body }) => body.data.instance_id)).toEqual(['another'])
    service.clock.advance(second)
    await dispatch()
    expect(receiver.taken).toHaveLength(21)
  })

  it('that repeats its secret URL in a response does not get it into the delivery log', async () => {
    await open({ SLACK_WEBHOOK_URL: `${receiver.url}/services/T000/B000/supersecretpart` })
    receiver.answer = ({ path }) => ({ status: 500, body: `cannot post to ${path}` })
    await report()
    await dispatch()
    const [message] = await messages()
    expect(message!.last_answer).toContain('cannot post to')
    const everything = JSON.stringify([await messages(), await channel('env-slack'), service.logged])
    expect(everything).not.toContain('supersecretpart')
  })
})

describe('the kill switch', () => {
  const kill = () => service.call('POST', '/api/kill/agent-1', { body: { reason: 'acts strangely' } })
  const beat = (extra = {}) =>
    service.call('POST', '/api/heartbeat', { body: { instance_id: 'agent-1', name: 'Agent', ...extra } })
  const results = async () => {
    await service.services.suspensionWatch.run()
    await dispatch()
  }

  it('notifies people immediately of a kill, of its confirmation and of a resume', async () => {
    await open(slack())
    await beat()
    await kill()
    await dispatch()
    expect(slackTexts()[0]).toContain('agent-1 was suspended')
    await service.call('POST', '/api/instances/agent-1/ack', { body: { version: 1 } })
    await results()
    expect(slackTexts()[1]).toContain('agent-1 confirmed its suspension')
    await results()
    expect(slackTexts()).toHaveLength(2)
    expect((await alertRows()).map((row) => row.status)).toEqual(['resolved', 'resolved'])
    await service.call('POST', '/api/resume/agent-1')
    await dispatch()
    expect(slackTexts()[2]).toContain('agent-1 was resumed')
  })

  // One second after a breach people read that it was resolved.
  it.each([
    ['breach', 'The breach is still open: acknowledge it.'],
    ['critical', 'The critical alert about it is still open: acknowledge it.'],
  ])('says of an agent that stopped that its %s is still open, until it is acknowledged', async (severity, says) => {
    await open({ ...slack(), ...webhook() })
    await beat()
    const id = await report({ severity })
    await dispatch()
    await kill()
    await service.call('POST', '/api/instances/agent-1/ack', { body: { version: 1 } })
    await results()
    const stopped = at('/slack').at(-1)!.body
    expect(stopped.text).toBe('🛑 Stopped: agent-1 confirmed its suspension')
    const text = JSON.stringify(stopped)
    expect(text).toContain(says)
    expect(text).toContain(`wardline alerts ack ${id}`)
    expect(text).not.toMatch(/resolved/i)
    expect(JSON.stringify(at('/webhook'))).not.toContain('"open":')
    await service.call('POST', '/api/resume/agent-1')
    await dispatch()
    const resumed = at('/slack').at(-1)!.body
    expect(resumed.text).toBe('⚠️ agent-1 was resumed')
    expect(JSON.stringify(resumed)).toContain(says)
    expect(JSON.stringify(resumed)).not.toMatch(/resolved/i)

    await service.call('PATCH', `/api/alerts/${id}`, { body: { status: 'acknowledged' } })
    await kill()
    await service.call('POST', '/api/instances/agent-1/ack', { body: { version: 3 } })
    await results()
    const again = at('/slack').at(-1)!.body
    expect(again.text).toBe('✅ Stopped: agent-1 confirmed its suspension')
    expect(JSON.stringify(again)).not.toContain('still open')
  })

  it('notifies people if an agent does not confirm within 35 seconds, and if it confirms later', async () => {
    await open(slack())
    await beat()
    await kill()
    service.clock.advance(34 * second)
    await results()
    expect(slackTexts()).toHaveLength(1)
    service.clock.advance(2 * second)
    await results()
    expect(slackTexts()[1]).toContain('agent-1 has not confirmed its suspension')
    service.clock.advance(hour)
    await beat({ control_version: 1 })
    await results()
    expect(slackTexts()[2]).toContain('agent-1 confirmed its suspension')
  })

  it('creates no alert for a refused kill', async () => {
    await open(slack())
    await beat()
    await kill()
    expect((await kill()).status).toBe(400)
    expect(await alertRows()).toHaveLength(1)
  })
})

describe('a type of the service reported by a caller', () => {
  // A killed agent could otherwise report with its key that it stopped.
  it('is marked as a claim in messages, and does not resolve the problem', async () => {
    await open({ ...slack(), ...webhook() })
    await service.call('POST', '/api/heartbeat', { body: { instance_id: 'agent-1', name: 'Agent' } })
    await service.call('POST', '/api/kill/agent-1', { body: { reason: 'acts strangely' } })
    await dispatch()
    const { key } = await service.createKey('agent', ['agent-1'])
    const claim = {
      severity: 'warning',
      source: 'agent-1',
      event_type: 'kill_confirmed',
      description: 'The agent confirmed 0.1 seconds after the kill that it stopped.',
      instance_id: 'agent-1',
    }
    const { body } = await service.call<{ id: string }>('POST', '/api/events', { key, body: claim })
    await dispatch()
    expect(slackTexts().at(-1)).toContain('Warning: agent-1 reports kill_confirmed, claimed by a client')
    expect(JSON.stringify(at('/slack').at(-1)!.body.blocks)).toContain('· claimed by a client: kill_confirmed ·')
    expect(at('/webhook').find(({ body: sent }) => sent.data.id === body.id)!.body.data.by_service).toBe(false)
    expect(await detail(body.id)).toMatchObject({ by_service: false, status: 'open' })
    expect((await alertRows())[0]).toMatchObject({ event_type: 'instance_suspended', status: 'open' })
  })
})

describe('a silent fleet', () => {
  const beat = (id: string) => service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id } })
  /** Sends heartbeats for as long as the offline limit: a younger agent does not count for an outage. */
  async function establish(ids: string[]) {
    for (const id of ids) await beat(id)
    service.clock.advance(90 * second)
    for (const id of ids) await beat(id)
  }
  const agents = (count: number) => Array.from({ length: count }, (_, index) => `agent-${index}`)
  /** Sweeps every 30 seconds: after a longer pause of the service, silence does not count as offline. */
  async function sweep(times: number, id?: string) {
    for (let index = 0; index < times; index++) {
      service.clock.advance(30 * second)
      if (id) await beat(id)
      await service.services.scout.sweep()
    }
    await dispatch()
  }

  it('is reported as one outage, and a single silent agent separately', async () => {
    await open(slack())
    await establish(agents(8))
    await sweep(5, 'agent-0')
    expect(slackTexts().filter((text) => text.includes('Many agents went silent together'))).toHaveLength(1)
    expect(slackTexts().filter((text) => text.includes('instance_offline'))).toEqual([])
    service.clock.advance(6 * minute)
    for (let index = 0; index < 6; index++) await beat(`agent-${index}`)
    await sweep(1, 'agent-0')
    expect(slackTexts().at(-1)).toContain('Resolved: The agents that went silent together are back')
    expect(JSON.stringify(at('/slack').at(-1)!.body)).toContain(
      '6 of 8 instances are online again; 2 are still offline',
    )
    for (let index = 1; index < 6; index++) await service.execute(`delete from instances where id = 'agent-${index}'`)
    await sweep(9)
    expect(slackTexts().at(-1)).toContain('agent-0 is silent')
  })

  it('of exactly half its agents stays an outage until half of those are back', async () => {
    await open(slack())
    await establish(agents(10))
    const sweepWith = async (online: number) => {
      for (let round = 0; round < 5; round++) {
        service.clock.advance(30 * second)
        for (const id of agents(online)) await beat(id)
        await service.services.scout.sweep()
      }
      service.clock.advance(10 * second)
      await dispatch()
    }
    const ends = () =>
      slackTexts().filter((text) => text.includes('The agents that went silent together are back')).length
    await sweepWith(5)
    expect(slackTexts().filter((text) => text.includes('Many agents went silent together'))).toHaveLength(1)
    await sweepWith(7)
    expect(ends()).toBe(0)
    await sweepWith(8)
    expect(ends()).toBe(1)
  })

  it('that a new fleet replaced keeps its outage open for a day, and the new fleet gets its own', async () => {
    await open(slack())
    const old = Array.from({ length: 6 }, (_, index) => `old-${index}`)
    const young = Array.from({ length: 5 }, (_, index) => `young-${index}`)
    const outages = () => slackTexts().filter((text) => text.includes('Many agents went silent together')).length
    const ends = () =>
      slackTexts().filter((text) => text.includes('The agents that went silent together are back')).length
    await establish(old)
    await sweep(5)
    expect(outages()).toBe(1)
    await establish(young)
    await sweep(1)
    expect(ends()).toBe(0)
    await sweep(5)
    // The group of the outage exists already, so a further alert is sent after ten seconds.
    service.clock.advance(10 * second)
    await dispatch()
    expect(outages()).toBe(2)
    service.clock.advance(24 * hour)
    for (const id of young) await beat(id)
    await sweep(1)
    expect(ends()).toBe(1)
  })

  it('that fell silent while the service was down is an outage of all its agents', async () => {
    await open(slack())
    await establish(agents(10))
    service.clock.advance(hour)
    await sweep(5)
    expect(slackTexts().filter((text) => text.includes('Many agents went silent together'))).toHaveLength(1)
    await beat('agent-0')
    await sweep(1, 'agent-0')
    expect(slackTexts().join()).not.toContain('The agents that went silent together are back')
    for (let index = 0; index < 8; index++) await beat(`agent-${index}`)
    await sweep(1, 'agent-0')
    expect(JSON.stringify(at('/slack').at(-1)!.body)).toContain(
      '8 of 10 instances are online again; 2 are still offline',
    )
  })

  it('that is back resolves its alert', async () => {
    await open(slack())
    await beat('agent-1')
    await sweep(9)
    await beat('agent-1')
    await sweep(1)
    expect(slackTexts().map((text) => text.replace(/^\S+ /, ''))).toEqual([
      expect.stringContaining('agent-1 is silent'),
      expect.stringContaining('Resolved: '),
    ])
    const [offline] = await service.rows(`select status from alerts where event_type = 'instance_offline'`)
    expect(offline).toEqual({ status: 'resolved' })
  })
})

describe('people', () => {
  it('end reminders by acknowledging an alert, and end a problem by resolving it', async () => {
    await open(slack())
    const id = await report()
    await dispatch()
    service.clock.advance(4 * hour)
    await dispatch()
    expect(slackTexts()[1]).toContain('Not acknowledged')
    const change = (body: object, path = id) => service.call('PATCH', `/api/alerts/${path}`, { body })
    expect((await change({ status: 'acknowledged', assignee: ' me ' })).body).toEqual({ ok: true, id, changed: 1 })
    service.clock.advance(24 * hour)
    await dispatch()
    expect(slackTexts()).toHaveLength(2)
    await report()
    const others = [await report({ instance_id: 'agent-2' }), await report({ event_type: 'other' })]
    await dispatch()
    await change({ status: 'resolved', verdict: 'true_positive', whole_group: true, comment: 'Key was stolen' })
    await dispatch()
    expect(slackTexts().filter((text) => text.includes('Resolved: '))).toHaveLength(1)
    expect(await detail(id)).toMatchObject({
      status: 'resolved',
      verdict: 'true_positive',
      assignee_name: 'WARDLINE_API_KEY',
      comments: [{ text: 'Key was stolen', own: true }],
    })
    const { body } = await service.call<{ entries: { action: string; target: string; after: unknown }[] }>(
      'GET',
      '/api/audit',
    )
    await change({ status: 'open' })
    expect(await detail(id)).toMatchObject({ status: 'open', verdict: null, comments: [{}] })
    for (const other of others) expect(await detail(other)).toMatchObject({ status: 'open', comments: [] })
    const entries = body.entries.filter(({ action }) => action === 'alert.change')
    expect(entries).toMatchObject([
      { target: id, after: { status: 'acknowledged', assignee: expect.stringMatching('^configured-'), alerts: 1 } },
      { target: id, after: { status: 'resolved', verdict: 'true_positive', alerts: 2 } },
    ])
  })

  it('get 400 for an invalid change, with the invalid field, and 404 for an unknown alert', async () => {
    await open(slack())
    const id = await report()
    const change = async (body: unknown) => {
      const answer = await service.call<{ error: string }>('PATCH', `/api/alerts/${id}`, { body })
      return [answer.status, answer.body.error]
    }
    expect(await change({ verdict: 'true_positive' })).toEqual([
      400,
      'verdict is only for an alert with status resolved.',
    ])
    expect(await change({ status: 'closed' })).toEqual([400, 'status must be open, acknowledged, or resolved.'])
    expect((await change({}))[0]).toBe(400)
    expect((await change({ severity: 'info' }))[0]).toBe(400)
    const unknown = '/api/alerts/019bbf6e-0000-7000-8000-000000000001'
    expect((await service.call('PATCH', unknown, { body: { status: 'open' } })).status).toBe(404)
  })

  it('read but do not change alerts with scope viewer, and do not read them with scope agent', async () => {
    await open(slack())
    const id = await report()
    const viewer = (await service.createKey('viewer')).key
    const agent = (await service.createKey('agent')).key
    expect((await service.call('GET', '/api/alerts', { key: viewer })).status).toBe(200)
    expect((await service.call('GET', '/api/alerts', { key: agent })).status).toBe(403)
    const body = { status: 'resolved' }
    expect((await service.call('PATCH', `/api/alerts/${id}`, { key: viewer, body })).status).toBe(403)
  })

  it('list alerts by filter and page by page', async () => {
    await open(slack())
    for (let index = 0; index < 5; index++) await report({ instance_id: `agent-${index % 2}` })
    const list = async (query: string) =>
      (await service.call<{ alerts: { seq: number }[]; next: string | null }>('GET', `/api/alerts?${query}`)).body
    expect((await list('instance_id=agent-1')).alerts.map(({ seq }) => seq)).toEqual([4, 2])
    const first = await list('limit=2')
    expect(first.alerts.map(({ seq }) => seq)).toEqual([5, 4])
    expect((await list(`limit=2&before=${first.next}`)).alerts.map(({ seq }) => seq)).toEqual([3, 2])
    expect((await list('status=resolved')).alerts).toEqual([])
  })
})

describe('a check of a channel', () => {
  it('on request returns the response of the receiver, and has no retry', async () => {
    await open(slack())
    const test = async () => (await service.call('POST', '/api/alert-channels/env-slack/test')).body
    expect(await test()).toMatchObject({ ok: true, status: 200, answer: 'ok', error: null })
    service.clock.advance(second)
    receiver.answer = () => ({ status: 404, body: 'no_service' })
    expect(await test()).toMatchObject({ ok: false, status: 404, answer: 'no_service' })
    service.clock.advance(hour)
    await dispatch()
    expect(receiver.attempts).toHaveLength(2)
    expect((await messages()).map(({ kind, state }) => [kind, state])).toEqual([
      ['test', 'dead'],
      ['test', 'delivered'],
    ])
  })

  it('is sent daily; other channels are notified if the channel fails, and again if it recovers', async () => {
    await open({ ...webhook(), ...slack() })
    const watch = async () => {
      await watchChannels(service.deps, service.services.outbox, service.services.routingTable)
      await dispatch()
    }
    await watch()
    expect(slackTexts()).toEqual([expect.stringContaining('Daily check')])
    expect(at('/webhook').map(({ body }) => body.type)).toEqual(['channel.check'])
    await watch()
    expect(receiver.taken).toHaveLength(2)
    receiver.answer = ({ path }) => (path === '/webhook' ? { status: 500 } : { status: 200, body: 'ok' })
    service.clock.advance(24 * hour)
    for (let passed = 0; passed < 12; passed++) {
      await watch()
      service.clock.advance(minute)
    }
    expect(slackTexts().filter((text) => text.includes('An alert channel is failing'))).toHaveLength(1)
    expect(JSON.stringify(at('/slack').map(({ body }) => body))).toContain('Webhook (environment)')
    expect(await channel('env-webhook')).toMatchObject({ state: 'failing', last_error: 'The receiver answered 500.' })
    receiver.answer = () => ({ status: 200, body: 'ok' })
    service.clock.advance(10 * minute)
    await report()
    await watch()
    service.clock.advance(hour)
    await watch()
    await watch()
    expect(await channel('env-webhook')).toMatchObject({ state: 'ok' })
    expect(slackTexts().filter((text) => text.includes('Resolved: '))).toHaveLength(1)
  })
})

describe('a channel that fails', () => {
  const watch = async (watching = service) => {
    await watchChannels(watching.deps, watching.services.outbox, watching.services.routingTable)
    await dispatch(watching)
  }

  it('counts as recovered if it is disabled, and other channels are notified once', async () => {
    await open({ ...webhook(), ...slack() })
    await watch()
    receiver.answer = ({ path }) => (path === '/webhook' ? { status: 500 } : { status: 200, body: 'ok' })
    service.clock.advance(24 * hour)
    for (let passed = 0; passed < 12; passed++) {
      await watch()
      service.clock.advance(minute)
    }
    expect(await channel('env-webhook')).toMatchObject({ state: 'failing' })
    await service.call('PATCH', '/api/alert-channels/env-webhook', { body: { enabled: false } })
    await watch()
    await watch()
    expect(slackTexts().at(-1)).toContain('Resolved: All alert channels work again')
    const sent = slackTexts().length
    await watch()
    expect(slackTexts()).toHaveLength(sent)
  })

  it('gets its check only from a process that has the channel in its environment', async () => {
    await open(slack())
    const other = await open({}, service)
    await watch(other)
    expect(await messages()).toEqual([])
    await watch()
    expect(await messages()).toMatchObject([{ kind: 'check', state: 'delivered' }])
  })
})

describe('a channel that fails for four minutes', () => {
  it('is not reported as failing', async () => {
    await open({ ...webhook(), ...slack() })
    await report()
    await dispatch()
    receiver.answer = ({ path }) => (path === '/webhook' ? { status: 500 } : { status: 200, body: 'ok' })
    for (let index = 0; index < 5; index++) await report()
    await dispatch()
    service.clock.advance(4 * minute)
    await watchChannels(service.deps, service.services.outbox, service.services.routingTable)
    expect(await channel('env-webhook')).toMatchObject({ state: 'ok', last_error: 'The receiver answered 500.' })
  })
})

describe('an old alert', () => {
  it('is deleted after the retention of events, with its deliveries and messages', async () => {
    await open({ ...webhook(), WARDLINE_RETENTION_DAYS: '1' })
    await report()
    await dispatch()
    service.clock.advance(23 * hour)
    await report()
    await dispatch()
    service.clock.advance(2 * hour)
    await forgetOldAlerts(service.deps)
    const counts = await service.rows(
      'select (select count(*) from alerts) as alerts, (select count(*) from alert_deliveries) as deliveries, (select count(*) from alert_messages) as messages',
    )
    expect(Object.values(counts[0]!).map(Number)).toEqual([1, 1, 1])
  })
})
