import { expect, test } from 'vitest'
import { eventLine } from '../packages/cli/src/events/event-text.ts'
import { alertTypes, eventTypes, type Severity, type StreamedRow, titleOf } from '../packages/contract/src/index.ts'
import type { DeliveredAlert } from '../packages/server/src/features/alerts/channels/message.ts'
import { composeMessage } from '../packages/server/src/features/alerts/planning/compose.ts'

const at = '2026-11-21T12:22:27.770Z'
const known = [...new Set([...Object.values(eventTypes), ...Object.values(alertTypes), 'data_export'])]

const rowOf = (event_type: string, by_service: boolean, instance_id: string | null): StreamedRow => ({
  seq: 1,
  id: '01a1fe0e-d6ba-7768-9c2c-6710d562b231',
  created_at: at,
  severity: 'critical' satisfies Severity,
  source: by_service ? 'wardline' : 'pay-1',
  by_service,
  event_type,
  description: 'What happened',
  instance_id,
  session_id: null,
  ip_address: null,
  observed_ip_address: null,
  metadata: null,
})

function messageOf(row: StreamedRow): string {
  const alert = { ...row, created_at: Date.parse(at) } as unknown as DeliveredAlert
  return composeMessage({ kind: 'alert', now: Date.parse(at), group: 'a group', alerts: [alert], count: 1 }).title
}

// A person reads of the same event on the page, in chat and in a terminal, and must recognize it.
test.each(known)('%s has the title of the dashboard in messages and on the command line', (event_type) => {
  for (const [by_service, agent] of [
    [true, 'pay-1'],
    [true, null],
    [false, 'pay-1'],
    [false, null],
  ] as const) {
    const row = rowOf(event_type, by_service, agent)
    const title = titleOf(row)
    expect(messageOf(row)).toBe(`Critical: ${title}`)
    expect(eventLine(row)).toContain(`critical  ${title}  `)
  }
})
