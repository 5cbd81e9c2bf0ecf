import { expect, test } from 'vitest'
import type { Row } from '../data/live-tail.ts'
import { sessionsOf } from '../parts/sessions.ts'
import { anomalyMetric, metricsOf } from './reports.ts'

let seq = 0
const row = (fields: Partial<Row>): Row =>
  ({
    id: `id-${++seq}`,
    seq,
    severity: 'info',
    by_service: false,
    event_type: 'tool_call',
    description: 'd',
    session_id: 's',
    metadata: null,
    created_at: new Date(Date.UTC(2026, 10, 22, 10, 0, seq)).toISOString(),
    ...fields,
  }) as Row

test('only a report of the service counts as an anomaly', () => {
  const event = { by_service: true, event_type: 'anomaly_detected', metadata: { metric: 'shell_exec_count' } }
  expect(anomalyMetric(row(event))).toBe('shell_exec_count')
  // A caller may report this type too, but nothing has verified it.
  expect(anomalyMetric(row({ ...event, by_service: false }))).toBeUndefined()
  expect(anomalyMetric(row({ ...event, metadata: { metric: 7 } }))).toBeUndefined()
  expect(anomalyMetric(row({ ...event, metadata: null }))).toBeUndefined()
})

test('reads metrics, oldest first, from session_metrics reports only', () => {
  const reports = ['{"a":1,"b":"x"}', 'no JSON', 'null', '{"a":2.5}'].map((description) => row({ description }))
  const metrics = metricsOf(reports.toReversed())
  expect([...metrics.keys()]).toEqual(['a'])
  expect(metrics.get('a')!.map(({ value }) => value)).toEqual([1, 2.5])
})

test('groups a session into inputs, calls by tool, and outcome', () => {
  const rows = [
    row({ event_type: 'user_prompt', description: 'Refund order 7' }),
    row({ metadata: { toolName: 'web-search' } }),
    row({ metadata: { toolName: 'shell-exec' } }),
    row({ metadata: { toolName: 'shell-exec' } }),
    row({ severity: 'warning', event_type: 'egress_blocked' }),
    row({ session_id: null }),
    row({ session_id: 'other', event_type: 'prompt_injection_detected', severity: 'critical' }),
  ].toReversed()
  const [other, session] = sessionsOf(rows)
  expect(other).toMatchObject({ id: 'other', inputs: [], blocked: 1 })
  expect(session).toMatchObject({
    id: 's',
    events: 5,
    blocked: 1,
    calls: [
      ['shell-exec', 2],
      ['web-search', 1],
    ],
  })
  expect(session!.inputs.map(({ description }) => description)).toEqual(['Refund order 7'])
  expect(session!.worst?.event_type).toBe('egress_blocked')
})
