import { expect, test } from 'vitest'
import { parseCsv } from '../testing/csv.ts'
import { sampleEntries, sampleEvents } from '../testing/events.ts'
import { exportFormat, exportFormatNames } from './formats.ts'

const golden = {
  plain:
    '{"id":"01a1fe0e-d6ba-7768-9c2c-6710d562b231","seq":1,"severity":"info","source":"support-bot-1","by_service":false,"event_type":"tool_call","description":"Searched the web","instance_id":"support-bot-1","session_id":"s-81","ip_address":"192.0.2.7","observed_ip_address":"192.0.2.7","metadata":{"toolName":"web-search"},"created_at":"2026-11-21T12:22:27.770Z"}',
  bare: '{"id":"01a1fe0e-d6c6-7c3a-8204-c7723118a220","seq":2,"severity":"warning","source":"wardline","by_service":true,"event_type":"anomaly_detected","description":"tool_calls_per_5min is 41, usual are 6","instance_id":null,"session_id":"s-9","ip_address":null,"observed_ip_address":null,"metadata":null,"created_at":"2026-11-21T12:22:27.782Z"}',
  blocked: String.raw`{"id":"01a1fe0e-d6d1-75e4-9aa0-4232d19875ae","seq":3,"severity":"critical","source":"proxy","by_service":false,"event_type":"egress_blocked","description":"GET https://evil.example/?a=b|c\\d","instance_id":"billing_1","session_id":null,"ip_address":"2001:db8::7","observed_ip_address":"2001:db8::7","metadata":{"tool":"http-request","blocked":true},"created_at":"2026-11-21T12:22:27.794Z"}`,
  hostile: String.raw`{"id":"01a1fe0e-d6dd-77d8-b354-f8e4a8800485","seq":4,"severity":"breach","source":"@SUM(1+1)","by_service":false,"event_type":"honeypot_triggered","description":"=HYPERLINK(\"https://evil.example\")\u001b[2J\r\nseverity=info cs1=x | \u202egpj.exe\u009b31m","instance_id":"support-bot-1","session_id":"-2+3","ip_address":"192.0.2.7","observed_ip_address":"192.0.2.7","metadata":{"a=b|c":"x\"y\u001b]0;owned\u0007","nested":{"line":"one\ntwo\u2028three"}},"created_at":"2026-11-21T12:22:27.805Z"}`,
}

test.each(Object.entries(golden))('ndjson formats the %s event as one line of JSON, as in the API', (name, line) => {
  const event = sampleEvents[name as keyof typeof golden]
  const written = exportFormat('ndjson', false).line({ kind: 'event', row: event }, '1.2.3')
  expect(written).toBe(`${line}\n`)
  expect(JSON.parse(written)).toEqual(event)
})

// Exports are also read on terminals, and entries contain texts of compromised agents or careless operators.
test.each(exportFormatNames)('%s contains no terminal control characters', (name) => {
  for (const entry of [{ kind: 'event', row: sampleEvents.hostile } as const, ...sampleEntries]) {
    const written = exportFormat(name, true)
      .line(entry, '1.2.3')
      .replace(/\r?\n$/, '')
    expect(written).not.toMatch(/\p{Cc}|[\u202e\u2028]/u)
  }
})

// A kill is evidence, so no agent may forge one in an export with a reported event.
test.each(exportFormatNames)('%s marks a control entry, and no event can forge the mark', (name) => {
  const [suspend] = sampleEntries
  const { line } = exportFormat(name, true)
  const type = 'control_suspend'
  const forged = { ...sampleEvents.plain, event_type: type, metadata: { kind: 'control', action: 'suspend' } }
  const marks: Record<string, (text: string) => unknown> = {
    ndjson: (text) => JSON.parse(text).kind,
    csv: (text) => parseCsv(text)[0]![13],
    cef: (text) => text.split('|')[4],
    ocsf: (text) => JSON.parse(text).class_uid,
    ecs: (text) => JSON.parse(text).event.dataset,
  }
  const expected = { ndjson: 'control', csv: 'control', cef: 'control.suspend', ocsf: 3004, ecs: 'wardline.control' }
  expect(marks[name]!(line(suspend, '1.2.3'))).toBe(expected[name])
  expect(marks[name]!(line({ kind: 'event', row: forged }, '1.2.3'))).not.toBe(expected[name])
})

