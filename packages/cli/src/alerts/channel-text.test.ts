import type { ChannelView, MessageView } from '@wardline/contract'
import { expect, test } from 'vitest'
import { channelTable, channelText, messageTable, testedText } from './channel-text.ts'

const hostile = 'ok\u001b[2J\u009b31m\u202e\nforged line'

const channel: ChannelView = {
  id: '01a1fea9-26b4-79dd-9384-cdeaa050f1ec',
  name: hostile,
  type: 'webhook',
  managed_by: 'api',
  destination: hostile,
  min_severity: 'warning',
  enabled: true,
  decides: true,
  send_resolved: true,
  daily_check: false,
  personal_mail: false,
  max_per_minute: 20,
  quiet_hours: { from: '22:00', to: '07:00', time_zone: hostile },
  state: 'failing',
  waiting: 3,
  dead: 2,
  behind: 0,
  paused_until: '2026-11-21T12:01:00.000Z',
  last_delivered_at: null,
  last_error: hostile,
  last_error_at: '2026-11-21T12:00:00.000Z',
}

const message: MessageView = {
  id: '01a1fea9-26b4-79dd-9384-cdeaa050f1ed',
  channel_id: channel.id,
  person_id: null,
  kind: 'alert',
  title: hostile,
  severity: 'critical',
  state: 'pending',
  attempts: 2,
  created_at: '2026-11-21T12:00:00.000Z',
  due_at: '2026-11-21T12:05:00.000Z',
  delivered_at: null,
  last_status: 503,
  last_answer: hostile,
  last_error: 'The receiver answered 503.',
}

const tested = { ok: true as const, message_id: message.id, status: 200, answer: hostile, error: null, duration_ms: 17 }

// A receiver, or a server in place of the service, writes much of what an operator reads here.
test('lets no text act on the terminal or pose as another line', () => {
  const texts = [channelTable([channel]), messageTable([message]), testedText(tested)]
  for (const text of texts) expect(text).not.toMatch(/\p{Cc}|\u202e/u)
  const lines = channelText(channel).split('\n')
  expect(lines.filter((line) => /\p{Cc}|\u202e/u.test(line) || line.startsWith('forged'))).toEqual([])
})

test('says what a channel still has to do, and what it gave up', () => {
  expect(channelTable([{ ...channel, name: 'Ops', destination: 'a.example' }])).toBe(
    `${channel.id}  failing  webhook  Ops  a.example  from warning  3 waiting, 2 undelivered`,
  )
})

test('says when a message is retried, and why', () => {
  const calm = { ...message, title: 'Critical: x', last_answer: null }
  expect(messageTable([calm])).toBe(
    `2026-11-21T12:00:00.000Z  ${channel.id}  alert  Critical: x  pending, 2 attempts, next at 2026-11-21T12:05:00.000Z  503 The receiver answered 503.`,
  )
})

test('says what a receiver answered, where it said anything', () => {
  expect(testedText({ ...tested, answer: 'thank you' })).toBe('Delivered after 17 ms: 200 thank you')
  expect(testedText({ ...tested, ok: false, status: null, answer: null })).toBe('Not delivered after 17 ms.')
})
