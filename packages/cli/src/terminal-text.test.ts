import fc from 'fast-check'
import { expect, test } from 'vitest'
import { cutText, plainJson, plainText } from './terminal-text.ts'

// A compromised agent names itself or its event so that the operator's terminal clears, retitles or forges a line.
test('leaves no character that a terminal obeys', () => {
  expect(plainText('ok\u001b[2J\u001b]0;owned\u0007\r\nall agents are fine')).toBe(
    'ok [2J ]0;owned all agents are fine',
  )
  expect(plainText('\u009b31mred\u009c')).toBe('31mred')
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      expect(plainText(text)).not.toMatch(/\p{Cc}|\u2028|\u2029/u)
    }),
  )
})

// Reversed or invisible text makes a harmful reason read as a harmless one.
test('leaves no mark that reverses or hides text', () => {
  expect(plainText('kill\u202eemuser\u2066\u200b\u{e0041}x')).toBe('kill emuser x')
})

test('keeps ordinary text of every script as it is', () => {
  expect(plainText('Größe 日本語 🦊 – “quoted”')).toBe('Größe 日本語 🦊 – “quoted”')
})

test('cuts by code points and shows that it did', () => {
  expect(cutText('🦊🦊🦊🦊', 3)).toBe('🦊🦊…')
  expect(cutText('four', 4)).toBe('four')
})

// JSON.stringify leaves C1 controls and reversing marks as they are, and `tail --json` is read on a terminal as well.
test('writes JSON that reads back the same and holds nothing that a terminal obeys', () => {
  expect(plainJson('\u009b31m\u202e\u{e0041}')).toBe('"\\u009b31m\\u202e\\udb40\\udc41"')
  fc.assert(
    fc.property(fc.json({ stringUnit: 'binary' }), (text) => {
      const value = JSON.parse(text)
      const written = plainJson(value)
      expect(written).not.toMatch(/\p{Cc}|[\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/u)
      expect(JSON.parse(written)).toEqual(value)
    }),
  )
})
