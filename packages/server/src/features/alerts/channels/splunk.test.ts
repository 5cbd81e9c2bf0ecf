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
import { openEgress, startHttpReceiver } from '../../../testing/receiver.ts'
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

test('the destination is only the host of the URL', () => {
  expect(splunk.destination({ ...settings, url: 'https://a:b@splunk.example.com:8088/x' })).toBe(
    'splunk.example.com:8088',
  )
})

const success = '{"text":"Success","code":0}'
const cases: [status: number, body: string, error: string | null][] = [
  [200, success, null],
  [200, '{"text":"Success","code":0,"ackId":1}', null],
  [200, '{"text":"Server is busy","code":9}', 'Splunk answered with code 9 (Server is busy).'],
  [503, '{"text":"Server is busy","code":9}', 'Splunk answered with code 9 (Server is busy).'],
  [403, '{"text":"Invalid token","code":4}', 'Splunk answered with code 4 (Invalid token).'],
  [500, success, 'The receiver answered 500.'],
  [302, '<a href="/login">', 'The receiver answered 302.'],
  [200, '<html>Log in</html>', 'The receiver answered 200 without the code 0 of an HTTP Event Collector.'],
  [200, '', 'The receiver answered 200 without the code 0 of an HTTP Event Collector.'],
  [200, 'null', 'The receiver answered 200 without the code 0 of an HTTP Event Collector.'],
  [200, '{"code":"0"}', 'The receiver answered 200 without the code 0 of an HTTP Event Collector.'],
]
test.each(cases)('response %i with body "%s" has the expected verdict', (status, body, error) => {
  const verdict = splunk.judge({ status, headers: {}, body })
  expect(verdict).toEqual({ delivered: error === null, status, answer: body, error })
})

test('a receiver gets exactly the bytes of the request', async () => {
  await using receiver = await startHttpReceiver({ status: 200, body: success })
  const request = splunk.request(messageOf(sampleAlerts.hostile), { url: receiver.url, token }, sampleSender)
  const verdict = splunk.judge(await openEgress().post(request))
  expect(verdict).toEqual({ delivered: true, status: 200, answer: success, error: null })
  expect(receiver.received).toMatchObject([
    { path: '/services/collector/event', body: request.body, headers: { authorization: `Splunk ${token}` } },
  ])
})
