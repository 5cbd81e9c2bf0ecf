import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  anyMessage,
  belowByKind,
  belowLines,
  deliverOnce,
  hitFacts,
  hostileTexts,
  longestMessages,
  messagesByKind,
  saying,
  testMessage,
  testSender,
} from '../../../testing/chat.ts'
import type { Message } from './message.ts'
import { ntfy } from './ntfy.ts'

const settings = { url: 'https://ntfy.sh/on-call', token: 'tk_secret' }
const request = (message: Message, url = settings.url) => ntfy.request(message, { url }, testSender)
const payload = (message: Message) => JSON.parse(request(message).body)

const post = (kind: Message['kind'], title: string, priority: number, tag: string, ...lines: string[]) => ({
  topic: 'on-call',
  title,
  message: [...lines, ...belowLines(kind)].join('\n'),
  priority,
  tags: [tag],
  click: belowByKind[kind].link,
})
const hit = `${hitFacts.replace('113.7', '113[.]7')} · A decoy was used.`

describe('an ntfy message', () => {
  it.each<[Message['kind'], object]>([
    [
      'alert',
      post(
        'alert',
        'honeypot_triggered on bot-1',
        5,
        'rotating_light',
        '12:00:10 UTC · warning · tool_blocked · A decoy was used.',
        hit,
        '+3 more',
      ),
    ],
    [
      'digest',
      post(
        'digest',
        '2 alerts of the last 8 hours',
        3,
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
        'Still open: honeypot_triggered on bot-1',
        4,
        'red_circle',
        'No one has acknowledged this alert.',
        hit,
      ),
    ],
    [
      'resolved',
      post('resolved', 'Resolved: honeypot_triggered on bot-1', 2, 'white_check_mark', 'This alert is resolved.', hit),
    ],
    [
      'test',
      post(
        'test',
        'Test of this channel',
        3,
        'information_source',
        'This test was requested by an operator. No action is needed.',
      ),
    ],
    [
      'check',
      post(
        'check',
        'Daily check',
        2,
        'information_source',
        'This daily message shows that alerts arrive here. No action is needed.',
      ),
    ],
  ])('has the expected payload for kind %s', (kind, expected) => {
    expect(payload(messagesByKind[kind])).toEqual(expected)
  })

  it.each([
    ['https://ntfy.sh/on-call', 'https://ntfy.sh/', 'on-call'],
    ['https://ntfy.sh/on-call/', 'https://ntfy.sh/', 'on-call'],
    ['http://10.0.0.5:8080/push/ntfy/on-call', 'http://10.0.0.5:8080/push/ntfy/', 'on-call'],
    ['https://ntfy.example.com/on-call?auth=c2VjcmV0', 'https://ntfy.example.com/?auth=c2VjcmV0', 'on-call'],
    ['https://ntfy.sh', 'https://ntfy.sh/', ''],
  ])('for the URL %s goes to %s with the topic %s', (given, url, topic) => {
    const made = request(testMessage(), given)
    expect(made.url).toBe(url)
    expect(JSON.parse(made.body).topic).toBe(topic)
    expect(made.headers).toEqual({ 'content-type': 'application/json', 'user-agent': 'Wardline/1.2.3' })
  })

  // ntfy also accepts every field as a header, where a line break would let an event add a header such as Click.
  it('has no text of an event in its headers', () => {
    const hostile = testMessage({ title: 'a\r\nClick: https://evil.com' })
    expect(ntfy.request(hostile, settings, testSender).headers).toEqual({
      'content-type': 'application/json',
      'user-agent': 'Wardline/1.2.3',
      authorization: 'Bearer tk_secret',
    })
  })

  // A compromised agent could lure the person on call to a link.
  it.each(Object.entries(hostileTexts))('shows %s in an event as text without a domain', (_, text) => {
    const { message, ...rest } = payload(saying(text))
    const [line, ...below] = message.split('\n')
    expect(line).toMatch(/^12:00:30 UTC · breach · bot-1 \(Bot one\) · honeypot_triggered · ./)
    expect(below).toEqual(belowLines('alert'))
    expect(line.replace('203.0.113[.]7', '')).not.toMatch(/:\/\/|\w\.\w|\w@|\p{Cc}|\p{Cf}/u)
    expect(Object.keys(rest)).toEqual(['topic', 'title', 'priority', 'tags', 'click'])
  })

  // ntfy turns a longer message into an attachment, of which a notification does not show the text.
  it('has at most 4,096 bytes', () => {
    fc.assert(
      fc.property(anyMessage, (message) => {
        expect(Buffer.byteLength(payload(message).message)).toBeLessThanOrEqual(4_096)
      }),
      { examples: longestMessages },
    )
  })
})

describe('an ntfy response', () => {
  it('with the id of the message counts as delivered', async () => {
    const body = '{"id":"hwQ2YpKdmg","time":1635528741,"event":"message","topic":"on-call"}'
    const { verdict, received } = await deliverOnce(ntfy, settings, { status: 200, body })
    expect(verdict).toEqual({ delivered: true, status: 200, answer: body, error: null })
    expect(received).toMatchObject({
      path: '/',
      headers: { authorization: 'Bearer tk_secret' },
      body: payload(messagesByKind.alert),
    })
  })

  it.each(['<html>Sign in</html>', '', '{}'])('200 with body "%s" counts as a failure', async (body) => {
    const { verdict } = await deliverOnce(ntfy, settings, { status: 200, body })
    expect(verdict).toMatchObject({ delivered: false, error: 'The response of the receiver is not from ntfy.' })
  })

  it('sets the retry delay by Retry-After', async () => {
    const body = '{"code":42901,"http":429,"error":"limit reached: too many requests"}'
    const { verdict } = await deliverOnce(ntfy, settings, { status: 429, headers: { 'retry-after': '60' }, body })
    expect(verdict).toMatchObject({ delivered: false, status: 429, answer: body, retryAfterSeconds: 60 })
  })
})
