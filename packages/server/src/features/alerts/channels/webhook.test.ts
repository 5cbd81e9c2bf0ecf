import fc from 'fast-check'
import { Webhook } from 'standardwebhooks'
import { describe, expect, test } from 'vitest'
import { anyCharacter } from '../../../../../../test-servers/any-character.ts'
import {
  checkMessage,
  longestAlert,
  messageOf,
  readBack,
  sampleAlerts,
  sampleSender,
  testMessage,
} from '../../../testing/messages.ts'
import type { Message } from './message.ts'
import { webhook } from './webhook.ts'

const url = 'https://hooks.example.com:8443/in?team=blue'
const secret = `whsec_${Buffer.alloc(32, 'new').toString('base64')}`
const oldSecret = `whsec_${Buffer.alloc(24, 'old').toString('base64')}`
const olderSecret = `whsec_${Buffer.alloc(64, 'older').toString('base64')}`

type Settings = Parameters<typeof webhook.request>[1]
const bodyOf = (message: Message, settings: Settings = { url }): string =>
  webhook.request(message, settings, sampleSender).body

describe('the standard body', () => {
  test('has an alert in the fields of a stored event', () => {
    expect(bodyOf(messageOf(sampleAlerts.harmless))).toBe(
      String.raw`{"type":"alert.egress_blocked","timestamp":"2026-11-21T12:22:30.000Z","data":{"id":"01a1fe0e-d6d1-75e4-9aa0-4232d19875ae","seq":7,"severity":"critical","source":"proxy","by_service":false,"event_type":"egress_blocked","description":"GET https://evil.example/?a=b|c\\d","instance_id":"billing_1","session_id":null,"ip_address":"2001:db8::7","observed_ip_address":"2001:db8::7","metadata":{"tool":"http-request","blocked":true},"event_seq":41,"created_at":"2026-11-21T12:22:27.794Z","instance_name":"Billing","tool":"http-request","decoys":[],"key":null,"suspension":{"by":"night shift","at":"2026-11-21T12:22:20.000Z","reason":"odd invoices","confirmed":true},"next":["wardline instances billing_1","wardline alerts ack 01a1fe0e-d6d1-75e4-9aa0-4232d19875ae"],"url":"https://w.example/alerts?alert=01a1fe0e-d6d1-75e4-9aa0-4232d19875ae"}}`,
    )
  })

  test('contains hostile texts unchanged, as JSON', () => {
    const { body } = webhook.request(messageOf(sampleAlerts.hostile), { url }, sampleSender)
    const received = JSON.parse(body).data
    expect(readBack(received)).toEqual(sampleAlerts.hostile)
    expect(body).toContain(String.raw`=HYPERLINK(\"https://evil.example\")\u001b[2J\r\nseverity=info cs1=x | `)
  })

  test('links to the trace of the event if an address is set and the id is one', () => {
    const traceUrl = 'https://traces.example/t/{trace_id}?tab=1'
    const linkOf = (trace_id: string, sender = { ...sampleSender, traceUrl }) => {
      const alert = { ...sampleAlerts.harmless, metadata: { trace_id } }
      return JSON.parse(webhook.request(messageOf(alert), { url }, sender).body).data.trace_url
    }
    const id = '5b8efff798038103d269b633813fc60c'
    expect(linkOf(id)).toBe(`https://traces.example/t/${id}?tab=1`)
    expect(linkOf('../../x')).toBeUndefined()
    expect(linkOf(id, sampleSender as never)).toBeUndefined()
  })

  test('has a separate type for a test and a check', () => {
    expect(bodyOf(testMessage)).toBe(
      '{"type":"channel.test","timestamp":"2026-11-21T12:22:30.000Z","data":{"title":"Wardline: a test, asked for by an operator."}}',
    )
    expect(bodyOf(checkMessage)).toBe(
      '{"type":"channel.check","timestamp":"2026-11-21T12:22:30.000Z","data":{"title":"Wardline: the daily check of this channel."}}',
    )
  })
})

describe('the CloudEvents body', () => {
  const settings = { url, secret, format: 'cloudevents' } as const

  test('is a CloudEvents 1.0 event with the instance as its subject', () => {
    expect(bodyOf(messageOf(sampleAlerts.harmless), settings)).toBe(
      String.raw`{"specversion":"1.0","id":"01a1fe0e-e000-7000-8000-000000000001","source":"urn:wardline:0123456789abcdef","type":"io.wardline.alert.egress_blocked","subject":"billing_1","time":"2026-11-21T12:22:27.794Z","datacontenttype":"application/json","data":{"id":"01a1fe0e-d6d1-75e4-9aa0-4232d19875ae","seq":7,"severity":"critical","source":"proxy","by_service":false,"event_type":"egress_blocked","description":"GET https://evil.example/?a=b|c\\d","instance_id":"billing_1","session_id":null,"ip_address":"2001:db8::7","observed_ip_address":"2001:db8::7","metadata":{"tool":"http-request","blocked":true},"event_seq":41,"created_at":"2026-11-21T12:22:27.794Z","instance_name":"Billing","tool":"http-request","decoys":[],"key":null,"suspension":{"by":"night shift","at":"2026-11-21T12:22:20.000Z","reason":"odd invoices","confirmed":true},"next":["wardline instances billing_1","wardline alerts ack 01a1fe0e-d6d1-75e4-9aa0-4232d19875ae"],"url":"https://w.example/alerts?alert=01a1fe0e-d6d1-75e4-9aa0-4232d19875ae"}}`,
    )
  })

  test('has no subject without an instance', () => {
    expect(JSON.parse(bodyOf(messageOf(sampleAlerts.bare), settings))).not.toHaveProperty('subject')
    expect(bodyOf(testMessage, settings)).toBe(
      '{"specversion":"1.0","id":"01a1fe0e-e000-7000-8000-000000000001","source":"urn:wardline:0123456789abcdef","type":"io.wardline.channel.test","time":"2026-11-21T12:22:30.000Z","datacontenttype":"application/json","data":{"title":"Wardline: a test, asked for by an operator."}}',
    )
  })
})

