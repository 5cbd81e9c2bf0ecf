import { alertTypes } from '@wardline/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type AlertReceiver, startAlertReceiver } from '../../../testing/alert-receiver.ts'
import { openTestService, type TestService } from '../../../testing/service.ts'

const minute = 60_000

let receiver: AlertReceiver
let service: TestService
const others: TestService[] = []
let decoy = ''

async function open(env: Record<string, string>): Promise<void> {
  service = await openTestService({ env })
  const { body } = await service.call<{ key: string }>('POST', '/api/honeypots', {
    body: { type: 'api_key', keyType: 'openai', instanceId: 'planted' },
  })
  decoy = body.key
}

const webhook = () => ({ ALERT_WEBHOOK_URL: `${receiver.url}/webhook` })
const slack = () => ({ SLACK_WEBHOOK_URL: `${receiver.url}/slack` })

beforeEach(async () => {
  receiver = await startAlertReceiver()
})
afterEach(async () => {
  for (const other of others.splice(0)) await other[Symbol.asyncDispose]()
  await service[Symbol.asyncDispose]()
  await receiver[Symbol.asyncDispose]()
})

/** Reports events of new types by several instances. */
async function flood(count: number, instances = 10, fields: Record<string, unknown> = {}): Promise<void> {
  const batch = async (sent: number) => {
    const body = Array.from({ length: Math.min(500, count - sent) }, (_, index) => ({
      severity: 'critical',
      source: 'agent',
      event_type: `invented_${sent + index}`,
      description: 'Look here',
      instance_id: `flood-${(sent + index) % instances}`,
      ...fields,
    }))
    const { status } = await service.call('POST', '/api/events/batch', { body })
    expect(status).toBe(200)
  }
  // Concurrently, so that the dispatcher does not run in between.
  await Promise.all(Array.from({ length: Math.ceil(count / 500) }, (_, index) => batch(500 * index)))
}

async function hit(instance_id = 'victim', on = service, key?: string): Promise<void> {
  const { body } = await on.call<{ matched: boolean }>('POST', '/api/honeypots/check/key', {
    body: { key: decoy, meta: { instance_id } },
    ...(key === undefined ? {} : { key }),
  })
  expect(body).toEqual({ matched: true })
}

/** Waits for the current turn, runs another one, and one more for messages that this one wrote. */
async function turn(on = service): Promise<void> {
  for (let count = 0; count < 3; count++) {
    await on.services.dispatcher.run()
    await on.services.dispatcher.whenIdle()
  }
}

const textsAt = (path: string) =>
  receiver.taken.filter((alert) => alert.path === path).map(({ body }) => JSON.stringify(body))
const alertRows = () => service.rows('select * from alerts order by seq')
const writeSummaries = (on = service) => on.services.outbox.writeSummaries()

// With one queue for all alerts, a key could delay the alert of a decoy hit by a flood of reports.
describe('a decoy hit behind a flood of reports', () => {
  it('is sent to people in the first turn, although 2,000 reports are not planned yet', async () => {
    await open(slack())
    await flood(2_000)
    await hit()
    await turn()
    expect(textsAt('/slack').join()).toContain('victim used a decoy')
  })

  it('is among the next two messages to a machine, although a thousand are waiting', async () => {
    await open(webhook())
    receiver.answer = () => ({ status: 503 })
    await flood(1_500)
    for (let count = 0; count < 6; count++) await service.services.dispatcher.run()
    await turn()
    receiver.attempts.splice(0)
    await hit()
    await turn()
    expect(receiver.attempts.map(({ body }) => body.type).slice(0, 2)).toContain('alert.honeypot_triggered')
  })

  it('is sent to people although the flood used up the rate limit, and is not in its digest', async () => {
    await open(slack())
    await flood(300, 300)
    await turn()
    await turn()
    const before = textsAt('/slack').length
    expect(before).toBeLessThan(20)
    for (const instance of ['one', 'two', 'three']) await hit(instance)
    await turn()
    const texts = textsAt('/slack').slice(before)
    for (const instance of ['one', 'two', 'three']) {
      expect(texts.some((text) => text.includes(`${instance} used a decoy"`))).toBe(true)
    }
    service.clock.advance(minute)
    await turn()
    const digest = textsAt('/slack').find((text) => text.includes('exceeded the rate'))!
    expect(digest).not.toContain('honeypot_triggered')
  })

  // A key for a whole prefix of instances could touch a decoy again and again, with a new instance id each time.
  it('of another key has an alert although one key hits decoys with many ids, and every hit is stored', async () => {
    await open(webhook())
    const [{ key }, other] = [await service.createKey('agent', ['bot-*']), await service.createKey('agent', ['victim'])]
    await Promise.all(Array.from({ length: 50 }, (_, index) => hit(`bot-${index % 40}`, service, key)))
    await hit('victim', service, other.key)
    const alerts = (await alertRows()) as { instance_id: string }[]
    expect(alerts.at(-1)).toMatchObject({ instance_id: 'victim', severity: 'breach', by_service: 1 })
    expect(new Set(alerts.map(({ instance_id }) => instance_id)).size).toBe(21)
    expect(await service.rows('select id from honeypot_hits')).toHaveLength(51)
    service.clock.advance(minute)
    await writeSummaries()
    const summary = ((await alertRows()) as { description: string }[]).at(-1)!
    expect(summary).toMatchObject({ event_type: 'honeypot_triggered', instance_id: null, by_service: 1 })
    expect(Number(summary.description.split(' ')[0])).toBe(51 - alerts.length)
    await hit('bot-39', service, key)
    expect((await alertRows()).at(-1)).toMatchObject({ instance_id: 'bot-39' })
  })

  // An agent could otherwise stop delivery by reporting a text that the receiver refuses.
  it('is sent although the receiver refused the reports, because they do not count as an outage', async () => {
    await open(webhook())
    receiver.answer = ({ body }) => ({ status: body.type === 'alert.honeypot_triggered' ? 200 : 400 })
    await flood(20)
    for (let count = 0; count < 8; count++) {
      await turn()
      service.clock.advance(6_000)
    }
    await hit()
    await turn()
    expect(receiver.taken.map(({ body }) => body.type)).toEqual(['alert.honeypot_triggered'])
  })

  it('is sent once, by one of two processes', async () => {
    await open(webhook())
    const { dataDir } = service.deps.config
    const other = await openTestService({ env: webhook(), dataDir, clock: service.clock })
    others.push(other)
    await flood(100)
    for (let count = 0; count < 5; count++) await hit(`victim-${count}`, count % 2 ? other : service)
    for (let count = 0; count < 3; count++) {
      await Promise.all([turn(), turn(other)])
    }
    const hits = receiver.taken.filter(({ body }) => body.type === 'alert.honeypot_triggered')
    expect(hits.map(({ body }) => body.data.instance_id).toSorted()).toEqual(
      Array.from({ length: 5 }, (_, index) => `victim-${index}`),
    )
    const all = receiver.taken.map(({ body }) => body.data.seq as number)
    expect(all.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 105 }, (_, index) => index + 1))
  })
})

