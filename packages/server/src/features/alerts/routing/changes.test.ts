import { type AlertMatch, alertTypes, serviceEventTypes } from '@wardline/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type AlertReceiver, startAlertReceiver } from '../../../testing/alert-receiver.ts'
import { openTestService, type TestService } from '../../../testing/service.ts'
import { isNarrowed, mayHideAttacks } from './changes.ts'

let receiver: AlertReceiver
let service: TestService
let operator: { id: string; key: string }

beforeEach(async () => {
  receiver = await startAlertReceiver()
  service = await openTestService({
    env: {
      SLACK_WEBHOOK_URL: `${receiver.url}/slack`,
      DISCORD_WEBHOOK_URL: `${receiver.url}/discord`,
      WARDLINE_ALERT_ALLOW_CIDRS: '127.0.0.1',
    },
  })
  operator = await service.createKey('operator')
})
afterEach(async () => {
  await service[Symbol.asyncDispose]()
  await receiver[Symbol.asyncDispose]()
})

const call = async <Body = { id: string }>(
  method: 'POST' | 'PATCH' | 'DELETE' | 'PUT',
  path: string,
  body?: unknown,
  key = operator.key,
) => {
  const answer = await service.call<Body>(method, path, { key, ...(body === undefined ? {} : { body }) })
  expect(answer.status).toBeLessThan(300)
  return answer.body
}

async function dispatch(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) {
    await service.services.dispatcher.run()
    await service.services.dispatcher.whenIdle()
  }
}

const receivedAt = (path: string, what: string) =>
  receiver.taken
    .filter((alert) => alert.path.startsWith(path))
    .filter(({ body }) => JSON.stringify(body).includes(what))
const changes = () =>
  service.rows(
    `select severity, description, by_service from alerts where event_type = 'alerting_changed' order by seq`,
  )
const newWebhook = () =>
  call('POST', '/api/alert-channels', { name: 'SIEM', type: 'webhook', settings: { url: `${receiver.url}/siem` } })