test('headers contain the message id, the time of the attempt in seconds and the version', () => {
  const { headers } = webhook.request(messageOf(sampleAlerts.harmless), { url, secret }, sampleSender)
  expect(headers).toEqual({
    'content-type': 'application/json',
    'user-agent': 'Wardline/1.2.3',
    'webhook-id': '01a1fe0e-e000-7000-8000-000000000001',
    'webhook-timestamp': '1795263751',
    'webhook-signature': expect.stringMatching(/^v1,[A-Za-z0-9+/]{43}=$/),
  })
  const { headers: ofCloudEvent } = webhook.request(testMessage, { url, format: 'cloudevents' }, sampleSender)
  expect(ofCloudEvent['content-type']).toBe('application/cloudevents+json')
})

test('a message without a secret is not signed', () => {
  const { headers } = webhook.request(testMessage, { url }, sampleSender)
  expect(headers).not.toHaveProperty('webhook-signature')
})

// The standardwebhooks package uses the system clock and refuses timestamps more than five minutes away.
const sender = { ...sampleSender, now: Date.now() }

describe('a receiver of Standard Webhooks', () => {
  test.each(['standard', 'cloudevents'] as const)('verifies the signature of a %s body', (format) => {
    const { body, headers } = webhook.request(messageOf(sampleAlerts.hostile), { url, secret, format }, sender)
    expect(new Webhook(secret).verify(body, headers)).toEqual(JSON.parse(body))
  })

  test('verifies with the new secret and each old secret during the overlap; signatures are newest first', () => {
    const settings = { url, secret, previous_secrets: [oldSecret, olderSecret] }
    const { body, headers } = webhook.request(messageOf(sampleAlerts.hostile), settings, sender)
    const at = new Date(sender.now)
    const signatures = [secret, oldSecret, olderSecret].map((key) =>
      new Webhook(key).sign(headers['webhook-id']!, at, body),
    )
    expect(headers['webhook-signature']).toBe(signatures.join(' '))
    for (const key of [secret, oldSecret, olderSecret]) {
      expect(new Webhook(key).verify(body, headers)).toEqual(JSON.parse(body))
    }
  })

  // An attacker who has the old secret could otherwise forge alerts after the rotation.
  test('does not verify with an old secret once the overlap is over', () => {
    const { body, headers } = webhook.request(testMessage, { url, secret }, sender)
    expect(() => new Webhook(oldSecret).verify(body, headers)).toThrow('No matching signature')
  })

  // A man in the middle could change a message, replay an old one, or give one the id of another.
  test('refuses a changed body, timestamp or id', () => {
    const settings = { url, secret, previous_secrets: [oldSecret] }
    const { body, headers } = webhook.request(messageOf(sampleAlerts.harmless), settings, sender)
    const receiver = new Webhook(secret)
    const later = String(Number(headers['webhook-timestamp']) + 1)
    expect(() => receiver.verify(body.replace('critical', 'info'), headers)).toThrow('No matching signature')
    expect(() => receiver.verify(body, { ...headers, 'webhook-timestamp': later })).toThrow('No matching signature')
    expect(() => receiver.verify(body, { ...headers, 'webhook-id': 'x' })).toThrow('No matching signature')
  })

  test('verifies a message with any text in its event', () => {
    fc.assert(
      fc.property(fc.string({ unit: anyCharacter, maxLength: 1_000 }), fc.jsonValue(), (text, value) => {
        const alert = { ...sampleAlerts.harmless, description: text, session_id: text, metadata: { [text]: value } }
        const { body, headers } = webhook.request(messageOf(alert), { url, secret }, sender)
        const { data } = new Webhook(secret).verify(body, headers) as { data: Record<string, unknown> }
        expect([data.description, data.session_id]).toEqual([text, text])
      }),
    )
  })
})

// A receiver with a limit would refuse a larger body, so an agent could hide its alert with large metadata.
describe('a body', () => {
  test.each(['\u0001', '🦊'])('has at most 20,000 bytes with texts of %j', (character) => {
    for (const format of ['standard', 'cloudevents'] as const) {
      const body = bodyOf(messageOf(longestAlert(character)), { url, format })
      expect(Buffer.byteLength(body)).toBeLessThanOrEqual(20_000)
      const { data } = JSON.parse(body)
      const description = data.description_cut ? `${character.repeat(249)}…` : character.repeat(1_000)
      expect(data).toMatchObject({ metadata_omitted: true, description })
      expect(JSON.parse(body).data).not.toHaveProperty('metadata')
    }
  })

  test('keeps metadata that exactly fits into 20,000 bytes', () => {
    const withText = (length: number) => {
      const alert = { ...sampleAlerts.harmless, metadata: { text: 'x'.repeat(length) } }
      return bodyOf(messageOf(alert))
    }
    const room = 20_000 - Buffer.byteLength(withText(0))
    expect(Buffer.byteLength(withText(room))).toBe(20_000)
    expect(JSON.parse(withText(room + 1)).data.metadata_omitted).toBe(true)
  })
})
