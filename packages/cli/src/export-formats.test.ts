import { expect, test } from 'vitest'
import { exportFormatNames, exportFormats } from './export-formats.ts'
import { sampleEvents } from './test-events.ts'

const golden = {
  plain:
    '{"id":"01a1fe0e-d6ba-7768-9c2c-6710d562b231","seq":1,"severity":"info","source":"support-bot-1","event_type":"tool_call","description":"Searched the web","instance_id":"support-bot-1","session_id":"s-81","metadata":{"toolName":"web-search"},"ip_address":"192.0.2.7","created_at":"2026-11-21T12:22:27.770Z"}',
  bare: '{"id":"01a1fe0e-d6c6-7c3a-8204-c7723118a220","seq":2,"severity":"warning","source":"wardline","event_type":"anomaly_detected","description":"tool_calls_per_5min is 41, usual are 6","instance_id":null,"session_id":"s-9","metadata":null,"ip_address":null,"created_at":"2026-11-21T12:22:27.782Z"}',
  blocked: String.raw`{"id":"01a1fe0e-d6d1-75e4-9aa0-4232d19875ae","seq":3,"severity":"critical","source":"proxy","event_type":"egress_blocked","description":"GET https://evil.example/?a=b|c\\d","instance_id":"billing_1","session_id":null,"metadata":{"tool":"http-request","blocked":true},"ip_address":"2001:db8::7","created_at":"2026-11-21T12:22:27.794Z"}`,
  hostile: String.raw`{"id":"01a1fe0e-d6dd-77d8-b354-f8e4a8800485","seq":4,"severity":"breach","source":"@SUM(1+1)","event_type":"honeypot_triggered","description":"=HYPERLINK(\"https://evil.example\")\u001b[2J\r\nseverity=info cs1=x | \u202egpj.exe\u009b31m","instance_id":"support-bot-1","session_id":"-2+3","metadata":{"a=b|c":"x\"y\u001b]0;owned\u0007","nested":{"line":"one\ntwo\u2028three"}},"ip_address":"192.0.2.7","created_at":"2026-11-21T12:22:27.805Z"}`,
}

test.each(Object.entries(golden))('writes the %s event as it is listed, one JSON a line', (name, line) => {
  const event = sampleEvents[name as keyof typeof golden]
  const written = exportFormats.ndjson.line(event)
  expect(written).toBe(`${line}\n`)
  expect(JSON.parse(written)).toEqual(event)
})

// An export is read on a terminal too, and events hold what a taken-over agent wrote.
test('writes no character that a terminal obeys, in any format', () => {
  for (const format of exportFormatNames) {
    const written = exportFormats[format].line(sampleEvents.hostile, '1.2.3').replace(/\r?\n$/, '')
    expect(written, format).not.toMatch(/\p{Cc}|[\u202e\u2028]/u)
  }
})
