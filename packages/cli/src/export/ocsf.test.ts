import { expect, test } from 'vitest'
import { sampleEvents } from '../testing/events.ts'
import { toOcsf } from './ocsf.ts'

const golden = {
  plain:
    '{"activity_id":1,"activity_name":"Create","category_uid":2,"category_name":"Findings","class_uid":2004,"class_name":"Detection Finding","type_uid":200401,"type_name":"Detection Finding: Create","time":1795263747770,"severity_id":1,"severity":"Informational","status_id":1,"status":"New","is_alert":false,"message":"Searched the web","metadata":{"version":"1.9.0","product":{"name":"Wardline","vendor_name":"Wardline","version":"1.2.3"},"uid":"01a1fe0e-d6ba-7768-9c2c-6710d562b231","sequence":1,"event_code":"tool_call","log_provider":"support-bot-1","original_time":"2026-11-21T12:22:27.770Z"},"finding_info":{"uid":"01a1fe0e-d6ba-7768-9c2c-6710d562b231","title":"support-bot-1 reports a tool call","desc":"Searched the web","types":["tool_call"],"created_time":1795263747770},"evidences":[{"ai_agent":{"uid":"support-bot-1","instance_uid":"s-81"},"api":{"operation":"web-search"},"src_endpoint":{"ip":"192.0.2.7"}}],"unmapped":{"by_service":false,"metadata":{"toolName":"web-search"}}}',
  bare: '{"activity_id":1,"activity_name":"Create","category_uid":2,"category_name":"Findings","class_uid":2004,"class_name":"Detection Finding","type_uid":200401,"type_name":"Detection Finding: Create","time":1795263747782,"severity_id":3,"severity":"Medium","status_id":1,"status":"New","is_alert":true,"message":"tool_calls_per_5min is 41, usual are 6","metadata":{"version":"1.9.0","product":{"name":"Wardline","vendor_name":"Wardline","version":"1.2.3"},"uid":"01a1fe0e-d6c6-7c3a-8204-c7723118a220","sequence":2,"event_code":"anomaly_detected","log_provider":"wardline","original_time":"2026-11-21T12:22:27.782Z"},"finding_info":{"uid":"01a1fe0e-d6c6-7c3a-8204-c7723118a220","title":"An unnamed agent behaves unusually","desc":"tool_calls_per_5min is 41, usual are 6","types":["anomaly_detected"],"created_time":1795263747782},"unmapped":{"by_service":true,"session_id":"s-9"}}',
  blocked: String.raw`{"activity_id":1,"activity_name":"Create","category_uid":2,"category_name":"Findings","class_uid":2004,"class_name":"Detection Finding","type_uid":200401,"type_name":"Detection Finding: Create","time":1795263747794,"severity_id":5,"severity":"Critical","status_id":1,"status":"New","is_alert":true,"message":"GET https://evil.example/?a=b|c\\d","metadata":{"version":"1.9.0","product":{"name":"Wardline","vendor_name":"Wardline","version":"1.2.3"},"uid":"01a1fe0e-d6d1-75e4-9aa0-4232d19875ae","sequence":3,"event_code":"egress_blocked","log_provider":"proxy","original_time":"2026-11-21T12:22:27.794Z"},"finding_info":{"uid":"01a1fe0e-d6d1-75e4-9aa0-4232d19875ae","title":"billing_1: a blocked connection, reported by another source","desc":"GET https://evil.example/?a=b|c\\d","types":["egress_blocked"],"created_time":1795263747794},"evidences":[{"ai_agent":{"uid":"billing_1"},"api":{"operation":"http-request"},"src_endpoint":{"ip":"2001:db8::7"}}],"unmapped":{"by_service":false,"metadata":{"tool":"http-request","blocked":true}}}`,
  hostile: String.raw`{"activity_id":1,"activity_name":"Create","category_uid":2,"category_name":"Findings","class_uid":2004,"class_name":"Detection Finding","type_uid":200401,"type_name":"Detection Finding: Create","time":1795263747805,"severity_id":6,"severity":"Fatal","status_id":1,"status":"New","is_alert":true,"message":"=HYPERLINK(\"https://evil.example\")\u001b[2J\r\nseverity=info cs1=x | \u202egpj.exe\u009b31m","metadata":{"version":"1.9.0","product":{"name":"Wardline","vendor_name":"Wardline","version":"1.2.3"},"uid":"01a1fe0e-d6dd-77d8-b354-f8e4a8800485","sequence":4,"event_code":"honeypot_triggered","log_provider":"@SUM(1+1)","original_time":"2026-11-21T12:22:27.805Z"},"finding_info":{"uid":"01a1fe0e-d6dd-77d8-b354-f8e4a8800485","title":"support-bot-1: honeypot_triggered, claimed by another source","desc":"=HYPERLINK(\"https://evil.example\")\u001b[2J\r\nseverity=info cs1=x | \u202egpj.exe\u009b31m","types":["honeypot_triggered"],"created_time":1795263747805},"evidences":[{"ai_agent":{"uid":"support-bot-1","instance_uid":"-2+3"},"src_endpoint":{"ip":"192.0.2.7"}}],"unmapped":{"by_service":false,"metadata":{"a=b|c":"x\"y\u001b]0;owned\u0007","nested":{"line":"one\ntwo\u2028three"}}}}`,
}

test.each(Object.entries(golden))('formats the %s event as one Detection Finding', (name, line) => {
  const written = toOcsf(sampleEvents[name as keyof typeof golden], '1.2.3')
  expect(written).toBe(`${line}\n`)
  expect(JSON.parse(written)).toMatchObject({ class_uid: 2004, type_uid: 200401, metadata: { version: '1.9.0' } })
})

// The attributes that OCSF 1.9.0 requires of a Detection Finding and of the objects in it.
test('every event has the required attributes', () => {
  for (const event of Object.values(sampleEvents)) {
    expect(JSON.parse(toOcsf(event, '1.2.3'))).toMatchObject({
      activity_id: 1,
      category_uid: 2,
      severity_id: expect.any(Number),
      time: Date.parse(event.created_at),
      finding_info: { uid: event.id },
      metadata: { product: { name: 'Wardline' } },
    })
  }
})

test('hostile text is escaped, and JSON parsers return it unchanged', () => {
  const { hostile } = sampleEvents
  const line = toOcsf(hostile, '1.2.3')
  expect(JSON.parse(line)).toMatchObject({ message: hostile.description, unmapped: { metadata: hostile.metadata } })
  expect(line.slice(0, -1)).not.toMatch(/\p{Cc}|\u202e|\u2028/u)
})
