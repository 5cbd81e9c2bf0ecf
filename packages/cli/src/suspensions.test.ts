import { expect, test } from 'vitest'
import { suspensionTable } from './suspensions.ts'

test('a suspension is shown with milliseconds until each stage, and - for stages not observed', () => {
  const requested_at = '2026-01-15T12:00:30.000Z'
  const none = {
    rule_id: null,
    event_id: null,
    containment_id: null,
    through: null,
    published_by: null,
    delivered_process: null,
  }
  const held = { enforced_at: '2026-01-15T12:00:30.031Z', held_processes: 3, left_processes: 0 }
  const table = suspensionTable([
    {
      ...none,
      ...held,
      enforced_by: 'supervisor',
      version: 1,
      state: 'violated',
      reason: 'Leak\u001b[2J',
      by: 'system',
      by_name: null,
      requested_at,
      stored_at: '2026-01-15T12:00:30.004Z',
      published_at: null,
      delivered_at: '2026-01-15T12:00:30.012Z',
      delivered_by: 'stream',
      acknowledged_at: '2026-01-15T12:00:30.020Z',
      acknowledged_by: 'ack',
      can_acknowledge: true,
      silent_at: null,
      quiet_at: null,
      ends_at: null,
      resumed_at: '2026-01-15T12:01:30.000Z',
      breaches: 3,
      first_breach_at: '2026-01-15T12:00:50.000Z',
      last_breach_at: '2026-01-15T12:00:51.000Z',
      enforcement: [
        {
          point: 'docker\u001b[2J',
          state: 'pending',
          attempts: 2,
          confirmed_at: null,
          last_status: 503,
          last_error: 'The receiver answered 503.',
        },
      ],
    },
  ])
  const [, line] = table.split('\n')
  expect(line).toMatch(
    /violated, resumed +4 ms +- +12 ms \(stream\) +20 ms \(ack\) +31 ms \(supervisor\) +- +3 +Leak.* +docker.* pending/,
  )
  expect(line).not.toContain('\u001b')
})

test('a suspension that a rule ends is shown with its end, and one that another one replaced as taken over', () => {
  const times = { stored_at: null, published_at: null, delivered_at: null, acknowledged_at: null, silent_at: null }
  const by = { delivered_by: null, acknowledged_by: null, published_by: null, delivered_process: null, by: 'system' }
  const rest = { by_name: null, quiet_at: null, can_acknowledge: true, first_breach_at: null, last_breach_at: null }
  const held = { enforced_at: null, enforced_by: null, held_processes: null, left_processes: null }
  const cause = {
    rule_id: 'r',
    event_id: null,
    containment_id: null,
    through: null,
    reason: 'Rule',
    breaches: 0,
    enforcement: [],
  }
  const [first, second] = ['2026-01-15T12:00:30.000Z', '2026-01-15T12:01:00.000Z']
  const common = { ...times, ...by, ...rest, ...held, ...cause, state: 'pending' as const }
  const [, newer, older] = suspensionTable([
    { ...common, version: 2, requested_at: second, ends_at: '2026-01-15T12:16:00.000Z', resumed_at: null },
    { ...common, version: 1, requested_at: first, ends_at: '2026-01-15T12:00:50.000Z', resumed_at: second },
  ]).split('\n')
  expect(newer).toContain('pending, until 2026-01-15T12:16:00.000Z')
  expect(older).toContain('pending, taken over')
})
