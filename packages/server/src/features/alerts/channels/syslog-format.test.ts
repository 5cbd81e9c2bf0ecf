import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parseSyslog, splitFrames } from '../../../testing/syslog.ts'
import { type SyslogParts, syslogFrame, syslogMessage } from './syslog.ts'

const parts: SyslogParts = {
  severity: 'alert',
  at: 1795263747805,
  host: 'wardline-0123456789abcdef',
  type: 'honeypot_triggered',
  data: { id: '7', instance_id: null, severity: 'breach' },
  text: '{"a":"ü"}',
}

test('a message has the format of RFC 5424', () => {
  expect(syslogMessage(parts)).toBe(
    '<105>1 2026-11-21T12:22:27.805Z wardline-0123456789abcdef wardline - honeypot_triggered [wardline@32473 id="7" severity="breach"] \ufeff{"a":"ü"}',
  )
})

test('the priority consists of facility 13 and the severity', () => {
  const priorities = (['alert', 'critical', 'warning', 'info'] as const).map(
    (severity) => syslogMessage({ ...parts, severity }).split('>')[0],
  )
  expect(priorities).toEqual(['<105', '<106', '<108', '<110'])
})

test('a frame counts octets, not characters', () => {
  expect(syslogFrame('<1>1 - - - - - - \ufeffü🦊')).toBe('26 <1>1 - - - - - - \ufeffü🦊')
})

test('any type becomes at most 32 printable characters', () => {
  const idOf = (type: string) => parseSyslog(syslogMessage({ ...parts, type })).type
  expect(idOf('x'.repeat(100))).toBe('x'.repeat(32))
  expect(idOf('two words\n🦊')).toBe('two_words___')
  expect(idOf('')).toBe('-')
})

const anyText = fc.string({
  unit: fc.constantFrom(
    '"',
    '\\',
    ']',
    '[',
    '=',
    ' ',
    '\n',
    '\r',
    'a',
    '\u001b',
    '\u2028',
    '\u202e',
    '🦊',
    '\ud800',
    '] <13>1 ',
  ),
})

// A text that ends its field could forge other fields of the message, or another message in the receiver's log.
test('no text ends its parameter, its message or its frame', () => {
  fc.assert(
    fc.property(anyText, anyText, (text, next) => {
      const data = { first: text, second: next, third: 'x' }
      const messages = [text, next].map((type) => syslogMessage({ ...parts, type, host: text, data, text: 'z' }))
      const frames = splitFrames(Buffer.from(messages.map(syslogFrame).join('')))
      expect(frames).toHaveLength(2)
      for (const frame of frames) {
        expect(frame).not.toMatch(/[\p{Cc}\u2028\u202e]/u)
        const read = parseSyslog(frame)
        expect(Object.keys(read.data)).toEqual(['first', 'second', 'third'])
        expect([read.data.third, read.text]).toEqual(['x', 'z'])
      }
    }),
  )
})

const shownText = fc
  .string({ unit: fc.constantFrom('"', '\\', ']', '[', '=', ' ', 'a', 'n', 'é', 'e\u0301', '🦊') })
  .map((text) => text.trim())

test('a receiver parses every text unchanged', () => {
  fc.assert(
    fc.property(shownText, shownText, (value, text) => {
      const [frame] = splitFrames(Buffer.from(syslogFrame(syslogMessage({ ...parts, data: { value }, text }))))
      expect(parseSyslog(frame!)).toEqual({
        priority: 105,
        at: '2026-11-21T12:22:27.805Z',
        host: 'wardline-0123456789abcdef',
        type: 'honeypot_triggered',
        data: { value },
        text,
      })
    }),
  )
})