test('ndjson formats control and audit entries as in the API, with the kind added to audit entries', () => {
  const { line } = exportFormat('ndjson', true)
  const [suspend, , audit] = sampleEntries
  expect(JSON.parse(line(suspend, '1'))).toEqual(suspend.row)
  expect(JSON.parse(line(audit, '1'))).toEqual({ kind: 'audit', ...audit.row })
})

test('CSV adds the columns of control and audit entries after those of events', () => {
  const [plain, mixed] = [exportFormat('csv', false), exportFormat('csv', true)]
  expect(mixed.head).toBe(
    `${plain.head.trimEnd()},kind,audit_seq,action,target,reason,version,actor,actor_name,scope,before,after,request_id,prev_hash,hash\r\n`,
  )
  const entry = { kind: 'event', row: sampleEvents.bare } as const
  expect(mixed.line(entry, '1')).toBe(`${plain.line(entry, '1').trimEnd()},"event"${',""'.repeat(13)}\r\n`)
  const columns = mixed.head.trimEnd().split(',')
  const [suspend, , audit] = sampleEntries.map((sample) => {
    const [record = []] = parseCsv(mixed.line(sample, '1'))
    expect(record).toHaveLength(columns.length)
    return Object.fromEntries(columns.map((name, index) => [name, record[index]]))
  })
  expect(suspend).toMatchObject({
    id: '',
    seq: '',
    created_at: '2026-11-21T12:23:00.000Z',
    instance_id: 'support-bot-1',
    kind: 'control',
    audit_seq: '57',
    action: 'suspend',
    target: 'support-bot-1',
    version: '3',
    actor: 'k3y1d000',
    actor_name: 'laptop of Ann',
  })
  // An operator's reason may also be opened in a spreadsheet.
  expect(suspend!.reason).toMatch(/^'=HYPERLINK/)
  expect(audit).toMatchObject({ kind: 'audit', action: 'key.create', before: 'null', after: '{"scope":"viewer"}' })
})

test('CEF formats control and audit entries with a name and a severity', () => {
  const { line } = exportFormat('cef', true)
  const [, resume, audit] = sampleEntries
  expect(line(resume, '1.2.3')).toBe(
    'CEF:0|Wardline|Wardline|1.2.3|control.resume|instance resume|5|rt=1795263840000 externalId=audit-58 suid=system cn1Label=audit_seq cn1=58 cat=control act=resume cs1Label=instance cs1=support-bot-1 cn2Label=control_version cn2=4\n',
  )
  expect(line(audit, '1.2.3')).toMatch(
    /^CEF:0\|Wardline\|Wardline\|1\.2\.3\|audit\.key\.create\|key\.create\|2\|rt=.* suid=k3y1d000 suser=laptop of Ann .*cat=audit act=key\.create src=192\.0\.2\.7 cs1Label=target cs1=n3wkey00 /,
  )
})

// The attributes that OCSF 1.9.0 requires of Entity Management, and its activities.
test('OCSF formats control and audit entries as Entity Management', () => {
  const { line } = exportFormat('ocsf', true)
  const written = sampleEntries.map((entry) => JSON.parse(line(entry, '1.2.3')))
  expect(written.map(({ activity_id, activity_name, type_uid }) => [activity_id, activity_name, type_uid])).toEqual([
    [12, 'Suspend', 300412],
    [13, 'Resume', 300413],
    [1, 'Create', 300401],
  ])
  for (const entry of written) {
    expect(entry).toMatchObject({
      category_uid: 3,
      class_uid: 3004,
      severity_id: expect.any(Number),
      time: expect.any(Number),
      entity: { uid: expect.any(String) },
      metadata: { version: '1.9.0', product: { name: 'Wardline' } },
      actor: { user: { uid: expect.any(String) } },
    })
  }
  expect(written[2]).toMatchObject({ src_endpoint: { ip: '192.0.2.7' }, entity: { type: 'key', uid: 'n3wkey00' } })
})

test('ECS formats control and audit entries as configuration changes', () => {
  const { line } = exportFormat('ecs', true)
  const written = sampleEntries.map((entry) => JSON.parse(line(entry, '1.2.3')))
  for (const { event } of written) {
    expect(event).toMatchObject({ kind: 'event', category: ['configuration'], type: ['change'] })
  }
  expect(written.map(({ event }) => [event.dataset, event.action])).toEqual([
    ['wardline.control', 'instance.suspend'],
    ['wardline.control', 'instance.resume'],
    ['wardline.audit', 'key.create'],
  ])
  expect(written[0].user).toEqual({ id: 'k3y1d000', name: 'laptop of Ann' })
  expect(written[1].user).toEqual({ id: 'system' })
})
