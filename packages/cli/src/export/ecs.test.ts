import { expect, test } from 'vitest'
import { sampleEvents } from '../testing/events.ts'
import { toEcs } from './ecs.ts'

const golden = {
  plain: String.raw`{"@timestamp":"2026-11-21T12:22:27.770Z","ecs":{"version":"9.1.0"},"message":"Searched the web","event":{"id":"01a1fe0e-d6ba-7768-9c2c-6710d562b231","sequence":1,"kind":"event","category":["api"],"type":["access"],"action":"tool_call","severity":21,"module":"wardline","dataset":"wardline.events","provider":"support-bot-1"},"observer":{"vendor":"Wardline","product":"Wardline","type":"agent-monitor","version":"1.2.3"},"gen_ai":{"agent":{"id":"support-bot-1"},"tool":{"name":"web-search"}},"source":{"ip":"192.0.2.7"},"related":{"ip":["192.0.2.7"]},"wardline":{"severity":"info","by_service":false,"session_id":"s-81","metadata":"{\"toolName\":\"web-search\"}"}}`,
  bare: `{"@timestamp":"2026-11-21T12:22:27.782Z","ecs":{"version":"9.1.0"},"message":"tool_calls_per_5min is 41, usual are 6","event":{"id":"01a1fe0e-d6c6-7c3a-8204-c7723118a220","sequence":2,"kind":"alert","category":["intrusion_detection"],"type":["info"],"action":"anomaly_detected","severity":47,"module":"wardline","dataset":"wardline.events","provider":"wardline"},"observer":{"vendor":"Wardline","product":"Wardline","type":"agent-monitor","version":"1.2.3"},"rule":{"name":"anomaly_detected"},"wardline":{"severity":"warning","by_service":true,"session_id":"s-9"}}`,
  blocked: String.raw`{"@timestamp":"2026-11-21T12:22:27.794Z","ecs":{"version":"9.1.0"},"message":"GET https://evil.example/?a=b|c\\d","event":{"id":"01a1fe0e-d6d1-75e4-9aa0-4232d19875ae","sequence":3,"kind":"alert","category":["intrusion_detection"],"type":["denied"],"action":"egress_blocked","severity":73,"module":"wardline","dataset":"wardline.events","provider":"proxy"},"observer":{"vendor":"Wardline","product":"Wardline","type":"agent-monitor","version":"1.2.3"},"rule":{"name":"egress_blocked"},"gen_ai":{"agent":{"id":"billing_1"},"tool":{"name":"http-request"}},"source":{"ip":"2001:db8::7"},"related":{"ip":["2001:db8::7"]},"wardline":{"severity":"critical","by_service":false,"metadata":"{\"tool\":\"http-request\",\"blocked\":true}"}}`,
  hostile: String.raw`{"@timestamp":"2026-11-21T12:22:27.805Z","ecs":{"version":"9.1.0"},"message":"=HYPERLINK(\"https://evil.example\")\u001b[2J\r\nseverity=info cs1=x | \u202egpj.exe\u009b31m","event":{"id":"01a1fe0e-d6dd-77d8-b354-f8e4a8800485","sequence":4,"kind":"alert","category":["intrusion_detection"],"type":["info"],"action":"honeypot_triggered","severity":99,"module":"wardline","dataset":"wardline.events","provider":"@SUM(1+1)"},"observer":{"vendor":"Wardline","product":"Wardline","type":"agent-monitor","version":"1.2.3"},"rule":{"name":"honeypot_triggered"},"gen_ai":{"agent":{"id":"support-bot-1"}},"source":{"ip":"192.0.2.7"},"related":{"ip":["192.0.2.7"]},"wardline":{"severity":"breach","by_service":false,"session_id":"-2+3","metadata":"{\"a=b|c\":\"x\\\"y\\u001b]0;owned\\u0007\",\"nested\":{\"line\":\"one\\ntwo\\u2028three\"}}"}}`,
}

test.each(Object.entries(golden))('formats the %s event as one document', (name, line) => {
  const written = toEcs(sampleEvents[name as keyof typeof golden], '1.2.3')
  expect(written).toBe(`${line}\n`)
  expect(JSON.parse(written)).toMatchObject({ ecs: { version: '9.1.0' }, event: { module: 'wardline' } })
})

// Allowed values: https://www.elastic.co/docs/reference/ecs/ecs-category-field-values-reference
test('events have only categories and types that ECS allows in combination', () => {
  const expected: Record<string, string[]> = {
    api: ['access', 'admin', 'allowed', 'change', 'creation', 'deletion', 'denied', 'end', 'info', 'start', 'user'],
    intrusion_detection: ['allowed', 'denied', 'info'],
  }
  for (const event of Object.values(sampleEvents)) {
    const { event: described } = JSON.parse(toEcs(event, '1')) as {
      event: { kind: string; category?: string[]; type: string[] }
    }
    expect(['alert', 'event']).toContain(described.kind)
    for (const category of described.category ?? [])
      expect(expected[category]).toEqual(expect.arrayContaining(described.type))
  }
})

// Otherwise an agent that invents names in its metadata could fill the mapping of the index.
test('metadata is one text field', () => {
  const { wardline } = JSON.parse(toEcs(sampleEvents.hostile, '1')) as { wardline: { metadata: string } }
  expect(JSON.parse(wardline.metadata)).toEqual(sampleEvents.hostile.metadata)
})
