import { expect, test } from 'vitest'
import { titleOf } from './event-titles.ts'

const event = { event_type: 'honeypot_triggered', by_service: true, source: 'wardline', instance_id: 'bot-1' }

test('the title says what happened if the service itself reported it', () => {
  expect(titleOf(event)).toBe('bot-1 used a decoy')
  expect(titleOf({ ...event, instance_id: null })).toBe('A decoy URL was fetched')
  expect(titleOf({ ...event, event_type: 'kill_unconfirmed' })).toBe('bot-1 has not confirmed its suspension')
  expect(titleOf({ ...event, event_type: 'fleet_outage', instance_id: null })).toBe('Many agents went silent together')
})

// Attack: an agent reports a type of the service to have people believe it.
test('the title of a report by a caller is only its type', () => {
  const reported = { ...event, by_service: false, source: 'bot-1' }
  expect(titleOf({ ...reported, event_type: 'policy_violation' })).toBe('bot-1 reports policy_violation')
  expect(titleOf({ ...reported, event_type: 'kill_confirmed' })).toBe(
    'bot-1 reports kill_confirmed, claimed by a client',
  )
  expect(titleOf({ ...reported, source: 'guard', event_type: 'constructor' })).toBe(
    'bot-1: constructor, reported by another source',
  )
  expect(titleOf({ ...reported, source: 'guard' })).toBe('bot-1: honeypot_triggered, claimed by another source')
  expect(titleOf({ ...reported, instance_id: null })).toBe(
    'An unnamed agent reports honeypot_triggered, claimed by a client',
  )
})
