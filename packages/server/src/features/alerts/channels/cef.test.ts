import fc from 'fast-check'
import { expect, test } from 'vitest'
import { checkMessage, messageOf, sampleAlerts, sampleSender, testMessage } from '../../../testing/messages.ts'
import { toCef } from './cef.ts'
import { contextOf, rowOf } from './machine-row.ts'
import type { DeliveredAlert, Message } from './message.ts'

const cefOf = (alert: DeliveredAlert): string => {
  const message = messageOf(alert)
  return toCef(message, { ...rowOf(alert), ...contextOf(alert, message, sampleSender) }, '1.2.3')
}

const golden = {
  harmless: String.raw`CEF:0|Wardline|Wardline|1.2.3|egress_blocked|egress blocked|8|rt=1795263747794 externalId=01a1fe0e-d6d1-75e4-9aa0-4232d19875ae cat=critical msg=GET https://evil.example/?a\=b|c\\d act=blocked c6a2Label=Source IPv6 Address c6a2=2001:db8::7 cs1Label=instance cs1=billing_1 cs3Label=source cs3=proxy cs4Label=tool cs4=http-request cs5Label=metadata cs5={"tool":"http-request","blocked":true} cs6Label=by_service cs6=false cn1Label=seq cn1=7 cn2Label=event_seq cn2=41 sourceServiceName=Billing flexString2Label=done flexString2=suspended by night shift at 2026-11-21T12:22:20.000Z request=https://w.example/alerts?alert\=01a1fe0e-d6d1-75e4-9aa0-4232d19875ae`,
  hostile: String.raw`CEF:0|Wardline|Wardline|1.2.3|honeypot_triggered|honeypot triggered|10|rt=1795263747805 externalId=01a1fe0e-d6dd-77d8-b354-f8e4a8800485 cat=breach msg=\=HYPERLINK("https://evil.example") [2J\nseverity\=info cs1\=x |  gpj.exe 31m]\\ 🦊 src=192.0.2.7 cs1Label=instance cs1=support-bot-1 cs2Label=session cs2=-2+3 cs3Label=source cs3=@SUM(1+1) cs5Label=metadata cs5={"a\=b|c":"x\\"y\\u001b]0;owned\\u0007","nested":{"line":"one\\ntwo\\u2028three"}} cs6Label=by_service cs6=false cn1Label=seq cn1=8 cn2Label=event_seq cn2=42 sourceServiceName=a|b\=c  ]0;x\nmsg\=none flexString1Label=decoy flexString1=mail\=bot| x request=https://w.example/alerts?alert\=01a1fe0e-d6dd-77d8-b354-f8e4a8800485`,
  bare: 'CEF:0|Wardline|Wardline|1.2.3|fleet_outage|fleet outage|5|rt=1795263747782 externalId=01a1fe0e-d6c6-7c3a-8204-c7723118a220 cat=warning msg=12 of 14 instances fell silent cs3Label=source cs3=wardline cs6Label=by_service cs6=true cn1Label=seq cn1=9 request=https://w.example/alerts?alert\\=01a1fe0e-d6c6-7c3a-8204-c7723118a220',
}
test.each(Object.entries(golden))('the %s alert has the expected CEF line', (name, line) => {
  expect(cefOf(sampleAlerts[name as keyof typeof golden])).toBe(line)
})

test('a test and a check have no fields of an event', () => {
  const lines = [testMessage, checkMessage].map((message: Message) => toCef(message, { title: message.title }, '1.2.3'))
  expect(lines).toEqual([
    'CEF:0|Wardline|Wardline|1.2.3|channel.test|channel.test|2|rt=1795263750000 externalId=01a1fe0e-e000-7000-8000-000000000001 cat=info msg=Wardline: a test, asked for by an operator.',
    'CEF:0|Wardline|Wardline|1.2.3|channel.check|channel.check|2|rt=1795263750000 externalId=01a1fe0e-e000-7000-8000-000000000001 cat=info msg=Wardline: the daily check of this channel.',
  ])
})

