import { describe, expect, test } from 'vitest'
import type { AlertCount, AlertDetail, Channel } from '../data/alerts.ts'
import {
  changeText,
  countOf,
  deliveryText,
  healthText,
  matchOf,
  matchText,
  queueSentence,
  stateOfChannel,
  stateText,
} from './alert-texts.ts'

const now = Date.parse('2026-11-22T03:00:00Z')
const at = (secondsAgo: number) => new Date(now - secondsAgo * 1_000).toISOString()
const channel = (fields: Partial<Channel> = {}): Channel => ({
  id: 'env-slack',
  name: 'Ops',
  type: 'slack',
  managed_by: 'environment',
  destination: 'hooks.slack.com',
  min_severity: 'warning',
  enabled: true,
  decides: false,
  send_resolved: true,
  daily_check: true,
  personal_mail: false,
  max_per_minute: 20,
  quiet_hours: null,
  state: 'ok',
  waiting: 0,
  dead: 0,
  behind: 0,
  paused_until: null,
  last_delivered_at: at(60),
  last_error: null,
  last_error_at: null,
  ...fields,
})
const counts: AlertCount[] = [
  { status: 'open', severity: 'breach', count: 1 },
  { status: 'open', severity: 'warning', count: 4 },
  { status: 'open', severity: 'info', count: 900 },
  { status: 'acknowledged', severity: 'critical', count: 2 },
]

describe('the heading of the queue', () => {
  const say = (given: Partial<Parameters<typeof queueSentence>[0]>) =>
    queueSentence({ counts: [], isComplete: true, channels: [channel()], ...given })

  test('counts open alerts without those of severity info', () => {
    expect(say({ counts })).toBe('5 open alerts, 1 breach')
    expect(say({ counts: counts.slice(1) })).toBe('4 open alerts')
    expect(say({ counts: [{ status: 'open', severity: 'critical', count: 1 }] })).toBe('1 open alert, 1 critical')
    expect(say({ counts, isComplete: false })).toBe('At least 5 open alerts, 1 breach')
    expect(say({ counts: counts.slice(2) })).toBe('No open alerts, 2 acknowledged')
  })

  // Alerts that nobody hears of are found only by who looks.
  test('says that nobody is notified without a working channel', () => {
    expect(say({})).toBe('No open alerts')
    expect(say({ channels: [] })).toBe('No open alerts, nobody is notified')
    expect(say({ channels: [channel({ enabled: false })] })).toBe('No open alerts, nobody is notified')
    expect(say({ counts, channels: [] })).toBe('5 open alerts, 1 breach, nobody is notified')
    expect(say({ channels: [channel(), channel({ state: 'failing' })] })).toBe('No open alerts, 1 channel failing')
    expect(say({ counts, channels: [channel({ paused_until: at(-9) })] })).toBe(
      '5 open alerts, 1 breach, 1 channel failing',
    )
  })
})

test('the count of one filter depends on the other', () => {
  expect(countOf(counts, {})).toBe(7)
  expect(countOf(counts, { status: 'open' })).toBe(5)
  expect(countOf(counts, { severity: 'info' })).toBe(900)
  expect(countOf(counts, { status: 'acknowledged', severity: 'breach' })).toBe(0)
})

test('an alert is described by its state and verdict', () => {
  expect(stateText({ status: 'resolved', verdict: 'false_positive' })).toBe('Resolved as a false positive')
  expect(stateText({ status: 'acknowledged', verdict: null })).toBe('Acknowledged')
})

describe('the history of an alert', () => {
  const state: AlertDetail['history'][number]['after'] = { status: 'open', verdict: null, assignee: null }
  const change = (after: Partial<typeof state>, before: Partial<typeof state> = {}, alerts = 1) =>
    changeText({ at: at(1), by: 'Ada', before: { ...state, ...before }, after: { ...state, ...after }, alerts })

  test('lists the changes', () => {
    expect(change({ status: 'acknowledged', assignee: 'Ada' })).toBe('acknowledged, changed the assignee')
    expect(change({ status: 'resolved', verdict: 'false_positive' }, {}, 3)).toBe(
      'resolved as a false positive, with 2 other alerts',
    )
    expect(change({}, { status: 'resolved', verdict: 'false_positive' })).toBe('reopened')
    expect(change({}, { assignee: 'Ada' })).toBe('removed the assignee')
    expect(change({})).toBe('changed nothing')
    expect(change({ status: null })).toBe('changed the state')
  })
})

describe('the text of a delivery', () => {
  const delivery: AlertDetail['deliveries'][number] = {
    channel_id: 'env-slack',
    outcome: 'sent',
    message_id: null,
    state: 'delivered',
    attempts: 1,
    last_status: 200,
    last_answer: 'ok',
    last_error: null,
    due_at: null,
    delivered_at: at(1),
  }

  test('never says delivered before the receiver has accepted the message', () => {
    expect(deliveryText(delivery)).toBe('delivered after 1 attempt')
    expect(deliveryText({ ...delivery, state: 'pending', attempts: 0 })).toBe('pending')
    expect(deliveryText({ ...delivery, state: 'pending', attempts: 3 })).toBe('retrying after 3 attempts')
    expect(deliveryText({ ...delivery, state: 'dead', attempts: 9, outcome: 'joined' })).toBe(
      'failed after 9 attempts, with other alerts',
    )
    expect(deliveryText({ ...delivery, state: null, outcome: 'silenced' })).toBe('suppressed by a silence')
  })
})

describe('the state of a channel', () => {
  test('is working once it has delivered a message and nothing fails', () => {
    expect(stateOfChannel(channel())).toBe('working')
    expect(stateOfChannel(channel({ last_delivered_at: null }))).toBe('not tried yet')
    // The first failures pause the channel minutes before the service marks it as failing.
    expect(stateOfChannel(channel({ paused_until: at(-60) }))).toBe('failing')
    expect(stateOfChannel(channel({ enabled: false, state: 'disabled' }))).toBe('disabled')
  })

  test('lists pending, unplanned and dead messages', () => {
    const busy = channel({ paused_until: at(-60), waiting: 3, dead: 1, behind: 2 })
    expect(healthText(busy, now)).toBe(
      'Last delivery 60 s ago, next attempt in 60 s, 3 pending, 2 alerts not processed yet, 1 failed',
    )
    expect(healthText(channel({ last_delivered_at: null }), now)).toBe('No deliveries yet: send a test')
  })
})

describe('the match of a rule', () => {
  const formOf = (...fields: [string, string][]) => {
    const form = new FormData()
    for (const [name, value] of fields) form.append(name, value)
    return form
  }

  test('is read from lists in a form and described in words', () => {
    const match = matchOf(
      formOf(['severity', 'breach'], ['severity', 'critical'], ['types', 'honeypot_*,  policy_violation']),
    )
    expect(match).toEqual({ severities: ['critical', 'breach'], types: ['honeypot_*', 'policy_violation'] })
    expect(matchText(match)).toBe('severity critical or breach, type honeypot_* or policy_violation')
    expect(matchOf(formOf(['types', ' , '], ['instances', 'a b']))).toEqual({ instances: ['a', 'b'] })
    expect(matchText({})).toBe('all alerts')
  })
})
