import fc from 'fast-check'
import { expect, test } from 'vitest'
import { anyCharacter } from '../../../../test-servers/any-character.ts'
import { parseCsv } from '../testing/csv.ts'
import { sampleEvents } from '../testing/events.ts'
import { csvHead, toCsv } from './csv.ts'

const golden = {
  plain:
    '"01a1fe0e-d6ba-7768-9c2c-6710d562b231","1","2026-11-21T12:22:27.770Z","info","tool_call","support-bot-1","s-81","support-bot-1","Searched the web","192.0.2.7","{""toolName"":""web-search""}","false","192.0.2.7"',
  bare: '"01a1fe0e-d6c6-7c3a-8204-c7723118a220","2","2026-11-21T12:22:27.782Z","warning","anomaly_detected","","s-9","wardline","tool_calls_per_5min is 41, usual are 6","","","true",""',
  blocked: String.raw`"01a1fe0e-d6d1-75e4-9aa0-4232d19875ae","3","2026-11-21T12:22:27.794Z","critical","egress_blocked","billing_1","","proxy","GET https://evil.example/?a=b|c\d","2001:db8::7","{""tool"":""http-request"",""blocked"":true}","false","2001:db8::7"`,
  hostile: String.raw`"01a1fe0e-d6dd-77d8-b354-f8e4a8800485","4","2026-11-21T12:22:27.805Z","breach","honeypot_triggered","support-bot-1","'-2+3","'@SUM(1+1)","'=HYPERLINK(""https://evil.example"") [2J severity=info cs1=x |  gpj.exe 31m","192.0.2.7","{""a=b|c"":""x\""y\u001b]0;owned\u0007"",""nested"":{""line"":""one\ntwo\u2028three""}}","false","192.0.2.7"`,
}

test.each(Object.entries(golden))('formats the %s event as one quoted record', (name, line) => {
  const row = sampleEvents[name as keyof typeof golden]
  expect(toCsv({ kind: 'event', row })).toBe(`${line}\r\n`)
})

test('the first line contains the names of the columns', () => {
  expect(csvHead).toBe(
    'id,seq,created_at,severity,event_type,instance_id,session_id,source,description,ip_address,metadata,by_service,observed_ip_address\r\n',
  )
})

// An agent could describe its event with a formula, which a spreadsheet runs when the export is opened.
test('texts become no formula, field or record', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string({ unit: anyCharacter }),
        fc
          .tuple(fc.constantFrom('=', '+', '-', '@', '\t', '\r', '＝', ' =', '\u200b=', '\u001b@'), fc.string())
          .map(([start, rest]) => start + rest),
      ),
      (text) => {
        const row = { ...sampleEvents.plain, description: text, source: text, session_id: text }
        const record = toCsv({ kind: 'event', row })
        const records = parseCsv(record)
        expect(records.map((fields) => fields.length)).toEqual([13])
        expect(records.flat().filter((field) => /^[=+\-@\t\r\n＝＋－＠]/u.test(field))).toEqual([])
        expect(record.slice(0, -2)).not.toMatch(/\p{Cc}/u)
      },
    ),
  )
})
