import { expect, test } from 'vitest'
import { alertTypes } from './alerts.ts'
import { descriptionOf, isServiceType, titleOf, titleOfProblem } from './event-titles.ts'
import { eventTypes, serviceEventTypes } from './event-types.ts'

const event = { event_type: 'honeypot_triggered', by_service: true, source: 'wardline', instance_id: 'bot-1' }

test('the title says what happened if the service itself reported it', () => {
  expect(titleOf(event)).toBe('bot-1 used a decoy')
  expect(titleOf({ ...event, instance_id: null })).toBe('A decoy was used')
  expect(titleOf({ ...event, event_type: 'kill_unconfirmed' })).toBe('bot-1 has not confirmed its suspension')
  expect(titleOf({ ...event, event_type: 'fleet_outage', instance_id: null })).toBe('Many agents went silent together')
})

// Attack: an agent reports a type of the service to have people believe it.
test('the title of a report by a caller is its type, or a noun for a known one', () => {
  const reported = { ...event, by_service: false, source: 'bot-1' }
  expect(titleOf({ ...reported, event_type: 'policy_violation' })).toBe('bot-1 reports a policy violation')
  expect(titleOf({ ...reported, event_type: 'data_export' })).toBe('bot-1 reports data_export')
  expect(titleOf({ ...reported, source: 'guard', event_type: 'tool_blocked' })).toBe(
    'bot-1: a blocked tool call, reported by another source',
  )
  expect(titleOf({ ...reported, event_type: 'kill_confirmed' })).toBe(
    'bot-1 reports kill_confirmed, claimed by a client',
  )
  expect(titleOf({ ...reported, source: 'guard', event_type: 'constructor' })).toBe(
    'bot-1: constructor, reported by another source',
  )
  expect(titleOf({ ...reported, source: 'otlp', event_type: 'tool_call' })).toBe(
    'bot-1: a tool call, reported by its telemetry',
  )
  expect(titleOf({ ...reported, source: 'guard' })).toBe('bot-1: honeypot_triggered, claimed by another source')
  expect(titleOf({ ...reported, instance_id: null })).toBe(
    'An unnamed agent reports honeypot_triggered, claimed by a client',
  )
})

test('the title of a problem says how many agents have it', () => {
  const instances = ['a', 'b', 'c', 'd']
  const problem = { event_type: 'leak', by_service: false, types: 1, agents: 1_667, instances, source: 'a' }
  expect(titleOfProblem(problem)).toBe('leak on 1,667 agents')
  expect(titleOfProblem(problem, true)).toBe('leak on more than 1,667 agents')
  expect(titleOfProblem({ ...problem, agents: 1 })).toBe('a reports leak')
  expect(titleOfProblem({ ...problem, agents: 0, instances: [] })).toBe('An unnamed agent reports leak')
  expect(titleOfProblem({ ...problem, agents: 1, types: 3_000 })).toBe('a reports 3,000 types of events')
  expect(titleOfProblem({ ...problem, event_type: 'kill_unconfirmed' })).toBe(
    'kill_unconfirmed on 1,667 agents, claimed by clients',
  )
  const own = { ...problem, by_service: true }
  expect(titleOfProblem({ ...own, event_type: 'kill_unconfirmed' })).toBe(
    '1,667 agents have not confirmed their suspension',
  )
  expect(titleOfProblem({ ...own, event_type: 'honeypot_triggered' }, true)).toBe('More than 1,667 agents used a decoy')
  expect(titleOfProblem({ ...own, event_type: 'enforcement_failed' })).toBe(
    'An enforcement point failed for 1,667 agents',
  )
})

const known = [...new Set([...Object.values(eventTypes), ...Object.values(alertTypes)])]

test.each(known)('a person reads what %s means', (event_type) => {
  const isFound = isServiceType(event_type)
  const found = { ...event, event_type }
  // What the service found is not what the agent reports.
  if (isFound) expect(titleOf(found)).not.toMatch(/_| reports (?!again)/)
  else expect(titleOf({ ...found, by_service: false, source: 'bot-1' })).toMatch(/^bot-1 reports [a-z ]+$/)
})

test('each type that only the service reports has a title', () => {
  for (const type of [...serviceEventTypes, ...Object.values(alertTypes)]) expect(isServiceType(type)).toBe(true)
  expect(titleOf({ ...event, event_type: 'of_a_later_version' })).toBe('bot-1: of_a_later_version')
})

test('metrics are described in words', () => {
  const described = (description: string) => descriptionOf({ event_type: 'session_metrics', description })
  expect(described('{"tool_calls_per_5min":12,"tokens":3400.256}')).toBe('tool calls per 5min 12, tokens 3,400.26')
  for (const other of ['{"a":"x"}', 'null', '{}', '7', '[]', 'no JSON', '"text"']) expect(described(other)).toBe(other)
  expect(descriptionOf({ event_type: 'tool_call', description: '{"a":1}' })).toBe('{"a":1}')
})