/** Parses a line like a strict receiver. Throws if the line violates the format. */
function parseCef(line: string): { header: string[]; pairs: Map<string, string> } {
  const header = /^CEF:0((?:\|(?:[^|\\]|\\[|\\])*){6})\|(.*)$/u.exec(line)
  if (header === null) throw new Error('The header is not one of CEF.')
  const fields = [...header[1]!.matchAll(/\|((?:[^|\\]|\\.)*)/gu)].map(([, field]) =>
    field!.replaceAll(/\\(.)/gu, '$1'),
  )
  const pairs = new Map<string, string>()
  let rest = header[2]!
  while (rest !== '') {
    const pair = /^(\w+)=((?:[^=\\]|\\[=\\nr])*?)(?:$| (?=\w+=))/u.exec(rest)
    if (pair === null || pairs.has(pair[1]!)) throw new Error(`The extension does not go on with a new pair: ${rest}`)
    const value = pair[2]!.replaceAll(/\\(.)/gu, (_, character: string) => (character === 'n' ? '\n' : character))
    pairs.set(pair[1]!, value)
    rest = rest.slice(pair[0].length)
  }
  return { header: fields, pairs }
}

const harmfulText = fc.string({
  unit: fc.constantFrom(
    '\\',
    '|',
    '=',
    '\n',
    '\r',
    '\r\n',
    ' ',
    'a',
    'cs1=',
    '\u001b',
    '\u2028',
    '\u202e',
    '🦊',
    '\ud800',
  ),
})

// An agent could write `severity=info` or a line break into its description to forge fields or another event.
test('no text adds a pair, a header field or a line', () => {
  const sentKeys = [...parseCef(cefOf({ ...sampleAlerts.hostile, metadata: { tool: 'x' } })).pairs.keys()]
  fc.assert(
    fc.property(harmfulText, (text) => {
      const texts = {
        description: text,
        source: text,
        session_id: text,
        instance_name: `x${text}x`,
        metadata: { [text]: text, tool: 'x' },
      }
      const line = cefOf({ ...sampleAlerts.hostile, ...texts, event_type: text })
      expect(line).not.toMatch(/[\p{Cc}\u2028\u2029\u202e]/u)
      const { header, pairs } = parseCef(line)
      expect(header.slice(0, 3)).toEqual(['Wardline', 'Wardline', '1.2.3'])
      expect(header[5]).toBe('10')
      expect([...pairs.keys()].filter((key) => key !== 'act')).toEqual(sentKeys)
    }),
  )
})

const shownText = fc
  .string({ unit: fc.constantFrom('\\', '|', '=', '\n', 'n', ' ', 'a', 'cs1=', '"', ']', 'é', '🦊', 'e\u0301') })
  .map((text) =>
    text
      .split('\n')
      .map((line) => line.trim())
      .join('\n'),
  )

test('a receiver parses every text unchanged, except controls and surrounding spaces', () => {
  fc.assert(
    fc.property(shownText, shownText, (text, other) => {
      const metadata = { [other]: text }
      const alert = { ...sampleAlerts.harmless, description: text, source: other, session_id: text, metadata }
      const { header, pairs } = parseCef(cefOf({ ...alert, event_type: other.replaceAll('\n', ' ').trim() }))
      expect(header[3]).toBe(other.replaceAll('\n', ' ').trim())
      expect([pairs.get('msg'), pairs.get('cs2'), pairs.get('cs3')]).toEqual([text, text, other])
      expect(JSON.parse(pairs.get('cs5')!)).toEqual(metadata)
    }),
  )
})

test('severities map to low, medium, high and very high of CEF', () => {
  const grades = (['info', 'warning', 'critical', 'breach'] as const).map((severity) =>
    Number(cefOf({ ...sampleAlerts.bare, severity }).split('|')[6]),
  )
  expect(grades).toEqual([2, 5, 8, 10])
})

test('metadata is cut at the maximum length of a custom string', () => {
  const { pairs } = parseCef(cefOf({ ...sampleAlerts.bare, metadata: { text: '🦊'.repeat(4_000) } }))
  expect(Array.from(pairs.get('cs5')!)).toHaveLength(4_000)
  expect(pairs.get('cs5')).toMatch(/🦊…$/u)
})
