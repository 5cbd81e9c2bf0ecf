import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  anyMessage,
  belowByKind,
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
import { plainText } from './plain-text.ts'
import { slack } from './slack.ts'

const settings = { url: 'https://hooks.slack.com/services/T0/B0/secret' }
const payload = (message: Message) => JSON.parse(slack.request(message, settings, testSender).body)

const section = (text: string) => ({ type: 'rich_text_section', elements: [{ type: 'text', text }] })
const list = (...texts: string[]) => ({ type: 'rich_text_list', style: 'bullet', elements: texts.map(section) })
const code = (text: string) => ({
  type: 'rich_text_section',
  elements: [
    { type: 'text', text: 'Next: ' },
    { type: 'text', text, style: { code: true } },
  ],
})
const below = (kind: Message['kind']) => {
  const { done, commands, link } = belowByKind[kind]
  const open = { type: 'rich_text_section', elements: [{ type: 'link', url: link, text: 'Open in Wardline' }] }
  return [...(done === null ? [] : [section(done)]), ...commands.map(code), open]
}
const post = (kind: Message['kind'], headline: string, ...elements: object[]) => ({
  text: headline,
  blocks: [
    { type: 'header', text: { type: 'plain_text', text: headline, emoji: false } },
    { type: 'rich_text', elements: [...elements, ...below(kind)] },
  ],
  unfurl_links: false,
  unfurl_media: false,
})
const hit = `${hitFacts} · A decoy was used.`

describe('a Slack message', () => {
  it.each<[Message['kind'], object]>([
    [
      'alert',
      post(
        'alert',
        '🚨 honeypot_triggered on bot-1',
        list('12:00:10 UTC · warning · tool_blocked · A decoy was used.', hit),
        section('+3 more'),
      ),
    ],
    [
      'digest',
      post(
        'digest',
        '⚠️ 2 alerts of the last 8 hours',
        section('These alerts were delayed until now.'),
        list(
          '2026-01-14 12:00:30 UTC · warning · bot-1 · honeypot_triggered · Yesterday.',
          '12:00:30 UTC · info · bot-1 · honeypot_triggered',
        ),
      ),
    ],
    [
      'reminder',
      post(
        'reminder',
        '🔴 Still open: honeypot_triggered on bot-1',
        section('No one has acknowledged this alert.'),
        list(hit),
      ),
    ],
    [
      'resolved',
      post('resolved', '✅ Resolved: honeypot_triggered on bot-1', section('This alert is resolved.'), list(hit)),
    ],
    [
      'test',
      post('test', 'ℹ️ Test of this channel', section('This test was requested by an operator. No action is needed.')),
    ],
    [
      'check',
      post('check', 'ℹ️ Daily check', section('This daily message shows that alerts arrive here. No action is needed.')),
    ],
  ])('has the expected payload for kind %s', (kind, expected) => {
    expect(payload(messagesByKind[kind])).toEqual(expected)
  })

  it('goes to the webhook as JSON, and its destination is the host alone', () => {
    const { url, headers } = slack.request(testMessage(), settings, testSender)
    expect({ url, headers }).toEqual({
      url: settings.url,
      headers: { 'content-type': 'application/json', 'user-agent': 'Wardline/1.2.3' },
    })
    expect(slack.destination(settings)).toBe('hooks.slack.com')
  })

  // A compromised agent could mention everyone, hide its alert behind formatting, or lure readers to a link.
  it.each(Object.entries(hostileTexts))('shows %s in an event as plain text elements', (_, text) => {
    const { blocks, text: fallback } = payload(saying(text))
    const [, { elements }] = blocks
    const [{ elements: lines }] = elements
    expect(lines).toEqual([section(`${hitFacts} · ${plainText(text)}`)])
    expect(elements).toEqual([list(lines[0].elements[0].text), ...below('alert')])
    expect(lines[0].elements[0].text).not.toMatch(/:\/\/|[\p{Cc}\p{Cf}]/u)
    expect(fallback).toBe('🚨 honeypot_triggered on bot-1')
  })

  // Slack parses mentions in the fallback text, but not in a header block.
  it('escapes the headline only in the fallback text', () => {
    const { text, blocks } = payload(testMessage({ title: '<!channel> & <@U1>' }))
    expect(text).toBe('🚨 &lt;!channel&gt; &amp; &lt;@U1&gt;')
    expect(blocks[0].text).toEqual({ type: 'plain_text', text: '🚨 <!channel> & <@U1>', emoji: false })
  })

  it("stays within Slack's limits", () => {
    fc.assert(
      fc.property(anyMessage, (message) => {
        const { text, blocks } = payload(message)
        const shown = JSON.stringify(blocks.slice(1)).matchAll(/"text":"((?:[^"\\]|\\.)*)"/g)
        const texts = [...shown].map(([, quoted]) => JSON.parse(`"${quoted}"`) as string)
        expect(blocks.length).toBeLessThanOrEqual(50)
        expect(blocks[0].text.text.length).toBeLessThanOrEqual(150)
        expect(texts.join('').length).toBeLessThanOrEqual(3_000)
        expect(texts.every((part) => part.length > 0)).toBe(true)
        expect(text.length).toBeLessThanOrEqual(3_000)
      }),
      { examples: longestMessages },
    )
  })
})

describe('a Slack response', () => {
  it('200 with body "ok" counts as delivered', async () => {
    const { verdict, received } = await deliverOnce(slack, settings, { status: 200, body: 'ok' })
    expect(verdict).toEqual({ delivered: true, status: 200, answer: 'ok', error: null })
    expect(received).toMatchObject({ path: '/services/T0/B0/secret', body: payload(messagesByKind.alert) })
  })

  it.each([
    [200, '<html>Sign in</html>'],
    [200, ''],
    [201, 'ok'],
  ])('%i with body "%s" counts as a failure', async (status, body) => {
    const { verdict } = await deliverOnce(slack, settings, { status, body })
    expect(verdict).toEqual({
      delivered: false,
      status,
      answer: body,
      error: 'The response of the receiver is not ok.',
    })
  })

  it('sets the retry delay by Retry-After', async () => {
    const answer = { status: 429, headers: { 'retry-after': '30' }, body: 'rate_limited' }
    expect((await deliverOnce(slack, settings, answer)).verdict).toEqual({
      delivered: false,
      status: 429,
      answer: 'rate_limited',
      error: 'The receiver answered 429.',
      retryAfterSeconds: 30,
    })
  })

  it('410 marks the webhook as gone', async () => {
    const { verdict } = await deliverOnce(slack, settings, { status: 410, body: 'channel_is_archived' })
    expect(verdict).toMatchObject({ delivered: false, gone: true, answer: 'channel_is_archived' })
  })
})
