import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  anyMessage,
  belowLines,
  deliverOnce,
  hitFacts,
  hostileTexts,
  longestMessages,
  messagesByKind,
  saying,
  testSender,
} from '../../../testing/chat.ts'
import { apprise } from './apprise.ts'
import type { Message } from './message.ts'

const settings = { url: 'https://apprise.example.com:8000/notify/secret-key' }
const payload = (message: Message) => JSON.parse(apprise.request(message, settings, testSender).body)

const post = (kind: Message['kind'], title: string, type: string, ...lines: string[]) => ({
  title,
  body: [...lines, ...belowLines(kind)].join('\n'),
  type,
  format: 'text',
})
const hit = `${hitFacts.replace('113.7', '113[.]7')} · A decoy was used.`

describe('an Apprise message', () => {
  it.each<[Message['kind'], object]>([
    [
      'alert',
      post(
        'alert',
        '🚨 honeypot_triggered on bot-1',
        'failure',
        '12:00:10 UTC · warning · tool_blocked · A decoy was used.',
        hit,
        '+3 more',
      ),
    ],
    [
      'digest',
      post(
        'digest',
        '⚠️ 2 alerts of the last 8 hours',
        'warning',
        'These alerts were delayed until now.',
        '2026-01-14 12:00:30 UTC · warning · bot-1 · honeypot_triggered · Yesterday.',
        '12:00:30 UTC · info · bot-1 · honeypot_triggered',
      ),
    ],
    [
      'reminder',
      post(
        'reminder',
        '🔴 Still open: honeypot_triggered on bot-1',
        'failure',
        'No one has acknowledged this alert.',
        hit,
      ),
    ],
    [
      'resolved',
      post('resolved', '✅ Resolved: honeypot_triggered on bot-1', 'success', 'This alert is resolved.', hit),
    ],
    [
      'test',
      post('test', 'ℹ️ Test of this channel', 'info', 'This test was requested by an operator. No action is needed.'),
    ],
    [
      'check',
      post('check', 'ℹ️ Daily check', 'info', 'This daily message shows that alerts arrive here. No action is needed.'),
    ],
  ])('has the expected payload for kind %s', (kind, expected) => {
    expect(payload(messagesByKind[kind])).toEqual(expected)
  })

  it('contains the configured tags, and its destination is the host without the key', () => {
    const { url, body, headers } = apprise.request(messagesByKind.test, { ...settings, tags: 'on-call' }, testSender)
    expect(JSON.parse(body)).toEqual({ ...payload(messagesByKind.test), tag: 'on-call' })
    expect(url).toBe(settings.url)
    expect(headers).toMatchObject({ accept: 'application/json', 'content-type': 'application/json' })
    expect(apprise.destination(settings)).toBe('apprise.example.com:8000')
  })

  // A service behind Apprise may turn domains into links or notify people who are mentioned.
  it.each(Object.entries(hostileTexts))('shows %s in an event without a domain or a mention', (_, text) => {
    const [line, ...below] = payload(saying(text)).body.split('\n')
    expect(line).toMatch(/^12:00:30 UTC · breach · bot-1 \(Bot one\) · honeypot_triggered · ./)
    expect(below).toEqual(belowLines('alert'))
    expect(line.replace('203.0.113[.]7', '')).not.toMatch(/:\/\/|\w\.\w|@\w|@[!&]|\p{Cc}|\p{Cf}/u)
  })

  it('has a body of at most 4,096 characters', () => {
    fc.assert(
      fc.property(anyMessage, (message) => {
        expect(payload(message).body.length).toBeLessThanOrEqual(4_096)
      }),
      { examples: longestMessages },
    )
  })
})

describe('an Apprise response', () => {
  it('with status 200 counts as delivered', async () => {
    const { verdict, received } = await deliverOnce(apprise, settings, { status: 200, body: '{"error":""}' })
    expect(verdict).toEqual({ delivered: true, status: 200, answer: '{"error":""}', error: null })
    expect(received).toMatchObject({ path: '/notify/secret-key', body: payload(messagesByKind.alert) })
  })

  it.each([
    [204, 'Apprise has no service stored under this key.'],
    [424, 'Apprise could not deliver to one or more of its services.'],
    [202, 'The receiver answered 202, not 200.'],
    [500, 'The receiver answered 500.'],
  ])('with status %i counts as a failure', async (status, error) => {
    const { verdict } = await deliverOnce(apprise, settings, { status })
    expect(verdict).toEqual({ delivered: false, status, answer: '', error })
  })

  it('sets the retry delay by Retry-After', async () => {
    const { verdict } = await deliverOnce(apprise, settings, { status: 503, headers: { 'retry-after': '9' } })
    expect(verdict).toMatchObject({ delivered: false, status: 503, retryAfterSeconds: 9 })
  })
})
