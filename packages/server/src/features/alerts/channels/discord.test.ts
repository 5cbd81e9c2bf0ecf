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
import { discord } from './discord.ts'
import type { Message } from './message.ts'
import { plainText } from './plain-text.ts'

const settings = { url: 'https://discord.com/api/webhooks/1/secret?thread_id=5' }
const payload = (message: Message) => JSON.parse(discord.request(message, settings, testSender).body)

const below = (kind: Message['kind']): string[] => {
  const { done, commands } = belowByKind[kind]
  return [...(done === null ? [] : [done.replace(':', '\\:')]), ...commands.map((command) => `Next: \`${command}\``)]
}
const post = (kind: Message['kind'], title: string, color: number, ...lines: string[]) => ({
  content: '',
  embeds: [
    {
      title,
      url: belowByKind[kind].link,
      description: [...lines, ...below(kind)].join('\n'),
      color,
      timestamp: '2026-01-15T12:00:30.000Z',
    },
  ],
  allowed_mentions: { parse: [] },
})
const hit =
  '12\\:00\\:30 UTC · breach · bot\\-1 \\(Bot one\\) · honeypot\\_triggered · decoy\\: env of the mail bot · tool\\: http\\-request · from\\: 203.0.113.7 · A decoy was used.'

/** Removes the commands, which are code spans. */
const withoutCommands = (description: string): string => description.replaceAll(/\nNext: `[a-z0-9_ -]+`(?=\n|$)/g, '')

/** Returns what Discord shows: it drops a backslash before any character except letters, digits and spaces. */
const shown = (text: string): string => text.replaceAll(/\\([^0-9A-Za-z\s])/g, '$1')
/** Removes escaped characters. Discord interprets the rest as markdown. */
const obeyed = (text: string): string => text.replaceAll(/\\[^0-9A-Za-z\s]/g, '')

describe('a Discord message', () => {
  it.each<[Message['kind'], object]>([
    [
      'alert',
      post(
        'alert',
        '🚨 honeypot\\_triggered on bot\\-1',
        0x8e1b3a,
        '12\\:00\\:10 UTC · warning · tool\\_blocked · A decoy was used.',
        hit,
        '\\+3 more',
      ),
    ],
    [
      'digest',
      post(
        'digest',
        '⚠️ 2 alerts of the last 8 hours',
        0xf5a623,
        'These alerts were delayed until now.',
        '2026\\-01\\-14 12\\:00\\:30 UTC · warning · bot\\-1 · honeypot\\_triggered · Yesterday.',
        '12\\:00\\:30 UTC · info · bot\\-1 · honeypot\\_triggered',
      ),
    ],
    [
      'reminder',
      post(
        'reminder',
        '🔴 Still open\\: honeypot\\_triggered on bot\\-1',
        0xd92d20,
        'No one has acknowledged this alert.',
        hit,
      ),
    ],
    [
      'resolved',
      post('resolved', '✅ Resolved\\: honeypot\\_triggered on bot\\-1', 0x2e9e5b, 'This alert is resolved.', hit),
    ],
    [
      'test',
      post('test', 'ℹ️ Test of this channel', 0x3b82f6, 'This test was requested by an operator. No action is needed.'),
    ],
    [
      'check',
      post(
        'check',
        'ℹ️ Daily check',
        0x3b82f6,
        'This daily message shows that alerts arrive here. No action is needed.',
      ),
    ],
  ])('has the expected payload for kind %s', (kind, expected) => {
    expect(payload(messagesByKind[kind])).toEqual(expected)
  })

  // A compromised agent could mention everyone, hide its alert in a spoiler, or lure readers to a link.
  it.each(Object.entries(hostileTexts))('shows %s in an event literally', (_, text) => {
    for (const message of [saying(text), testMessage({ title: text.slice(0, 60) })]) {
      const { embeds, allowed_mentions, content } = payload(message)
      const [{ title, description }] = embeds
      expect(obeyed(`${title}\n${withoutCommands(description)}`)).not.toMatch(/[\\*_~`|>#\-+[\]()<:@]/)
      expect(shown(description)).not.toMatch(/:\/\/|[^\n\P{Cc}]|\p{Cf}/u)
      expect({ allowed_mentions, content }).toEqual({ allowed_mentions: { parse: [] }, content: '' })
    }
    expect(shown(withoutCommands(payload(saying(text)).embeds[0].description))).toBe(
      `${hitFacts} · ${plainText(text)}\nDone so far: nothing`,
    )
  })

  it("stays within Discord's limits, and no cut splits an escape", () => {
    fc.assert(
      fc.property(anyMessage, (message) => {
        const [{ title, description }] = payload(message).embeds
        expect(title.length).toBeLessThanOrEqual(256)
        expect(description.length).toBeLessThanOrEqual(4_096)
        const halves = `${title}\n${withoutCommands(description)}`.replaceAll(/\\[\\*_~`|>#\-+[\]()<:@]/g, '')
        expect(halves).not.toContain('\\')
        expect(description.isWellFormed()).toBe(true)
      }),
      { examples: [...longestMessages, [testMessage({ title: `a${'_'.repeat(199)}` })]] },
    )
  })
})

describe('a Discord response', () => {
  // Without `wait`, Discord responds with 204 even if it does not store the message.
  it('is requested by `wait`, and with the stored message counts as delivered', async () => {
    const kept = JSON.stringify({ id: '9007199254740993', type: 0 })
    const { verdict, received } = await deliverOnce(discord, settings, { status: 200, body: kept })
    expect(verdict).toEqual({ delivered: true, status: 200, answer: kept, error: null })
    expect(received.path).toBe('/api/webhooks/1/secret?thread_id=5&wait=true')
  })

  it.each([
    [204, ''],
    [200, '<html>Sign in</html>'],
    [200, 'null'],
  ])('%i with body "%s" counts as a failure', async (status, body) => {
    expect((await deliverOnce(discord, settings, { status, body })).verdict).toEqual({
      delivered: false,
      status,
      answer: body,
      error: 'The response of the receiver does not contain the stored message.',
    })
  })

  it.each([
    ['{"message":"You are being rate limited.","retry_after":64.57,"global":false}', 65],
    ['{"retry_after":1e12}', 86_400],
    ['{"retry_after":"soon"}', 7],
    ['{"retry_after":-1}', 7],
    ['not json', 7],
  ])('%s sets the retry delay by retry_after, or else by Retry-After', async (body, seconds) => {
    const { verdict } = await deliverOnce(discord, settings, { status: 429, headers: { 'retry-after': '7' }, body })
    expect(verdict).toMatchObject({ delivered: false, status: 429, answer: body, retryAfterSeconds: seconds })
  })
})
