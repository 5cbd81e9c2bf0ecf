import type { Alert, AlertDetail } from '@wardline/contract'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { dayMs, minuteMs } from '../../clock.ts'
import { type AlertReceiver, startAlertReceiver } from '../../testing/alert-receiver.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { forgetOldAlerts } from './alerts.ts'

let receiver: AlertReceiver
let service: TestService
beforeEach(async () => {
  const started = await startAlertReceiver()
  const opened = await openTestService({ env: { WARDLINE_ALERT_ALLOW_CIDRS: '127.0.0.1' } })
  receiver = started
  service = opened
  onTestFinished(async () => {
    await opened[Symbol.asyncDispose]()
    await started[Symbol.asyncDispose]()
  })
})

async function ok<Body = { id: string }>(method: 'POST' | 'PATCH' | 'DELETE', path: string, body?: object) {
  const answer = await service.call<Body>(method, path, body === undefined ? {} : { body })
  expect(answer.status, answer.text).toBeLessThan(300)
  return answer.body
}
const report = async (severity: string, event_type = 'policy_violation') =>
  (await ok('POST', '/api/events', { severity, source: 'test', event_type, description: 'x', instance_id: 'bot-1' })).id
const list = async (query = '') => (await service.call<{ alerts: Alert[] }>('GET', `/api/alerts${query}`)).body.alerts
const detail = async (id: string) => (await service.call<AlertDetail>('GET', `/api/alerts/${id}`)).body
const addChannel = (type: 'slack' | 'webhook') =>
  ok('POST', '/api/alert-channels', { name: 'Ops', type, settings: { url: `${receiver.url}/${type}` } })

async function dispatch(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) {
    await service.services.dispatcher.run()
    await service.services.dispatcher.whenIdle()
  }
}

describe('without a channel', () => {
  it('every event from warning on is an open alert; info and metrics are none', async () => {
    await report('info')
    const ids = [await report('warning'), await report('critical'), await report('breach')]
    const alerts = await list()
    expect(alerts.map(({ id, status }) => [id, status])).toEqual(ids.toReversed().map((id) => [id, 'open']))
    expect(await detail(ids[2]!)).toMatchObject({ severity: 'breach', deliveries: [], history: [] })
  })

  it('a kill is an alert, and its resume ends it', async () => {
    await ok('POST', '/api/heartbeat', { instance_id: 'bot-1', name: 'bot-1' })
    await ok('POST', '/api/kill/bot-1', { reason: 'test' })
    expect(await list('?status=open')).toMatchObject([{ event_type: 'instance_suspended', by_service: true }])
    await ok('POST', '/api/resume/bot-1', {})
    expect(await list('?status=open')).toEqual([])
    expect((await list('?status=resolved')).map(({ event_type }) => event_type)).toEqual([
      'instance_resumed',
      'instance_suspended',
    ])
  })

  it('alerts are acknowledged, assigned and resolved, alone and with all of their problem', async () => {
    const [first, second] = [await report('critical'), await report('critical')]
    await ok('PATCH', `/api/alerts/${first}`, { status: 'acknowledged', assignee: 'me' })
    expect(await detail(first)).toMatchObject({
      status: 'acknowledged',
      assignee_name: 'WARDLINE_API_KEY',
      history: [{ alerts: 1 }],
    })
    await ok('PATCH', `/api/alerts/${second}`, { status: 'resolved', verdict: 'false_positive', whole_group: true })
    expect((await list('?status=resolved')).map(({ id }) => id)).toEqual([second, first])
  })

  // Nobody has to be notified for a flood to be a flood: it must neither fill the table nor hide behind it.
  it('a flood is bounded and summarized, and alerts expire like events', async () => {
    const body = Array.from({ length: 700 }, () => ({
      ...{ severity: 'critical', source: 'test', event_type: 'policy_violation', description: 'x' },
      instance_id: 'bot-1',
    }))
    await ok('POST', '/api/events/batch', body)
    expect(await list('?limit=1000')).toHaveLength(60)
    service.clock.advance(minuteMs)
    await service.services.outbox.writeSummaries()
    const [summary] = await list('?limit=1')
    expect(summary).toMatchObject({ event_type: 'alerts_summarized', severity: 'critical', instance_id: 'bot-1' })
    expect(summary!.description).toMatch(/^640 more alerts of severity critical/)
    service.clock.advance(service.deps.config.retentionDays * dayMs + 2 * minuteMs)
    await forgetOldAlerts(service.deps)
    expect(await list()).toEqual([])
  })
})

