import fc from 'fast-check'
import { expect, test } from 'vitest'
import { sampleEvents } from '../testing/events.ts'
import { toCef } from './cef.ts'

const golden = {
  plain:
    'CEF:0|Wardline|Wardline|1.2.3|tool_call|tool call|2|rt=1795263747770 externalId=01a1fe0e-d6ba-7768-9c2c-6710d562b231 cat=info msg=Searched the web src=192.0.2.7 cs1Label=instance cs1=support-bot-1 cs2Label=session cs2=s-81 cs3Label=source cs3=support-bot-1 cs4Label=tool cs4=web-search cs5Label=metadata cs5={"toolName":"web-search"} cs6Label=by_service cs6=false cn1Label=seq cn1=1',
  bare: 'CEF:0|Wardline|Wardline|1.2.3|anomaly_detected|anomaly detected|5|rt=1795263747782 externalId=01a1fe0e-d6c6-7c3a-8204-c7723118a220 cat=warning msg=tool_calls_per_5min is 41, usual are 6 cs2Label=session cs2=s-9 cs3Label=source cs3=wardline cs6Label=by_service cs6=true cn1Label=seq cn1=2',
  blocked: String.raw`CEF:0|Wardline|Wardline|1.2.3|egress_blocked|egress blocked|8|rt=1795263747794 externalId=01a1fe0e-d6d1-75e4-9aa0-4232d19875ae cat=critical msg=GET https://evil.example/?a\=b|c\\d act=blocked c6a2Label=Source IPv6 Address c6a2=2001:db8::7 cs1Label=instance cs1=billing_1 cs3Label=source cs3=proxy cs4Label=tool cs4=http-request cs5Label=metadata cs5={"tool":"http-request","blocked":true} cs6Label=by_service cs6=false cn1Label=seq cn1=3`,
  hostile: String.raw`CEF:0|Wardline|Wardline|1.2.3|honeypot_triggered|honeypot triggered|10|rt=1795263747805 externalId=01a1fe0e-d6dd-77d8-b354-f8e4a8800485 cat=breach msg=\=HYPERLINK("https://evil.example") [2J\nseverity\=info cs1\=x |  gpj.exe 31m src=192.0.2.7 cs1Label=instance cs1=support-bot-1 cs2Label=session cs2=-2+3 cs3Label=source cs3=@SUM(1+1) cs5Label=metadata cs5={"a\=b|c":"x\\"y\\u001b]0;owned\\u0007","nested":{"line":"one\\ntwo\\u2028three"}} cs6Label=by_service cs6=false cn1Label=seq cn1=4`,
}

test.each(Object.entries(golden))('formats the %s event as one line', (name, line) => {
  expect(toCef(sampleEvents[name as keyof typeof golden], '1.2.3')).toBe(`${line}\n`)
})

/** Parses a line like a receiver: seven header fields, then pairs whose keys precede an unescaped `=`. */
function parseCef(line: string): { header: string[]; pairs: Record<string, string> } {
  const parts = line.split(/(?<=(?<!\\)(?:\\\\)*)\|/)
  const text = parts.slice(7).join('|')
  const keys = [...text.matchAll(/(?:^| )(\w+)=/g)]
  const pairs = keys.map((key, index) => {
    const value = text.slice(key.index + key[0].length, keys[index + 1]?.index)
    return [key[1]!, value.replaceAll(/\\(.)/g, (_, character: string) => (character === 'n' ? '\n' : character))]
  })
  return { header: parts.slice(0, 7), pairs: Object.fromEntries(pairs) }
}

const sentKeys = Object.keys(parseCef(golden.plain).pairs)

// An agent could write `severity=info` or a line break into its description to make the receiver read another event.
test('texts add no pair, header field or line', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom('\\', '|', '=', '\n', '\r', ' ', 'a', 'cs1=', '\u001b', '🦊') }),
      (text) => {
        const line = toCef(
          {
            ...sampleEvents.plain,
            description: text,
            source: text,
            event_type: text,
            metadata: { [text]: text, toolName: 'x' },
          },
          '1.2.3',
        )
        expect(line.slice(0, -1)).not.toMatch(/\p{Cc}/u)
        const { header, pairs } = parseCef(line.slice(0, -1))
        expect(header.slice(0, 4)).toEqual(['CEF:0', 'Wardline', 'Wardline', '1.2.3'])
        expect(header[6]).toBe('2')
        expect(Object.keys(pairs)).toEqual(sentKeys)
      },
    ),
  )
})

test('severities are mapped to low, medium, high and very high of CEF', () => {
  const grades = (['info', 'warning', 'critical', 'breach'] as const).map((severity) =>
    Number(toCef({ ...sampleEvents.bare, severity }, '1').split('|')[6]),
  )
  expect(grades).toEqual([2, 5, 8, 10])
})

test('metadata is truncated to the maximum length of a custom string', () => {
  const line = toCef({ ...sampleEvents.bare, metadata: { text: 'x'.repeat(16_000) } }, '1')
  expect(parseCef(line.trimEnd()).pairs.cs5).toHaveLength(4_000)
})