// An attacker with a stolen operator key would first disable the alerts about the attack.
describe('the other channels are notified who', () => {
  it('removed a channel', async () => {
    const { id } = await newWebhook()
    await call('DELETE', `/api/alert-channels/${id}`)
    await dispatch()
    for (const path of ['/slack', '/discord']) {
      expect(receivedAt(path, 'operator of a test removed the channel'), path).toHaveLength(1)
    }
    expect(await changes()).toMatchObject([{ severity: 'critical', by_service: 1 }])
  })

  it('disabled a channel, and not notified of changes of a disabled channel', async () => {
    await call('PATCH', '/api/alert-channels/env-slack', { enabled: false })
    await dispatch()
    expect(receivedAt('/slack', 'alerting_changed')).toEqual([])
    expect(receivedAt('/discord', 'operator of a test disabled the channel')).toHaveLength(1)
    await call('PATCH', '/api/alert-channels/env-slack', { min_severity: 'breach' })
    await call('PATCH', '/api/alert-channels/env-slack', { enabled: true })
    expect(await changes()).toHaveLength(1)
  })

  it('redirected a channel', async () => {
    const { id } = await newWebhook()
    await call('PATCH', `/api/alert-channels/${id}`, { settings: { url: 'https://93.184.215.14/' } })
    await dispatch()
    const [heard] = receivedAt('/slack', 'alerting_changed')
    expect(JSON.stringify(heard)).toMatch(/replaced the settings of the channel .* 93\.?.*184.* instead of 127/)
  })

  it('reduced the alerts of a channel, by its minimum severity, its quiet hours or a route', async () => {
    await call('PATCH', '/api/alert-channels/env-slack', { min_severity: 'breach' })
    const quiet_hours = { from: '00:00', to: '23:59', time_zone: 'UTC' }
    await call('PATCH', '/api/alert-channels/env-slack', { quiet_hours })
    await call('PATCH', '/api/alert-channels/env-slack', { quiet_hours: null, min_severity: 'info' })
    const route = { name: 'r', match: { types: ['nothing'] }, channels: ['env-slack'] }
    const { id } = await call('POST', '/api/alert-routes', route)
    await call('PUT', `/api/alert-routes/${id}`, { ...route, match: { types: ['other'] } })
    await call('DELETE', `/api/alert-routes/${id}`)
    const texts = (await changes()).map(({ description }) => String(description))
    expect(texts).toEqual([
      expect.stringContaining('raised the minimum severity'),
      expect.stringContaining('quiet hours from 00:00 to 23:59'),
      expect.stringContaining('receives fewer alerts'),
      expect.stringContaining('receives fewer alerts'),
    ])
    await dispatch()
    // The channel itself is notified too, although its route and its minimum severity do not match.
    expect(receivedAt('/slack', 'receives fewer alerts').length).toBeGreaterThan(0)
  })

  // Each makes alerts rarer, or their loss unnoticed, without a lower severity.
  it('weakened a channel by its pace, its daily check or its notices of resolved alerts', async () => {
    const change = (body: object) => call('PATCH', '/api/alert-channels/env-slack', body)
    await change({ max_per_minute: 1 })
    await change({ daily_check: false })
    await change({ send_resolved: false })
    await change({ max_per_minute: 30, daily_check: true, send_resolved: true })
    await change({ max_per_minute: 30 })
    const channel = String.raw`the channel ".+" \(slack\)`
    expect(await changes()).toMatchObject(
      [
        `lowered the messages of ${channel} from 20 to 1 a minute`,
        `turned off the daily check of ${channel}`,
        `turned off the notice of resolved alerts of ${channel}`,
      ].map((text) => ({
        severity: 'warning',
        description: expect.stringMatching(new RegExp(`^operator of a test ${text}\\.$`)),
      })),
    )
    await dispatch()
    expect(receivedAt('/discord', 'a minute')).toHaveLength(1)
  })

  // A silence for months, a minute before the attack, of the agent, its fleet, or the alerts that the attack causes.
  it.each([
    ['one agent', { instances: ['agent-1'] }, /silenced all of instance agent-1 until/],
    ['what shows an attack', { types: ['activity_while_suspended'] }, /silenced all of type activity_while_suspended/],
    ['a prefix that is nearly the agent', { instances: ['agent-1*'] }, /silenced all of instance agent-1\* until/],
    ['a prefix of the fleet', { instances: ['agen*'], severities: ['breach'] }, /of severity breach; instance agen\* /],
    ['matches of rules', { types: ['rule_matched'] }, /silenced all of type rule_matched until/],
    ['rule matches of one agent', { types: ['rule_matched'], instances: ['agent-1'] }, /type rule_matched; instance/],
    [
      'types that hide behind harmless ones',
      { types: ['my_1', 'my_2', 'my_3', 'my_4', 'my_5', 'auth_probing'] },
      /silenced all of type auth_probing, my_1, my_2, my_3, my_4 and others until/,
    ],
  ])('silenced %s', async (_, match, text) => {
    const ends_at = new Date(service.clock.now() + 300 * 86_400_000).toISOString()
    await call('POST', '/api/silences', { match, reason: 'Maintenance', ends_at })
    expect(await changes()).toMatchObject([{ description: expect.stringMatching(text), by_service: 1 }])
  })

  it('silenced everything, immediately and despite the silence, and not of one that silenced what agents report', async () => {
    const ends_at = new Date(service.clock.now() + 3_600_000).toISOString()
    await call('POST', '/api/silences', { match: {}, reason: 'Load test', ends_at })
    await dispatch()
    for (const path of ['/slack', '/discord']) {
      expect(receivedAt(path, 'operator of a test silenced everything until '), path).toHaveLength(1)
    }
    const ordinary = [
      { types: ['policy_violation'] },
      { types: ['disk_nearly_full'], instances: ['staging-*'], severities: ['info', 'warning'] },
      { types: ['instance_recovered'] },
      { instances: ['staging-*'], severities: ['info'] },
    ]
    for (const match of ordinary) await call('POST', '/api/silences', { match, reason: 'Noise', ends_at })
    expect(await changes()).toHaveLength(1)
  })
})

it('a change that disables the last channel is logged as a warning, and has an audit entry', async () => {
  await call('PATCH', '/api/alert-channels/env-discord', { enabled: false })
  await call('PATCH', '/api/alert-channels/env-slack', { enabled: false })
  const warnings = service.logged
    .map((line) => JSON.parse(line))
    .filter(({ level }) => level === 'warn' || level === 40)
  expect(warnings.map(({ msg }) => msg)).toEqual([
    'alerting was reduced',
    'alerting was reduced',
    'no alert channel is left: alerts notify no one',
  ])
  expect(warnings.at(-1)).toMatchObject({ actor: operator.id })
  const audited = await service.rows(`select actor from audit_log where action = 'alert_channel.change'`)
  expect(audited).toEqual([{ actor: operator.id }, { actor: operator.id }])
})

