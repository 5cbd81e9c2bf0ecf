import { expect, test } from 'vitest'
import {
  checkMessage,
  longestAlert,
  messageOf,
  sampleAlerts,
  sampleSender,
  testMessage,
} from '../../../testing/messages.ts'
import type { Message } from './message.ts'
import { pagerduty } from './pagerduty.ts'

const routing_key = '0123456789abcdef0123456789abcdef'
const requestOf = (message: Message) => pagerduty.request(message, { routing_key }, sampleSender)
const eventOf = (message: Message) => JSON.parse(requestOf(message).body)

test('an alert triggers an incident', () => {
  const { url, headers, body } = requestOf(messageOf(sampleAlerts.harmless))
  expect(url).toBe('https://events.pagerduty.com/v2/enqueue')
  expect(headers).toEqual({ 'content-type': 'application/json', 'user-agent': 'Wardline/1.2.3' })
  expect(body).toBe(
    String.raw`{"routing_key":"0123456789abcdef0123456789abcdef","event_action":"trigger","dedup_key":"wardline-0123456789abcdef egress_blocked billing_1","payload":{"summary":"critical: egress_blocked of billing_1","source":"wardline-0123456789abcdef","timestamp":"2026-11-21T12:22:27.794Z","severity":"critical","component":"billing_1","group":"egress_blocked billing_1","class":"egress_blocked","custom_details":{"alerts":[{"id":"01a1fe0e-d6d1-75e4-9aa0-4232d19875ae","seq":"7","severity":"critical","source":"proxy","by_service":"false","event_type":"egress_blocked","description":"GET https[:]//evil[.]example/?a=b|c\\d","instance_id":"billing_1","ip_address":"2001:db8::7","observed_ip_address":"2001:db8::7","event_seq":"41","created_at":"2026-11-21T12:22:27.794Z","instance_name":"Billing","tool":"http-request"}],"more":0,"done":"Done so far: suspended by night shift at 12:22:20 UTC, confirmed by the agent: odd invoices","next":["wardline instances billing_1","wardline alerts ack 01a1fe0e-d6d1-75e4-9aa0-4232d19875ae"]}},"client":"Wardline","client_url":"https://w.example/alerts?alert=01a1fe0e-d6d1-75e4-9aa0-4232d19875ae","links":[{"href":"https://w.example/alerts?alert=01a1fe0e-d6d1-75e4-9aa0-4232d19875ae","text":"Open in Wardline"}]}`,
  )
})

test('a reminder and a resolution have the key of the first message', () => {
  const first = eventOf(messageOf(sampleAlerts.harmless))
  const reminder = eventOf(messageOf(sampleAlerts.harmless, { kind: 'reminder', more: 3 }))
  expect(reminder).toMatchObject({ event_action: 'trigger', dedup_key: first.dedup_key })
  expect(reminder.payload.custom_details.more).toBe(3)
  expect(requestOf(messageOf(sampleAlerts.harmless, { kind: 'resolved' })).body).toBe(
    '{"routing_key":"0123456789abcdef0123456789abcdef","event_action":"resolve","dedup_key":"wardline-0123456789abcdef egress_blocked billing_1"}',
  )
})

test('a message about several problems is a separate incident without class and component', () => {
  const alerts = [sampleAlerts.harmless, sampleAlerts.hostile]
  const digest = eventOf(messageOf(sampleAlerts.hostile, { kind: 'digest', group: null, alerts, more: 12 }))
  expect(digest).toMatchObject({ event_action: 'trigger', dedup_key: '01a1fe0e-e000-7000-8000-000000000001' })
  expect(Object.keys(digest.payload)).toEqual(['summary', 'source', 'timestamp', 'severity', 'custom_details'])
  expect(digest.payload).toMatchObject({ timestamp: '2026-11-21T12:22:27.805Z', severity: 'critical' })
  expect(digest.payload.custom_details.alerts.map(({ seq }: { seq: string }) => seq)).toEqual(['7', '8'])
})

