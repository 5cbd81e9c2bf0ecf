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
  testSender,
} from '../../../testing/chat.ts'
import type { Message } from './message.ts'
import { plainText } from './plain-text.ts'
import { teams } from './teams.ts'

const settings = { url: 'https://prod-1.logic.azure.com/workflows/1/triggers/manual/paths/invoke?sig=secret' }
const payload = (message: Message) => JSON.parse(teams.request(message, settings, testSender).body)

const line = (text: string, look: object = {}) => ({
  type: 'RichTextBlock',
  spacing: 'Small',
  inlines: [{ type: 'TextRun', text, ...look }],
})
const card = (kind: Message['kind'], headline: string, ...lines: string[]) => ({
  type: 'message',
  attachments: [
    {
      contentType: 'application/vnd.microsoft.card.adaptive',
      contentUrl: null,
      content: {
        $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
        type: 'AdaptiveCard',
        version: '1.4',
        fallbackText: headline,
        msteams: { width: 'Full' },
        body: [
          line(headline, { size: 'Medium', weight: 'Bolder' }),
          ...lines.map((text) => line(text)),
          ...(belowByKind[kind].done === null ? [] : [line(belowByKind[kind].done)]),
          ...belowByKind[kind].commands.map((command) => line(command, { fontType: 'Monospace' })),
        ],
        actions: [{ type: 'Action.OpenUrl', title: 'Open in Wardline', url: belowByKind[kind].link }],
      },
    },
  ],
})
const hit = `${hitFacts} · A decoy was used.`

describe('a Teams message', () => {
  it.each<[Message['kind'], object]>([
    [
      'alert',
      card(
        'alert',
        '🚨 honeypot_triggered on bot-1',
        '12:00:10 UTC · warning · tool_blocked · A decoy was used.',
        hit,
        '+3 more',
      ),
    ],
    [
      'digest',
      card(
        'digest',
        '⚠️ 2 alerts of the last 8 hours',
        'These alerts were delayed until now.',
        '2026-01-14 12:00:30 UTC · warning · bot-1 · honeypot_triggered · Yesterday.',
        '12:00:30 UTC · info · bot-1 · honeypot_triggered',
      ),
    ],
    [
      'reminder',
      card('reminder', '🔴 Still open: honeypot_triggered on bot-1', 'No one has acknowledged this alert.', hit),
    ],
    ['resolved', card('resolved', '✅ Resolved: honeypot_triggered on bot-1', 'This alert is resolved.', hit)],
    ['test', card('test', 'ℹ️ Test of this channel', 'This test was requested by an operator. No action is needed.')],
    ['check', card('check', 'ℹ️ Daily check', 'This daily message shows that alerts arrive here. No action is needed.')],
  ])('has the expected payload for kind %s', (kind, expected) => {
    expect(payload(messagesByKind[kind])).toEqual(expected)
  })

  // A compromised agent could hide its alert by formatting, lure readers to a link, or show a false time.
  it.each(Object.entries(hostileTexts))('shows %s in an event as text runs, which have no markdown', (_, text) => {
    const shown = plainText(text).replaceAll('{{{', '{ { {').replaceAll('{{', '{ {')
    const line = `${hitFacts} · ${shown}`
    expect(payload(saying(text))).toEqual(card('alert', '🚨 honeypot_triggered on bot-1', line))
    expect(line).not.toMatch(/:\/\/|\{\{|[\p{Cc}\p{Cf}]/u)
  })

  it('has at most 28 KB, in UTF-8 and in UTF-16', () => {
    fc.assert(
      fc.property(anyMessage, (message) => {
        const { body } = teams.request(message, settings, testSender)
        expect(Buffer.byteLength(body)).toBeLessThanOrEqual(28_000)
        expect(Buffer.byteLength(body, 'utf16le')).toBeLessThanOrEqual(28_000)
        const runs = JSON.parse(body).attachments[0].content.body.flatMap(
          (block: { inlines: object[] }) => block.inlines,
        )
        expect(runs.every((run: { type: string }) => run.type === 'TextRun')).toBe(true)
        expect(JSON.stringify(runs.map((run: { text: string }) => run.text))).not.toContain('{{')
      }),
      { examples: longestMessages },
    )
  })
})

describe('a response of a workflow', () => {
  it.each([200, 202])('with status %i counts as delivered', async (status) => {
    const { verdict, received } = await deliverOnce(teams, settings, { status, body: '' })
    expect(verdict).toEqual({ delivered: true, status, answer: '', error: null })
    expect(received).toMatchObject({
      path: '/workflows/1/triggers/manual/paths/invoke?sig=secret',
      body: payload(messagesByKind.alert),
    })
  })

  it.each([
    { status: 200, headers: { 'content-type': 'text/html; charset=utf-8' }, body: '<html>Sign in</html>' },
    { status: 204 },
  ])('%o counts as a failure', async (answer) => {
    expect((await deliverOnce(teams, settings, answer)).verdict).toMatchObject({
      delivered: false,
      error: 'The response of the receiver is not from a Workflow.',
    })
  })

  it('sets the retry delay by Retry-After', async () => {
    const { verdict } = await deliverOnce(teams, settings, {
      status: 429,
      headers: { 'retry-after': '12' },
      body: '{}',
    })
    expect(verdict).toMatchObject({ delivered: false, status: 429, retryAfterSeconds: 12 })
  })
})
