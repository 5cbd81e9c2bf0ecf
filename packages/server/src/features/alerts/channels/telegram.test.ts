import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  anyMessage,
  hostileTexts,
  longestMessages,
  messagesByKind,
  saying,
  testSender,
  toldAlert,
  tryOut,
} from '../../../test-chat.ts'
import type { Message } from '../message.ts'
import { plainText } from './plain-text.ts'
import { telegram } from './telegram.ts'

const settings = { token: '123456:secret-token', chat_id: '-1001234567890' }
const payload = (message: Message) => JSON.parse(telegram.request(message, settings, testSender).body)

interface Entity {
  type: string
  offset: number
  length: number
}
/** Texts that entities cover, by type: both Telegram and JavaScript count UTF-16 units. */
const covered = ({ text, entities }: { text: string; entities: Entity[] }) =>
  entities.map(({ type, offset, length }) => [type, text.slice(offset, offset + length)])

const post = (texts: string[], entities: [string, number, number][], disable_notification = false) => ({
  chat_id: '-1001234567890',
  text: texts.join('\n'),
  entities: entities.map(([type, offset, length]) => ({ type, offset, length })),
  link_preview_options: { is_disabled: true },
  disable_notification,
})
const hit = '12:00:30 UTC · breach · bot-1 · honeypot_triggered · A decoy was used.'

describe('a message in Telegram', () => {
  it.each<[Message['kind'], object]>([
    [
      'alert',
      post(
        ['🚨 honeypot_triggered on bot-1', '12:00:10 UTC · warning · tool_blocked · A decoy was used.', hit, '+3 more'],
        [
          ['bold', 0, 30],
          ['code', 31, 57],
          ['code', 89, 70],
        ],
      ),
    ],
    [
      'digest',
      post(
        [
          '⚠️ 2 alerts of the last 8 hours',
          'These were held back until now.',
          '2026-01-14 12:00:30 UTC · warning · bot-1 · honeypot_triggered · Yesterday.',
          '12:00:30 UTC · info · bot-1 · honeypot_triggered',
        ],
        [
          ['bold', 0, 31],
          ['code', 64, 75],
          ['code', 140, 48],
        ],
      ),
    ],
    [
      'reminder',
      post(
        ['🔴 Still open: honeypot_triggered on bot-1', 'Nobody has acknowledged this.', hit],
        [
          ['bold', 0, 42],
          ['code', 73, 70],
        ],
      ),
    ],
    [
      'resolved',
      post(
        ['✅ Resolved: honeypot_triggered on bot-1', 'This is over.', hit],
        [
          ['bold', 0, 39],
          ['code', 54, 70],
        ],
        true,
      ),
    ],
    [
      'test',
      post(['ℹ️ Test of this channel', 'Somebody asked for this test. Nothing has to be done.'], [['bold', 0, 23]]),
    ],
    [
      'check',
      post(
        ['ℹ️ Daily check', 'This is the daily proof that alerts arrive here. Nothing has to be done.'],
        [['bold', 0, 14]],
        true,
      ),
    ],
  ])('of kind %s is exactly this', (kind, expected) => {
    expect(payload(messagesByKind[kind])).toEqual(expected)
  })

  // An agent that was taken over could mention people, plant a command, or have a bare domain pressed: Telegram makes
  // all of these live by itself, but not within code.
  it.each(Object.entries(hostileTexts))('shows %s of an event as code, without a parse mode', (_, text) => {
    const post = payload(saying(text))
    expect(covered(post)).toEqual([
      ['bold', '🚨 honeypot_triggered on bot-1'],
      ['code', `12:00:30 UTC · breach · bot-1 · honeypot_triggered · ${plainText(text)}`],
    ])
    expect(post).not.toHaveProperty('parse_mode')
    expect(post.text).not.toMatch(/:\/\/|[^\n\P{Cc}]|\p{Cf}/u)
  })

  it('covers exactly the lines of alerts behind a thousand emoji', () => {
    const alerts = ['😀'.repeat(1_000), 'evil.com @admin'].map((description) => toldAlert({ description }))
    const lines = payload({ ...messagesByKind.digest, alerts, more: 1 })
    const [, , ...rest] = lines.text.split('\n')
    expect(rest.at(-1)).toBe('+1 more')
    expect(covered(lines).slice(1)).toEqual(rest.slice(0, -1).map((line: string) => ['code', line]))
  })

  it("never exceeds Telegram's limits, and leaves no text of an event outside of code", () => {
    fc.assert(
      fc.property(anyMessage, (message) => {
        const post = payload(message)
        expect(post.text.length).toBeLessThanOrEqual(4_096)
        expect(post.entities.length).toBeLessThanOrEqual(100)
        const lines = post.text.split('\n')
        const code = covered(post).slice(1)
        expect(code).toHaveLength(message.alerts.length)
        for (const [, line] of code) expect(lines).toContain(line)
      }),
      { examples: longestMessages },
    )
  })
})

describe('what Telegram answers', () => {
  it('is success with ok: true', async () => {
    const body = '{"ok":true,"result":{"message_id":1}}'
    const { verdict, received } = await tryOut(telegram, settings, { status: 200, body })
    expect(verdict).toEqual({ delivered: true, status: 200, answer: body, error: null })
    expect(received.path).toBe('/bot123456:secret-token/sendMessage')
    expect(telegram.request(messagesByKind.alert, settings, testSender).url).toBe(
      'https://api.telegram.org/bot123456:secret-token/sendMessage',
    )
    expect(telegram.destination(settings)).toBe('api.telegram.org')
  })

  it.each(['{"ok":false,"description":"no"}', '<html>Blocked</html>', '{}', '[]'])(
    'is no success as 200 %s',
    async (body) => {
      const { verdict } = await tryOut(telegram, settings, { status: 200, body })
      expect(verdict).toMatchObject({ delivered: false, status: 200, error: 'Telegram did not answer ok.' })
    },
  )

  // A token in an error would be shown to everybody who may read the delivery log.
  it('says how long to wait, and the failure does not name the token', async () => {
    const body = '{"ok":false,"error_code":429,"description":"Too Many Requests","parameters":{"retry_after":5}}'
    const { verdict } = await tryOut(telegram, settings, { status: 429, body })
    expect(verdict).toEqual({
      delivered: false,
      status: 429,
      answer: body,
      error: 'The receiver answered 429.',
      retryAfterSeconds: 5,
    })
    expect(JSON.stringify(verdict)).not.toContain('secret-token')
  })

  it.each(['{"parameters":null}', '{"parameters":7}', 'null'])('bears %s', async (body) => {
    const { verdict } = await tryOut(telegram, settings, { status: 400, body })
    expect(verdict).toMatchObject({ delivered: false, status: 400, answer: body })
    expect(verdict).not.toHaveProperty('retryAfterSeconds')
  })
})