it('a channel has at most 1,000 groups, also if one batch contains many new ones', async () => {
  await open(slack())
  await flood(101)
  await turn()
  await flood(1_500)
  for (let count = 0; count < 4; count++) await turn()
  const [groups] = await service.rows<{ count: number }>('select count(*) as count from alert_groups')
  expect(Number(groups!.count)).toBe(1_000)
})

// Only severity decides, so a new type needs no registration.
it('a critical alert of the service is sent during quiet hours, and a warning is the first after them', async () => {
  await open(slack())
  const quiet_hours = { from: '00:00', to: '23:59', time_zone: 'UTC', min_severity: 'breach' }
  await service.call('PATCH', '/api/alert-channels/env-slack', { body: { quiet_hours } })
  await flood(1_000, 200)
  const { ingest } = service.services
  const own = (severity: 'warning' | 'critical', event_type: string) =>
    ingest.own({ severity, event_type, description: 'Something happened', instance_id: 'agent-1' })
  await ingest.store([own('warning', 'quite_new'), own('critical', 'identity_mismatch')])
  await turn()
  expect(textsAt('/slack').join()).toContain('A key of another agent was used for agent-1')
  expect(textsAt('/slack').join()).not.toContain('quite_new')
  await service.call('PATCH', '/api/alert-channels/env-slack', { body: { quiet_hours: null } })
  await turn()
  expect(textsAt('/slack').join()).toContain('From Wardline itself: 1 alert during quiet hours')
})

// A turn with the old quiet hours would otherwise delay alerts again until the end of those hours.
it('delayed alerts are sent when quiet hours are removed, also by a process with the old configuration', async () => {
  await open(slack())
  const quiet_hours = { from: '00:00', to: '23:59', time_zone: 'UTC', min_severity: 'breach' }
  await service.call('PATCH', '/api/alert-channels/env-slack', { body: { quiet_hours } })
  const { dataDir } = service.deps.config
  const other = await openTestService({ env: slack(), dataDir, clock: service.clock })
  others.push(other)
  const report = async (event_type: string) => {
    const event = {
      severity: 'warning',
      event_type,
      description: 'Something happened',
      instance_id: 'agent-1',
    } as const
    await service.services.ingest.store([service.services.ingest.own(event)])
    await turn()
  }
  await report('held_back')
  expect(textsAt('/slack').join()).not.toContain('held_back')
  await other.call('PATCH', '/api/alert-channels/env-slack', { body: { quiet_hours: null } })
  const seesOldHours = service.services.routingTable.current.channels.some((channel) => channel.quiet_hours !== null)
  expect(seesOldHours).toBe(true)
  await turn()
  expect(textsAt('/slack').join()).toContain('From Wardline itself: 1 alert during quiet hours')
  await report('after_the_change')
  expect(textsAt('/slack').join()).toContain('agent-1: after_the_change')
})