test('a test triggers an incident of the lowest severity', () => {
  expect(requestOf({ ...testMessage, severity: 'breach' }).body).toBe(
    '{"routing_key":"0123456789abcdef0123456789abcdef","event_action":"trigger","dedup_key":"01a1fe0e-e000-7000-8000-000000000001","payload":{"summary":"Wardline: a test, asked for by an operator.","source":"wardline-0123456789abcdef","timestamp":"2026-11-21T12:22:30.000Z","severity":"info","custom_details":{"alerts":[],"more":0,"next":[]}},"client":"Wardline","client_url":"https://w.example/alerts","links":[{"href":"https://w.example/alerts","text":"Open in Wardline"}]}',
  )
})

test('the daily check is a change event, which notifies no one', () => {
  const { url, body } = requestOf(checkMessage)
  expect(url).toBe('https://events.pagerduty.com/v2/change/enqueue')
  expect(body).toBe(
    '{"routing_key":"0123456789abcdef0123456789abcdef","payload":{"summary":"Wardline: the daily check of this channel.","source":"wardline-0123456789abcdef","timestamp":"2026-11-21T12:22:30.000Z"}}',
  )
})

test('severities map to those of PagerDuty', () => {
  const grades = (['info', 'warning', 'critical', 'breach'] as const).map(
    (severity) => eventOf(messageOf(sampleAlerts.bare, { severity })).payload.severity,
  )
  expect(grades).toEqual(['info', 'warning', 'critical', 'critical'])
})

test('region eu selects the European service', () => {
  expect(pagerduty.request(checkMessage, { routing_key, region: 'eu' }, sampleSender).url).toBe(
    'https://events.eu.pagerduty.com/v2/change/enqueue',
  )
  expect(pagerduty.destination({ routing_key, region: 'eu' })).toBe('events.eu.pagerduty.com')
  expect(pagerduty.destination({ routing_key })).toBe('events.pagerduty.com')
})

// A compromised agent could lure the person on call to a link, or hide parts of a text.
test('texts of an event contain no link and no hidden characters', () => {
  const [{ description, ip_address, instance_name, decoys }] = eventOf(messageOf(sampleAlerts.hostile)).payload
    .custom_details.alerts
  expect([ip_address, instance_name, decoys]).toEqual(['192.0.2.7', 'a|b=c \ufffd]0;x\ufffd msg=none', 'mail=bot| x'])
  expect(description).toBe(
    '=HYPERLINK("https[:]//evil[.]example")\ufffd[2J severity=info cs1=x | \ufffdgpj[.]exe\ufffd31m]\\ 🦊',
  )
  const title = `https://evil.example/\u202e${'x'.repeat(2_000)}`
  const { summary } = eventOf(messageOf(sampleAlerts.bare, { title })).payload
  expect(summary).toMatch(/^https\[:\]\/\/evil\.example\/\ufffdx+…$/)
  expect(Array.from(summary)).toHaveLength(1_024)
})

// If two problems shared one key, the end of one would resolve the incident of the other.
test('keys that are too long for PagerDuty remain distinct', () => {
  const keys = ['a', 'b'].map(
    (end) => eventOf(messageOf(sampleAlerts.bare, { group: 'x'.repeat(254) + end })).dedup_key as string,
  )
  expect(new Set(keys).size).toBe(2)
  for (const key of keys) expect(key).toMatch(/^[0-9a-f]{64}$/)
  const fitting = eventOf(messageOf(sampleAlerts.bare, { group: 'x'.repeat(229) })).dedup_key
  expect(fitting).toBe(`wardline-0123456789abcdef ${'x'.repeat(229)}`)
  expect(fitting).toHaveLength(255)
})

test('the body of ten longest alerts stays below 150,000 bytes', () => {
  const alerts = Array.from({ length: 10 }, () => longestAlert('🦊'))
  const { body } = requestOf(messageOf(sampleAlerts.bare, { alerts, group: null }))
  expect(Buffer.byteLength(body)).toBeLessThan(150_000)
})
