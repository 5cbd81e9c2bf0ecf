import fc from 'fast-check'
import { expect, it } from 'vitest'
import {
  anyMessage,
  belowLines,
  deliveredAlert,
  longestMessages,
  messagesByKind,
  testSender,
} from '../../../testing/chat.ts'
import type { Message } from './message.ts'
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

it('answers the first message of its incident, if Telegram still has that', () => {
  const first = telegram.judge({ status: 200, headers: {}, body: '{"ok":true,"result":{"message_id":77}}' })
  expect(first).toMatchObject({ delivered: true, reference: '77' })
  const thread = { reference: first.reference!, first: messagesByKind.alert }
  const answer = JSON.parse(telegram.request(messagesByKind.resolved, settings, { ...testSender, thread }).body)
  expect(answer.reply_parameters).toEqual({ message_id: 77, allow_sending_without_reply: true })
  expect(payload(messagesByKind.resolved)).not.toHaveProperty('reply_parameters')
})

// Telegram makes domains, mentions and commands clickable, except within code.
it('has no text of an event outside of code in a message of Telegram', () => {
  fc.assert(
    fc.property(anyMessage, (message) => {
      const post = payload(message)
      const code = covered(post).slice(1)
      const uncovered = post.text
        .split('\n')
        .slice(1)
        .filter((line: string) => !code.some(([, text]) => line === text))
      for (const line of uncovered)
        expect(line).toMatch(/^(Next: wardline [a-z0-9_ -]+|\+\d+ more|https:.*|[A-Z][^·]+\.)$/)
      expect(code.length).toBeGreaterThanOrEqual(message.alerts.length)
      expect(post).not.toHaveProperty('parse_mode')
    }),
    { examples: longestMessages },
  )
})

it.each([
  ['{"ok":false,"error_code":429,"parameters":{"retry_after":5}}', 5],
  ['{"parameters":null}', undefined],
  ['{"parameters":7}', undefined],
  ['null', undefined],
])('%s of Telegram sets the retry delay to %s', (body, seconds) => {
  expect(telegram.judge({ status: 429, headers: {}, body }).retryAfterSeconds).toBe(seconds)
})

it('has buttons that fit the limit of callback data, below the arguments as code', () => {
  const id = '019bbf6e-0000-7000-8000-000000000001'
  const buttons = { approvalId: id, channelId: id, args: '{"to":"@admin"}', tokenOf: () => 'x'.repeat(43) }
  const sent = JSON.parse(telegram.request(messagesByKind.alert, settings, { ...testSender, buttons }).body)
  const [[approve, deny]] = sent.reply_markup.inline_keyboard
  expect([approve.text, deny.text]).toEqual(['Approve', 'Deny'])
  for (const { callback_data } of [approve, deny]) expect(Buffer.byteLength(callback_data)).toBe(64)
  expect(covered(sent)).toContainEqual(['code', 'Arguments: {"to":"@admin"}'])
  expect(payload(messagesByKind.alert)).not.toHaveProperty('reply_markup')
})