describe('a silence', () => {
  const letters = [...'abcdefghijklmnopqrstuvwxyz0123456789_-'].map((letter) => `${letter}*`)
  const everything: [string, object][] = [
    ['of everything', {}],
    ['of every severity', { severities: ['info', 'warning', 'critical', 'breach'] }],
    ['of every letter', { types: letters.slice(0, 37), instances: letters }],
    ['of a pattern that happens to fit', { types: ['honeypot_*', 'instance_*', 'kill_*'], instances: ['agent-*'] }],
  ]

  it.each(everything)('%s does not suppress decoy hits and kills', async (_, match) => {
    const { body: decoy } = await service.call<{ key: string }>('POST', '/api/honeypots', {
      body: { instanceId: 'agent-1', type: 'api_key', keyType: 'openai' },
    })
    const ends_at = new Date(service.clock.now() + 300 * 86_400_000).toISOString()
    await call('POST', '/api/silences', { match, reason: 'Quiet', ends_at })
    await service.call('POST', '/api/heartbeat', { body: { instance_id: 'agent-1', name: 'Bot' } })
    await service.call('POST', '/api/honeypots/check/key', {
      body: { key: decoy.key, meta: { instance_id: 'agent-1' } },
    })
    await service.call('POST', '/api/kill/agent-1', { body: { reason: 'It touched a decoy' } })
    await dispatch()
    expect(receivedAt('/slack', 'agent-1 used a decoy')).toHaveLength(1)
    expect(receivedAt('/slack', 'agent-1 was suspended')).toHaveLength(1)
  })

  it('that names the type or the instance suppresses kills', async () => {
    const ends_at = new Date(service.clock.now() + 3_600_000).toISOString()
    await call('POST', '/api/silences', { match: { instances: ['agent-1'] }, reason: 'Drill', ends_at })
    await call('POST', '/api/silences', { match: { types: ['instance_suspended'] }, reason: 'Drill', ends_at })
    for (const id of ['agent-1', 'agent-2']) {
      await service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: 'Bot' } })
      await service.call('POST', `/api/kill/${id}`, { body: { reason: 'Drill' } })
    }
    await dispatch()
    expect(receivedAt('/slack', 'alerting_changed')).not.toEqual([])
    expect(receivedAt('/slack', 'instance_suspended on')).toEqual([])
  })
})

// A type that the service begins to report is covered without a change here.
it('a silence may hide an attack unless it names types that agents report or that end problems, or is only of info', () => {
  const harmless = [
    ...['anomaly_ended', 'brake_released', 'drill_answered', 'drills_answered', 'honeypot_ignored'],
    ...['instance_recovered', 'instance_reporting', 'instance_restarted', 'instances_recovered'],
    ...['alert_channel_recovered', 'containment_completed', 'fleet_recovered'],
  ]
  const ofService = [...Object.values(alertTypes), ...serviceEventTypes]
  const unreported = ofService.filter((type) => !mayHideAttacks({ types: [type], instances: ['agent-1'] }))
  expect(new Set(unreported)).toEqual(new Set(harmless))
  const hiding: AlertMatch[] = [
    {},
    { severities: ['breach'] },
    { severities: ['info', 'warning'] },
    { instances: ['agent-1'] },
    { instances: ['agent-*', 'agent-1*'] },
    { types: ['a*', 'policy_violation'] },
    { types: ['instance_*'], instances: ['agent-*'] },
    { types: ['policy_violation', 'kill_unconfirmed'], instances: ['agent-*'] },
  ]
  expect(hiding.filter((match) => !mayHideAttacks(match))).toEqual([])
  const ordinary: AlertMatch[] = [
    { types: ['policy_violation'], instances: ['agent-1'] },
    { types: ['tool_blocked', 'disk_nearly_full', 'instance_recovered'] },
    { severities: ['info'] },
  ]
  expect(ordinary.filter(mayHideAttacks)).toEqual([])
})

it('a channel is narrowed if it no longer receives alerts that it received before', () => {
  const routes = (...matches: object[]) => matches.map((match) => ({ match, channels: ['c'] }))
  const [a, b] = [{ types: ['a'] }, { types: ['b'] }]
  expect(isNarrowed('c', [], routes(a))).toBe(true)
  expect(isNarrowed('c', routes(a, b), routes(a))).toBe(true)
  expect(isNarrowed('c', routes(a), routes(b))).toBe(true)
  expect(isNarrowed('c', routes(a), routes(a, b))).toBe(false)
  expect(isNarrowed('c', routes(a), [])).toBe(false)
  expect(isNarrowed('c', [], routes(a, {}))).toBe(false)
  expect(isNarrowed('other', [], routes(a))).toBe(false)
})
