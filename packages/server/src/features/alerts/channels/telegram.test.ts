import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  anyMessage,
  belowByKind,
  belowLines,
  deliveredAlert,
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
import { telegram } from './telegram.ts'

const settings = { token: '123456:secret-token', chat_id: '-1001234567890' }
const payload = (message: Message) => JSON.parse(telegram.request(message, settings, testSender).body)

interface Entity {
  type: string
  offset: number
  length: number
}
/** Returns the texts that entities cover, with the type: both Telegram and JavaScript count UTF-16 units. */
const covered = ({ text, entities }: { text: string; entities: Entity[] }) =>
  entities.map(({ type, offset, length }) => [type, text.slice(offset, offset + length)])

/** All lines but headline, note, count and link are code, since Telegram would turn parts of other texts into links. */
function entitiesOf(texts: string[], kind: Message['kind']) {
  const { commands } = belowByKind[kind]
  const isCode = (text: string) => text.includes(' UTC · ') || text.startsWith('Done so far: ')
  const entities = [{ type: 'bold', offset: 0, length: texts[0]!.length }]
  let offset = 0
  for (const text of texts) {
    const command = commands.find((one) => text === `Next: ${one}`)
    if (isCode(text)) entities.push({ type: 'code', offset, length: text.length })
    else if (command) entities.push({ type: 'code', offset: offset + 'Next: '.length, length: command.length })
    offset += text.length + 1
  }
  return entities
}

const post = (kind: Message['kind'], lines: string[], disable_notification = false) => {
  const texts = [...lines, ...belowLines(kind)]
  return {
    chat_id: '-1001234567890',
    text: texts.join('\n'),
    entities: entitiesOf(texts, kind),
    link_preview_options: { is_disabled: true },
    disable_notification,
  }
}
const hit = `${hitFacts} · A decoy was used.`

describe('a Telegram message', () => {
  it.each<[Message['kind'], object]>([
    [
      'alert',
      post('alert', [
        '🚨 honeypot_triggered on bot-1',
        '12:00:10 UTC · warning · tool_blocked · A decoy was used.',
        hit,
        '+3 more',
      ]),
    ],
    [
      'digest',
      post('digest', [
        '⚠️ 2 alerts of the last 8 hours',
        'These alerts were delayed until now.',
        '2026-01-14 12:00:30 UTC · warning · bot-1 · honeypot_triggered · Yesterday.',
        '12:00:30 UTC · info · bot-1 · honeypot_triggered',
      ]),
    ],
    [
      'reminder',
      post('reminder', ['🔴 Still open: honeypot_triggered on bot-1', 'No one has acknowledged this alert.', hit]),
    ],
    ['resolved', post('resolved', ['✅ Resolved: honeypot_triggered on bot-1', 'This alert is resolved.', hit], true)],
    ['test', post('test', ['ℹ️ Test of this channel', 'This test was requested by an operator. No action is needed.'])],
    [
      'check',
      post('check', ['ℹ️ Daily check', 'This daily message shows that alerts arrive here. No action is needed.'], true),
    ],
  ])('has the expected payload for kind %s', (kind, expected) => {
    expect(payload(messagesByKind[kind])).toEqual(expected)
  })

  // A compromised agent could mention people, plant a command, or lure readers to a bare domain: Telegram makes all of
  // these clickable, except within code.
  it.each(Object.entries(hostileTexts))('shows %s in an event as code, without a parse mode', (_, text) => {
    const post = payload(saying(text))
    expect(covered(post)).toEqual([
      ['bold', '🚨 honeypot_triggered on bot-1'],
      ['code', `${hitFacts} · ${plainText(text)}`],
      ['code', 'Done so far: nothing'],
      ...belowByKind.alert.commands.map((command) => ['code', command]),
    ])
    expect(post).not.toHaveProperty('parse_mode')
    expect(post.text.replace(belowByKind.alert.link, '')).not.toMatch(/:\/\/|[^\n\P{Cc}]|\p{Cf}/u)
  })

  it('marks exactly the lines of alerts as code after a line of 1,000 emoji', () => {
    const alerts = ['😀'.repeat(1_000), 'evil.com @admin'].map((description) => deliveredAlert({ description }))
    const lines = payload({ ...messagesByKind.digest, alerts, more: 1 })
    const [, , ...rest] = lines.text.split('\n')
    expect(rest.slice(2)).toEqual(['+1 more', ...belowLines('digest')])
    expect(covered(lines).slice(1)).toEqual([
      ...rest.slice(0, 2).map((line: string) => ['code', line]),
      ['code', 'wardline alerts list --status open'],
    ])
  })

  it("stays within Telegram's limits, and has no text of an event outside of code", () => {
    fc.assert(
      fc.property(anyMessage, (message) => {
        const post = payload(message)
        expect(post.text.length).toBeLessThanOrEqual(4_096)
        expect(post.entities.length).toBeLessThanOrEqual(100)
        const lines = post.text.split('\n')
        const code = covered(post).slice(1)
        const uncovered = lines.slice(1).filter((line: string) => !code.some(([, text]) => line === text))
        for (const line of uncovered)
          expect(line).toMatch(/^(Next: wardline [a-z0-9_ -]+|\+\d+ more|https:.*|[A-Z][^·]+\.)$/)
        expect(code.length).toBeGreaterThanOrEqual(message.alerts.length)
      }),
      { examples: longestMessages },
    )
  })
})

describe('a Telegram response', () => {
  it('with ok: true counts as delivered', async () => {
    const body = '{"ok":true,"result":{"message_id":1}}'
    const { verdict, received } = await deliverOnce(telegram, settings, { status: 200, body })
    expect(verdict).toEqual({ delivered: true, status: 200, answer: body, error: null })
    expect(received.path).toBe('/bot123456:secret-token/sendMessage')
    expect(telegram.request(messagesByKind.alert, settings, testSender).url).toBe(
      'https://api.telegram.org/bot123456:secret-token/sendMessage',
    )
    expect(telegram.destination(settings)).toBe('api.telegram.org')
  })

  it.each(['{"ok":false,"description":"no"}', '<html>Blocked</html>', '{}', '[]'])(
    '200 with body "%s" counts as a failure',
    async (body) => {
      const { verdict } = await deliverOnce(telegram, settings, { status: 200, body })
      expect(verdict).toMatchObject({ delivered: false, status: 200, error: 'The response of Telegram is not ok.' })
    },
  )

  // The error is stored in the delivery log, which every viewer can read.
  it('sets the retry delay by retry_after, and the error does not contain the token', async () => {
    const body = '{"ok":false,"error_code":429,"description":"Too Many Requests","parameters":{"retry_after":5}}'
    const { verdict } = await deliverOnce(telegram, settings, { status: 429, body })
    expect(verdict).toEqual({
      delivered: false,
      status: 429,
      answer: body,
      error: 'The receiver answered 429.',
      retryAfterSeconds: 5,
    })
    expect(JSON.stringify(verdict)).not.toContain('secret-token')
  })

  it.each(['{"parameters":null}', '{"parameters":7}', 'null'])('with body %s has no retry delay', async (body) => {
    const { verdict } = await deliverOnce(telegram, settings, { status: 400, body })
    expect(verdict).toMatchObject({ delivered: false, status: 400, answer: body })
    expect(verdict).not.toHaveProperty('retryAfterSeconds')
  })
})
