import { expect, test } from 'vitest'
import { suspensionTable } from './suspensions.ts'

test('a suspension is shown with milliseconds until each stage, and - for stages not observed', () => {
  const requested_at = '2026-01-15T12:00:30.000Z'
  const none = { rule_id: null, event_id: null, containment_id: null, published_by: null, delivered_process: null }
  const table = suspensionTable([
    {
      ...none,
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
  expect(line).toMatch(/violated, resumed +4 ms +- +12 ms \(stream\) +20 ms \(ack\) +- +3 +Leak.* +docker.* pending/)
  expect(line).not.toContain('\u001b')
})
