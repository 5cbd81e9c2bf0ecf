import { expect, test } from 'vitest'
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
import { splunk } from './splunk.ts'

const token = 'B5A79AAD-D822-46CC-80D1-819F80D7BFB0'
const settings = { url: 'https://splunk.example.com:8088', token }
const bodyOf = (message: Message): string => splunk.request(message, settings, sampleSender).body

test('an alert is one event for the collector', () => {
  const { url, headers, body } = splunk.request(messageOf(sampleAlerts.harmless), settings, sampleSender)
  expect(url).toBe('https://splunk.example.com:8088/services/collector/event')
  expect(headers).toEqual({
    authorization: `Splunk ${token}`,
    'content-type': 'application/json',
    'user-agent': 'Wardline/1.2.3',
  })
  expect(body).toBe(
    String.raw`{"time":1795263747.794,"host":"wardline-0123456789abcdef","source":"wardline","sourcetype":"wardline:alert","event":{"id":"01a1fe0e-d6d1-75e4-9aa0-4232d19875ae","seq":7,"severity":"critical","source":"proxy","by_service":false,"event_type":"egress_blocked","description":"GET https://evil.example/?a=b|c\\d","instance_id":"billing_1","session_id":null,"ip_address":"2001:db8::7","observed_ip_address":"2001:db8::7","metadata":{"tool":"http-request","blocked":true},"event_seq":41,"created_at":"2026-11-21T12:22:27.794Z","instance_name":"Billing","tool":"http-request","decoys":[],"key":null,"suspension":{"by":"night shift","at":"2026-11-21T12:22:20.000Z","reason":"odd invoices","confirmed":true},"next":["wardline instances billing_1","wardline alerts ack 01a1fe0e-d6d1-75e4-9aa0-4232d19875ae"],"url":"https://w.example/alerts?alert=01a1fe0e-d6d1-75e4-9aa0-4232d19875ae"}}`,
  )
})

test('a test and a check are sent as their title, with the index if configured', () => {
  expect(splunk.request(testMessage, { ...settings, index: 'security' }, sampleSender).body).toBe(
    '{"time":1795263750,"host":"wardline-0123456789abcdef","source":"wardline","sourcetype":"wardline:alert","index":"security","event":{"title":"Wardline: a test, asked for by an operator."}}',
  )
  expect(JSON.parse(bodyOf(checkMessage)).event).toEqual({ title: checkMessage.title })
})

test('hostile texts arrive unchanged in JSON', () => {
  const { event } = JSON.parse(bodyOf(messageOf(sampleAlerts.hostile)))
  expect(readBack(event)).toEqual(sampleAlerts.hostile)
})

// Splunk would cut a longer event, and a search finds no fields in a cut JSON object.
test.each(['\u0001', '🦊', '"'])('an event has at most 10,000 bytes with texts of %j', (character) => {
  const body = bodyOf(messageOf(longestAlert(character)))
  expect(Buffer.byteLength(body)).toBeLessThanOrEqual(10_000)
  const { event } = JSON.parse(body)
  expect(event).toMatchObject({ metadata_omitted: true, session_id: character.repeat(200) })
  expect(event.description).toBe(`${character.repeat(249)}…`)
  expect(event.decoys === undefined).toBe(event.context_omitted === true)
})

test.each([
  ['https://splunk.example.com:8088', 'https://splunk.example.com:8088/services/collector/event'],
  ['https://splunk.example.com:8088/', 'https://splunk.example.com:8088/services/collector/event'],
  ['https://example.com/splunk//', 'https://example.com/splunk/services/collector/event'],
  ['https://example.com?channel=1', 'https://example.com/services/collector/event?channel=1'],
  ['https://example.com/services/collector', 'https://example.com/services/collector'],
  ['https://example.com/services/collector/event/1.0', 'https://example.com/services/collector/event/1.0'],
])('the URL %s leads to the collector at %s', (url, expected) => {
  expect(splunk.request(testMessage, { url, token }, sampleSender).url).toBe(expected)
})
