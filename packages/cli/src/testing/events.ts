import { type AuditEntry, type ControlChange, type EventColumn, type EventRow, eventColumns } from '@wardline/contract'

/** Every column of an event, unset. */
export const unsetColumns = Object.fromEntries(eventColumns.map((name) => [name, null])) as Record<EventColumn, null>

/** Sample events for all export formats, harmless and hostile. */
const plain: EventRow = {
  ...unsetColumns,
  id: '01a1fe0e-d6ba-7768-9c2c-6710d562b231',
  seq: 1,
  severity: 'info',
  source: 'support-bot-1',
  by_service: false,
  event_type: 'tool_call',
  description: 'Searched the web',
  instance_id: 'support-bot-1',
  session_id: 's-81',
  metadata: { toolName: 'web-search' },
  ip_address: '192.0.2.7',
  observed_ip_address: '192.0.2.7',
  created_at: '2026-11-21T12:22:27.770Z',
}

const bare: EventRow = {
  ...unsetColumns,
  id: '01a1fe0e-d6c6-7c3a-8204-c7723118a220',
  seq: 2,
  severity: 'warning',
  source: 'wardline',
  by_service: true,
  event_type: 'anomaly_detected',
  description: 'tool_calls_per_5min is 41, usual are 6',
  session_id: 's-9',
  created_at: '2026-11-21T12:22:27.782Z',
}

const blocked: EventRow = {
  ...unsetColumns,
  id: '01a1fe0e-d6d1-75e4-9aa0-4232d19875ae',
  seq: 3,
  severity: 'critical',
  source: 'proxy',
  by_service: false,
  event_type: 'egress_blocked',
  description: 'GET https://evil.example/?a=b|c\\d',
  instance_id: 'billing_1',
  metadata: { tool: 'http-request', blocked: true },
  ip_address: '2001:db8::7',
  observed_ip_address: '2001:db8::7',
  created_at: '2026-11-21T12:22:27.794Z',
}

const hostile: EventRow = {
  ...unsetColumns,
  id: '01a1fe0e-d6dd-77d8-b354-f8e4a8800485',
  seq: 4,
  severity: 'breach',
  source: '@SUM(1+1)',
  by_service: false,
  event_type: 'honeypot_triggered',
  description: '=HYPERLINK("https://evil.example")\u001b[2J\r\nseverity=info cs1=x | \u202egpj.exe\u009b31m',
  instance_id: 'support-bot-1',
  session_id: '-2+3',
  metadata: { 'a=b|c': 'x"y\u001b]0;owned\u0007', nested: { line: 'one\ntwo\u2028three' } },
  ip_address: '192.0.2.7',
  observed_ip_address: '192.0.2.7',
  created_at: '2026-11-21T12:22:27.805Z',
}

export const sampleEvents = { plain, bare, blocked, hostile }

const suspend: ControlChange = {
  kind: 'control',
  seq: 57,
  at: '2026-11-21T12:23:00.000Z',
  instance_id: 'support-bot-1',
  action: 'suspend',
  reason: '=HYPERLINK("https://evil.example")\u001b[2J\r\nact=resume cs1=x | \u202egpj.exe',
  version: 3,
  actor: 'k3y1d000',
  actor_name: 'laptop of Ann',
}

const resume: ControlChange = {
  ...suspend,
  seq: 58,
  at: '2026-11-21T12:24:00.000Z',
  action: 'resume',
  reason: null,
  version: 4,
  actor: 'system',
  actor_name: null,
}

const audit: AuditEntry = {
  seq: 59,
  at: '2026-11-21T12:25:00.000Z',
  actor: 'k3y1d000',
  actor_name: 'laptop of Ann',
  scope: 'admin',
  ip: '192.0.2.7',
  action: 'key.create',
  target: 'n3wkey00',
  before: null,
  after: { scope: 'viewer' },
  reason: null,
  request_id: 'req-1',
  prev_hash: '0'.repeat(64),
  hash: 'f'.repeat(64),
}

/** A kill with a hostile reason, a resume by the service itself, and an audit entry. */
export const sampleEntries = [
  { kind: 'control', row: suspend },
  { kind: 'control', row: resume },
  { kind: 'audit', row: audit },
] as const