describe('a channel', () => {
  it('shows the number of alerts that are not planned yet', async () => {
    await open(slack())
    await hit()
    const behind = async () =>
      (await service.call<{ behind: number }>('GET', '/api/alert-channels/env-slack')).body.behind
    expect(await behind()).toBe(1)
    await turn()
    expect(await behind()).toBe(0)
  })

  // During an update, processes of earlier versions plan all alerts in one lane.
  it('gets no duplicate of an alert that an earlier version planned', async () => {
    await open(webhook())
    await service.execute('update alert_channels set own_planned_seq = null')
    await hit('planned')
    await service.execute(
      `insert into alert_deliveries (alert_seq, channel_id, outcome) values (1, 'env-webhook', 'sent')`,
    )
    await flood(1)
    await turn()
    await hit('new')
    await turn()
    expect(receiver.taken.map(({ body }) => body.data.instance_id).toSorted()).toEqual(['flood-0', 'new'])
  })
})

describe('alerts of one instance beyond 600 per minute', () => {
  const counts = async () => service.rows('select * from alert_overflow order by instance_id')
  const summaries = async () =>
    (await alertRows()).filter(({ event_type }) => event_type === alertTypes.alertsSummarized)

  it('are counted, and the count becomes an alert after the minute', async () => {
    await open(webhook())
    await flood(2_500, 1)
    await flood(50, 1, { instance_id: 'calm' })
    await flood(3, 1, { severity: 'breach' })
    expect(await alertRows()).toHaveLength(600 + 50 + 3)
    expect(await counts()).toMatchObject([{ instance_id: 'flood-0', severity: 'critical', count: 1_900 }])
    await writeSummaries()
    expect(await summaries()).toEqual([])
    service.clock.advance(minute)
    await writeSummaries()
    await writeSummaries()
    expect(await summaries()).toMatchObject([
      { instance_id: 'flood-0', severity: 'critical', by_service: 1, source: 'wardline', status: 'open' },
    ])
    expect((await summaries())[0]!.description).toMatch(/^1,900 more alerts of severity critical within the minute of /)
    expect(await counts()).toEqual([])
    // All events are stored.
    expect(await service.rows('select count(*) as count from events')).toEqual([{ count: 2_553 }])
    await flood(1, 1)
    expect((await alertRows()).at(-1)).toMatchObject({ event_type: 'invented_0' })
  })

  it('are counted exactly by two processes, also if one of them restarts', async () => {
    await open(webhook())
    const { dataDir } = service.deps.config
    const other = await openTestService({ env: webhook(), dataDir, clock: service.clock })
    const batch = (on: TestService) =>
      on.call('POST', '/api/events/batch', {
        body: Array.from({ length: 1_000 }, () => ({
          severity: 'warning',
          source: 'a',
          event_type: 'x',
          description: 'y',
          instance_id: 'loud',
        })),
      })
    await Promise.all([batch(service), batch(other)])
    // The counts in memory of this process are lost.
    await other[Symbol.asyncDispose]()
    others.push(await openTestService({ env: webhook(), dataDir, clock: service.clock }))
    service.clock.advance(minute)
    await Promise.all([writeSummaries(), writeSummaries(others[0])])
    expect((await alertRows()).length).toBe(1_200 + 1)
    expect((await summaries()).map(({ description }) => String(description).split(' ')[0])).toEqual(['800'])
  })

  it('do not affect the limit of other instances', async () => {
    await open(webhook())
    await flood(1_200, 2)
    await flood(600, 1, { instance_id: 'other' })
    expect(await alertRows()).toHaveLength(1_800)
    expect(await counts()).toEqual([])
  })

  it('are summarized for each channel that would receive some of them', async () => {
    await open({ ...webhook(), ...slack() })
    const route = { name: 'r', match: { types: ['invented_*'] }, channels: ['env-slack'] }
    await service.call('POST', '/api/alert-routes', { body: route })
    await flood(700, 1)
    await turn()
    service.clock.advance(2 * minute)
    await turn()
    await writeSummaries()
    for (let count = 0; count < 6; count++) await turn()
    const [summary] = receiver.taken.filter(({ body }) => body.type === 'alert.alerts_summarized')
    expect(summary!.body.data).toMatchObject({ by_service: true, instance_id: 'flood-0' })
    expect(textsAt('/slack').join()).toContain('Further alerts of flood-0 were summarized')
  })

  // An attacker who knows a decoy could touch it again and again to delay the next alert.
  it('have a limit of 60 per type if the service reports them, and the summary is by the service too', async () => {
    await open(webhook())
    for (let count = 0; count < 100; count++) await hit('loud')
    await hit('calm')
    expect(await alertRows()).toHaveLength(61)
    service.clock.advance(minute)
    await writeSummaries()
    expect((await alertRows()).at(-1)).toMatchObject({
      event_type: 'honeypot_triggered',
      instance_id: 'loud',
      severity: 'breach',
      by_service: 1,
    })
    expect((await alertRows()).at(-1)!.description).toContain('40 more alerts')
  })
})
