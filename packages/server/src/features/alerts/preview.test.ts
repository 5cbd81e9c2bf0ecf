import type { AlertPreview } from '@wardline/contract'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'

let service: TestService
const ids = {} as Record<'people' | 'machine' | 'severe' | 'off', string>
const routes = {} as Record<'decoys' | 'all', string>
beforeAll(async () => {
  service = await openTestService({ env: { WARDLINE_ALERT_ALLOW_CIDRS: '203.0.113.0/24' } })
  const post = async (url: string, body: object) => {
    const answer = await service.call<{ id: string }>('POST', url, { body })
    expect(answer.status, answer.text).toBe(201)
    return answer.body.id
  }
  const channel = (name: string, more: object = {}) =>
    post('/api/alert-channels', {
      name,
      type: 'slack',
      settings: { url: 'https://203.0.113.7/services/x' },
      min_severity: 'info',
      ...more,
    })
  ids.people = await channel('people')
  ids.machine = await channel('machine', { type: 'webhook', settings: { url: 'https://203.0.113.7/hook' } })
  ids.severe = await channel('severe', { min_severity: 'critical' })
  ids.off = await channel('off')
  await service.call('PATCH', `/api/alert-channels/${ids.off}`, { body: { enabled: false } })
  routes.decoys = await post('/api/alert-routes', {
    name: 'decoys',
    match: { types: ['honeypot_*'] },
    channels: [ids.people],
  })
  routes.all = await post('/api/alert-routes', {
    name: 'bots',
    match: { instances: ['bot-*'] },
    channels: [ids.people, ids.machine],
  })
  await post('/api/silences', {
    match: { instances: ['bot-quiet'], types: ['note'] },
    reason: 'x',
    ends_at: new Date(service.clock.now() + 60_000).toISOString(),
  })
})
afterAll(() => service[Symbol.asyncDispose]())

async function preview(alert: object) {
  const { body } = await service.call<AlertPreview>('POST', '/api/alert-routes/preview', { body: alert })
  const of = (id: string) => {
    const { outcome, routes } = body.channels.find(({ channel_id }) => channel_id === id)!
    return [outcome, ...routes]
  }
  return { people: of(ids.people), machine: of(ids.machine), severe: of(ids.severe), off: of(ids.off) }
}

it('a preview has the outcome and the matching routes of each channel', async () => {
  expect(await preview({ severity: 'warning', event_type: 'note', instance_id: 'bot-1' })).toEqual({
    people: ['receives', routes.all],
    machine: ['receives', routes.all],
    severe: ['below_severity'],
    off: ['disabled'],
  })
  expect(await preview({ severity: 'breach', event_type: 'honeypot_triggered' })).toMatchObject({
    people: ['receives', routes.decoys],
    machine: ['no_route'],
    severe: ['receives'],
  })
})

it('a preview respects silences, which only apply to people, and event types that are never alerted', async () => {
  const quiet = { severity: 'critical', event_type: 'note', instance_id: 'bot-quiet' }
  expect(await preview(quiet)).toMatchObject({ people: ['silenced', routes.all], machine: ['receives', routes.all] })
  service.clock.advance(60_000)
  expect(await preview(quiet)).toMatchObject({ people: ['receives', routes.all] })
  const metrics = { severity: 'critical', event_type: 'session_metrics', instance_id: 'bot-1' }
  expect(await preview(metrics)).toMatchObject({ people: ['never_alerted', routes.all], severe: ['never_alerted'] })
})

it('a preview does not store an alert', async () => {
  const alerts = () => service.rows('select id from alerts')
  const before = await alerts()
  await preview({ severity: 'breach', event_type: 'honeypot_triggered', instance_id: 'bot-1' })
  expect(await alerts()).toEqual(before)
})

it.each([
  [{ severity: 'bad', event_type: 'note' }, 'severity must be info, warning, critical, or breach.'],
  [{ severity: 'info' }, 'event_type is required.'],
  [{ severity: 'info', event_type: 'note', instance: 'x' }, 'instance is not a known field.'],
])('a preview of %j is refused', async (body, sentence) => {
  const answer = await service.call<{ error: string }>('POST', '/api/alert-routes/preview', { body })
  expect([answer.status, answer.body.error]).toEqual([400, sentence])
})