const states = ['open', 'acknowledged', 'resolved'] as const
const types = ['slack', 'webhook'] as const

describe.each(types)('an alert and a channel of type %s', (type) => {
  /** Brings an alert into a state, and checks that nobody is notified by any of it. */
  async function expectSilence(id: string, state: (typeof states)[number], received: number): Promise<void> {
    const alone = async () => {
      await dispatch()
      expect(receiver.attempts).toHaveLength(received)
    }
    await alone()
    for (const status of [...states, state]) {
      await ok('PATCH', `/api/alerts/${id}`, { status })
      expect(await detail(id)).toMatchObject({ status })
      await alone()
    }
    service.clock.advance(dayMs)
    await alone()
  }

  it.each(states)('%s, without a channel: it is listed, and nobody is notified', async (state) => {
    const id = await report('critical')
    await expectSilence(id, state, 0)
    expect((await list(`?status=${state}`)).map((alert) => alert.id)).toEqual([id])
  })

  it.each(states)('%s, a channel added later: it receives only alerts from then on', async (state) => {
    const id = await report('critical')
    await ok('PATCH', `/api/alerts/${id}`, { status: state })
    await addChannel(type)
    await expectSilence(id, state, 0)
    expect((await detail(id)).deliveries).toEqual([])
    const next = await report('critical')
    await dispatch()
    expect(receiver.taken).toHaveLength(1)
    expect((await detail(next)).deliveries).toMatchObject([{ outcome: 'sent', state: 'delivered' }])
    expect((await detail(id)).deliveries).toEqual([])
  })

  it.each(states)('%s, its channel removed: it stays listed, and later ones are alerts too', async (state) => {
    const channel = await addChannel(type)
    const id = await report('critical')
    await dispatch()
    expect(receiver.taken).toHaveLength(1)
    await ok('DELETE', `/api/alert-channels/${channel.id}`)
    await expectSilence(id, state, 1)
    const next = await report('warning')
    await dispatch()
    expect(receiver.attempts).toHaveLength(1)
    expect((await list('?min_severity=warning')).map((alert) => alert.id)).toContain(next)
    expect(await list(`?status=${state}`)).toContainEqual(expect.objectContaining({ id }))
  })
})

// A narrow channel, such as a pager, must not decide what people find in the queue.
it('an event that every channel refuses is an alert for the queue alone', async () => {
  await ok('POST', '/api/alert-channels', {
    ...{ name: 'Pager', type: 'slack', min_severity: 'breach', settings: { url: `${receiver.url}/slack` } },
  })
  const id = await report('warning')
  await report('info')
  await dispatch()
  expect(receiver.attempts).toEqual([])
  expect(await list()).toMatchObject([{ id, status: 'open' }])
})

it('the end of a problem resolves it, although no channel takes either', async () => {
  await ok('POST', '/api/heartbeat', { instance_id: 'bot-1', name: 'bot-1' })
  for (let sweep = 0; sweep < 9; sweep++) {
    service.clock.advance(minuteMs / 2)
    await service.services.scout.sweep()
  }
  expect(await list('?status=open')).toMatchObject([{ event_type: 'instance_offline' }])
  await ok('POST', '/api/heartbeat', { instance_id: 'bot-1', name: 'bot-1' })
  await service.services.scout.sweep()
  expect(await list('?status=open')).toEqual([])
})
