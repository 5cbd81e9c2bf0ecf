import fc from 'fast-check'
import { expect, test } from 'vitest'
import { anyCharacter } from '../../../test-servers/any-character.ts'
import { replaceUnsafe, safeJson, sanitize } from './sanitize.ts'

// A compromised agent could choose names that clear or retitle the operator's terminal, or forge a line on it.
test('sanitize removes characters that a terminal obeys', () => {
  expect(sanitize('ok\u001b[2J\u001b]0;owned\u0007\r\nall agents are fine')).toBe('ok [2J ]0;owned all agents are fine')
  expect(sanitize('\u009b31mred\u009c')).toBe('31mred')
  fc.assert(
    fc.property(fc.string({ unit: anyCharacter }), (text) => {
      expect(sanitize(text)).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}]/u)
    }),
  )
})

// Reversed or invisible text can make a harmful reason look harmless.
test('sanitize removes marks that reverse or hide text', () => {
  expect(sanitize('kill\u202eemuser\u2066\u200b\u{e0041}x')).toBe('kill emuser x')
})

test('sanitize leaves ordinary text of every script unchanged', () => {
  expect(sanitize('Größe 日本語 🦊 – “quoted”')).toBe('Größe 日本語 🦊 – “quoted”')
})

// JSON.stringify does not escape C1 controls and reversing marks, and `tail --json` is also read on terminals.
test('safeJson preserves the value and contains nothing that a terminal obeys', () => {
  expect(safeJson('\u009b31m\u202e\u{e0041}')).toBe('"\\u009b31m\\u202e\\udb40\\udc41"')
  fc.assert(
    fc.property(fc.json({ stringUnit: anyCharacter }), (text) => {
      const value = JSON.parse(text)
      const written = safeJson(value)
      expect(written).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}]/u)
      expect(JSON.parse(written)).toEqual(value)
    }),
  )
})

test('safeJson keeps line breaks of the indent and escapes those in texts', () => {
  expect(safeJson({ a: 'one\ntwo\u2028' }, 2)).toBe('{\n  "a": "one\\ntwo\\u2028"\n}')
})

// A soft hyphen, an annotation mark or a private-use character can hide in a name like a reversing mark.
test('sanitize replaces every kind of invisible character', () => {
  for (const hidden of ['\u00ad', '\u180e', '\ufff9', '\ue000', '\u2065', '\u{1d173}', '\u{e0000}', '\u{f0000}']) {
    expect(sanitize(`a${hidden}b`)).toBe('a b')
    expect(replaceUnsafe(`a${hidden}b`, '?')).toBe('a?b')
    expect(safeJson(hidden)).toMatch(/^"(\\u[0-9a-f]{4})+"$/)
  }
})

// These characters have no width: they can make two names look alike, or hide text that only a model reads.
test('sanitize replaces invisible letters and marks', () => {
  for (const hidden of ['\u115f', '\u3164', '\uffa0', '\u034f', '\u17b4', '\u180b', '\ufe00', '\ufe0f', '\u{e0100}']) {
    expect(sanitize(`a${hidden}b`)).toBe('a b')
    expect(safeJson(`a${hidden}`)).toMatch(/^"a(\\u[0-9a-f]{4})+"$/)
  }
})

test('sanitize keeps the variation selector of an emoji and removes further ones', () => {
  expect(sanitize('⚠️ ❤︎ 1️⃣')).toBe('⚠️ ❤︎ 1️⃣')
  expect(sanitize('⚠\ufe0f\ufe0f\ufe0fx')).toBe('⚠\ufe0f x')
})
