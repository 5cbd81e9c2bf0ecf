import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  anyMessage,
  hostileTexts,
  longestMessages,
  messagesByKind,
  saying,
  testMessage,
  testSender,
  tryOut,
} from '../../../test-chat.ts'
import type { Message } from '../message.ts'
import { discord } from './discord.ts'
import { plainText } from './plain-text.ts'

const settings = { url: 'https://discord.com/api/webhooks/1/secret?thread_id=5' }
const payload = (message: Message) => JSON.parse(discord.request(message, settings, testSender).body)

const post = (title: string, color: number, ...lines: string[]) => ({
  content: '',
  embeds: [{ title, description: lines.join('\n'), color, timestamp: '2026-01-15T12:00:30.000Z' }],
  allowed_mentions: { parse: [] },
})
const hit = '12\\:00\\:30 UTC · breach · bot\\-1 · honeypot\\_triggered · A decoy was used.'

/** What is shown: Discord drops a backslash before any sign that is no letter, digit or space. */
const shown = (text: string): string => text.replaceAll(/\\([^0-9A-Za-z\s])/g, '$1')
/** What is left of a text for Discord's markdown to obey. */
const obeyed = (text: string): string => text.replaceAll(/\\[^0-9A-Za-z\s]/g, '')

describe('a message in Discord', () => {
  it.each<[Message['kind'], object]>([
    [
      'alert',
      post(
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
        '⚠️ 2 alerts of the last 8 hours',
        0xf5a623,
        'These were held back until now.',
        '2026\\-01\\-14 12\\:00\\:30 UTC · warning · bot\\-1 · honeypot\\_triggered · Yesterday.',
        '12\\:00\\:30 UTC · info · bot\\-1 · honeypot\\_triggered',
      ),
    ],
    [
      'reminder',
      post('🔴 Still open\\: honeypot\\_triggered on bot\\-1', 0xd92d20, 'Nobody has acknowledged this.', hit),
    ],
    ['resolved', post('✅ Resolved\\: honeypot\\_triggered on bot\\-1', 0x2e9e5b, 'This is over.', hit)],
    ['test', post('ℹ️ Test of this channel', 0x3b82f6, 'Somebody asked for this test. Nothing has to be done.')],
    [
      'check',
      post('ℹ️ Daily check', 0x3b82f6, 'This is the daily proof that alerts arrive here. Nothing has to be done.'),
    ],
  ])('of kind %s is exactly this', (kind, expected) => {
    expect(payload(messagesByKind[kind])).toEqual(expected)
  })

  // An agent that was taken over could ping everybody, hide its alert in a spoiler, or have a link pressed.
  it.each(Object.entries(hostileTexts))('shows %s of an event as it is', (_, text) => {
    for (const message of [saying(text), testMessage({ title: text.slice(0, 60) })]) {
      const { embeds, allowed_mentions, content } = payload(message)
      const [{ title, description }] = embeds
      expect(obeyed(`${title}\n${description}`)).not.toMatch(/[\\*_~`|>#\-+[\]()<:@]/)
      expect(shown(description)).not.toMatch(/:\/\/|[^\n\P{Cc}]|\p{Cf}/u)
      expect({ allowed_mentions, content }).toEqual({ allowed_mentions: { parse: [] }, content: '' })
    }
    expect(shown(payload(saying(text)).embeds[0].description)).toBe(
      `12:00:30 UTC · breach · bot-1 · honeypot_triggered · ${plainText(text)}`,
    )
  })

  it("never exceeds Discord's limits, and never cuts an escape in two", () => {
    fc.assert(
      fc.property(anyMessage, (message) => {
        const [{ title, description }] = payload(message).embeds
        expect(title.length).toBeLessThanOrEqual(256)
        expect(description.length).toBeLessThanOrEqual(4_096)
        const halves = `${title}\n${description}`.replaceAll(/\\[\\*_~`|>#\-+[\]()<:@]/g, '')
        expect(halves).not.toContain('\\')
        expect(description.isWellFormed()).toBe(true)
      }),
      { examples: [...longestMessages, [testMessage({ title: `a${'_'.repeat(199)}` })]] },
    )
  })
})

describe('what Discord answers', () => {
  // Without wait Discord answers 204 even for a message that it does not keep.
  it('is asked for, and is success as the message that was kept', async () => {
    const kept = JSON.stringify({ id: '9007199254740993', type: 0 })
    const { verdict, received } = await tryOut(discord, settings, { status: 200, body: kept })
    expect(verdict).toEqual({ delivered: true, status: 200, answer: kept, error: null })
    expect(received.path).toBe('/api/webhooks/1/secret?thread_id=5&wait=true')
  })

  it.each([
    [204, ''],
    [200, '<html>Sign in</html>'],
    [200, 'null'],
  ])('is no success as %i %s', async (status, body) => {
    expect((await tryOut(discord, settings, { status, body })).verdict).toEqual({
      delivered: false,
      status,
      answer: body,
      error: 'The receiver did not answer with the message it kept.',
    })
  })

  it.each([
    ['{"message":"You are being rate limited.","retry_after":64.57,"global":false}', 65],
    ['{"retry_after":1e12}', 86_400],
    ['{"retry_after":"soon"}', 7],
    ['{"retry_after":-1}', 7],
    ['not json', 7],
  ])('says how long to wait: %s', async (body, seconds) => {
    const { verdict } = await tryOut(discord, settings, { status: 429, headers: { 'retry-after': '7' }, body })
    expect(verdict).toMatchObject({ delivered: false, status: 429, answer: body, retryAfterSeconds: seconds })
  })
})
