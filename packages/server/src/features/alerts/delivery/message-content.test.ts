import type { ChannelTested, MessageContent, MessageView } from '@wardline/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startAlertReceiver } from '../../../testing/alert-receiver.ts'
import { documentedAddress, settingsWith } from '../../../testing/channel-settings.ts'
import { openTestService, type TestService } from '../../../testing/service.ts'

/** Too short to be removed as a long secret, so only code that knows the field hides it. */
const canary = 'CANARYq7'
const settings = { ...settingsWith(canary), syslog: { url: `tls://${canary}.example.com:6514` } }

let service: TestService
const contents = new Map<string, MessageContent>()
beforeAll(async () => {
  service = await openTestService({
    env: { WARDLINE_ALERT_ALLOW_CIDRS: '198.51.100.0/24', WARDLINE_PUBLIC_URL: 'https://w.example' },
  })
  const types = new Map<string, string>()
  for (const [type, given] of Object.entries(settings)) {
    const body = { name: type, type, settings: given, daily_check: false }
    const created = await service.call<{ id: string }>('POST', '/api/alert-channels', { body })
    expect(created.status, created.text).toBe(201)
    types.set(created.body.id, type)
  }
  const event = { severity: 'critical', source: 'e2e', event_type: 'policy_violation', description: 'Sent "mail"' }
  await service.call('POST', '/api/events', { body: { ...event, instance_id: 'agent-1' } })
  await service.services.dispatcher.run()
  const { messages } = (await service.call<{ messages: MessageView[] }>('GET', '/api/alert-messages')).body
  for (const { id, channel_id } of messages) {
    const { status, body, text } = await service.call<MessageContent>('GET', `/api/alert-messages/${id}/content`)
    expect(status, text).toBe(200)
    contents.set(types.get(channel_id)!, body)
  }
})
afterAll(() => service[Symbol.asyncDispose]())

describe('the content of a message', () => {
  it('is available for every type of channel', () => {
    expect([...contents.keys()].sort()).toEqual(Object.keys(settings).sort())
    for (const [type, { body, cut, channel_type }] of contents) {
      expect(body, type).toContain('policy')
      expect([channel_type, cut]).toEqual([type, false])
    }
  })

  // Viewers can read the content, and with a secret of a channel could post false alarms to it.
  it.each(Object.keys(settings))('contains no settings of %s', (type) => {
    const { body } = contents.get(type)!
    expect(body.toLowerCase()).not.toContain(canary.toLowerCase())
    expect(body).not.toContain('whsec_')
    expect(body).not.toContain(documentedAddress)
  })

  it('has [secret] in place of fields that are settings', () => {
    expect(JSON.parse(contents.get('pagerduty')!.body).routing_key).toBe('[secret]')
    expect(JSON.parse(contents.get('ntfy')!.body).topic).toBe('[secret]')
    expect(contents.get('email')!.body).toMatch(
      /^Subject: .*agent-1: a policy violation, reported by another source\n\n/,
    )
  })

  it('contains a link to the alert in the dashboard', async () => {
    const { alerts } = (await service.call<{ alerts: { id: string }[] }>('GET', '/api/alerts')).body
    for (const [type, { body }] of contents)
      expect(body.replaceAll('\\', ''), type).toContain(`https://w.example/alerts?alert=${alerts[0]!.id}`)
  })
})

it('the content of a message equals the body that the receiver got', async () => {
  await using receiver = await startAlertReceiver()
  receiver.answer = () => ({ status: 202, body: 'Thank you' })
  await using other = await openTestService({ env: { ALERT_WEBHOOK_URL: `${receiver.url}/hook` } })
  const tested = await other.call<ChannelTested>('POST', '/api/alert-channels/env-webhook/test')
  expect(tested.body).toMatchObject({ ok: true, status: 202, answer: 'Thank you' })
  const { body } = await other.call<MessageContent>('GET', `/api/alert-messages/${tested.body.message_id}/content`)
  expect(body).toMatchObject({ channel_id: 'env-webhook', content_type: 'application/json' })
  expect(JSON.parse(body.body)).toEqual(receiver.taken[0]!.body)
})

// A caller that knows the URL of a channel could otherwise reveal it to every viewer by an event.
it('the content of a message hides settings that an event repeats', async () => {
  const url = 'http://127.0.0.1:9/hooks/T0123456789/B0123456789'
  await using other = await openTestService({ env: { ALERT_WEBHOOK_URL: url } })
  const event = { severity: 'critical', source: 'e2e', event_type: 'note', description: `Posted to ${url}` }
  await other.call('POST', '/api/events', { body: event })
  await other.services.dispatcher.run()
  const { messages } = (await other.call<{ messages: MessageView[] }>('GET', '/api/alert-messages')).body
  const { body } = await other.call<MessageContent>('GET', `/api/alert-messages/${messages[0]!.id}/content`)
  expect(JSON.parse(body.body).data.description).toBe('Posted to [secret]')
})

it('the content of a message gets 404 for a deleted channel and for an unknown message', async () => {
  const { messages } = (await service.call<{ messages: MessageView[] }>('GET', '/api/alert-messages')).body
  const { id, channel_id } = messages[0]!
  await service.call('DELETE', `/api/alert-channels/${channel_id}`)
  const gone = await service.call<{ error: string }>('GET', `/api/alert-messages/${id}/content`)
  expect([gone.status, gone.body.error]).toEqual([404, expect.stringContaining(`Channel ${channel_id} was deleted`)])
  const unknown = '00000000-0000-4000-8000-000000000000'
  expect((await service.call('GET', `/api/alert-messages/${unknown}/content`)).status).toBe(404)
})
