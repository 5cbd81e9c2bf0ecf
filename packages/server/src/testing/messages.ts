import { type AlertContext, type DeliveredAlert, type Message, noContext } from '../features/alerts/channels/message.ts'
import { unsetColumns } from './events.ts'

const harmless: DeliveredAlert = {
  ...unsetColumns,
  id: '01a1fe0e-d6d1-75e4-9aa0-4232d19875ae',
  seq: 7,
  severity: 'critical',
  source: 'proxy',
  by_service: false,
  event_type: 'egress_blocked',
  description: 'GET https://evil.example/?a=b|c\\d',
  instance_id: 'billing_1',
  ip_address: '2001:db8::7',
  observed_ip_address: '2001:db8::7',
  metadata: { tool: 'http-request', blocked: true },
  event_seq: 41,
  created_at: 1795263747794,
  instance_name: 'Billing',
  tool: 'http-request',
  decoys: [],
  key: null,
  suspension: { by: 'night shift', at: 1795263740000, reason: 'odd invoices', confirmed: true },
  open: null,
}

/** Control characters, line ends, quotes, field delimiters, hidden and reversed text, four-byte characters. */
const hostile: DeliveredAlert = {
  ...unsetColumns,
  id: '01a1fe0e-d6dd-77d8-b354-f8e4a8800485',
  seq: 8,
  severity: 'breach',
  source: '@SUM(1+1)',
  by_service: false,
  event_type: 'honeypot_triggered',
  description: '=HYPERLINK("https://evil.example")\u001b[2J\r\nseverity=info cs1=x | \u202egpj.exe\u009b31m]\\ 🦊',
  instance_id: 'support-bot-1',
  session_id: '-2+3',
  ip_address: '192.0.2.7',
  observed_ip_address: '192.0.2.7',
  metadata: { 'a=b|c': 'x"y\u001b]0;owned\u0007', nested: { line: 'one\ntwo\u2028three' } },
  event_seq: 42,
  created_at: 1795263747805,
  ...noContext,
  instance_name: 'a|b=c \u001b]0;x\u0007\nmsg=none',
  decoys: [{ id: 'd1', label: 'mail=bot|\nx', type: 'api_key', key_type: 'openai', instance_id: 'support-bot-1' }],
}

/** An alert without an event and without an instance. */
const bare: DeliveredAlert = {
  ...unsetColumns,
  id: '01a1fe0e-d6c6-7c3a-8204-c7723118a220',
  seq: 9,
  severity: 'warning',
  source: 'wardline',
  by_service: true,
  event_type: 'fleet_outage',
  description: '12 of 14 instances fell silent',
  instance_id: null,
  event_seq: null,
  created_at: 1795263747782,
  ...noContext,
}

export const sampleAlerts = { harmless, hostile, bare }

/** Converts a sent row back to an alert: times as numbers, without the fields that only machines get. */
export function readBack({ next, url, created_at, ...rest }: Record<string, unknown>) {
  return { ...rest, created_at: Date.parse(String(created_at)), open: null }
}

const longestContext = (character: string): AlertContext => ({
  instance_name: character.repeat(80),
  tool: character.repeat(100),
  decoys: Array(10).fill({ ...hostile.decoys[0]!, label: character.repeat(200) }),
  key: { id: 'k1', name: character.repeat(100) },
  suspension: { by: character.repeat(100), at: 1795263740000, reason: character.repeat(500), confirmed: false },
  open: null,
})

/** Returns an alert with texts of maximum length, made of `character` where the field allows it. */
export const longestAlert = (character: string): DeliveredAlert => ({
  ...hostile,
  seq: Number.MAX_SAFE_INTEGER,
  event_seq: Number.MAX_SAFE_INTEGER,
  source: character.repeat(100),
  event_type: 'x'.repeat(100),
  description: character.repeat(1_000),
  instance_id: 'x'.repeat(64),
  session_id: character.repeat(200),
  ip_address: '2001:0db8:0000:0000:0000:0000:255.255.255.255',
  observed_ip_address: '2001:0db8:0000:0000:0000:0000:255.255.255.255',
  metadata: { tool: 'x'.repeat(16_000) },
  ...longestContext(character),
})

/** Returns a message about one alert, with `changes` applied. */
export const messageOf = (alert: DeliveredAlert, changes: Partial<Message> = {}): Message => ({
  id: '01a1fe0e-e000-7000-8000-000000000001',
  kind: 'alert',
  created_at: 1795263750000,
  severity: alert.severity,
  title: `${alert.severity}: ${alert.event_type} of ${alert.instance_id ?? 'the fleet'}`,
  group: `${alert.event_type} ${alert.instance_id ?? '-'}`,
  incident: null,
  alerts: [alert],
  more: 0,
  ...changes,
})

const about = (kind: 'test' | 'check', title: string): Message => ({
  ...messageOf(bare),
  kind,
  severity: 'info',
  title,
  group: null,
  alerts: [],
})
export const testMessage = about('test', 'Wardline: a test, asked for by an operator.')
export const checkMessage = about('check', 'Wardline: the daily check of this channel.')

export const sampleSender = {
  deployment: '0123456789abcdef',
  version: '1.2.3',
  publicUrl: 'https://w.example/',
  now: 1795263751999,
}
