import { expect, test } from 'vitest'
import { splitUnseen } from './unseen-characters.ts'

const shown = (text: string) =>
  splitUnseen(text)
    .map(({ text: part, code }) => (code ? `[${code}]` : part))
    .join('')

test.each([
  ['plain text: ä, 日本, 👍', 'plain text: ä, 日本, 👍'],
  ['safe\u202Etxt.exe', 'safe[U+202E]txt.exe'],
  ['a\u200Bb\u2066c', 'a[U+200B]b[U+2066]c'],
  ['two\nlines\u0007', 'two[↵]lines[U+0007]'],
  ['\u{E0041}tag', '[U+E0041]tag'],
  ['<b>&amp;', '<b>&amp;'],
  ['ก็่ a\u0301', 'ก็่ a\u0301'],
  [`a${'\u0301'.repeat(10)}b`, `a${'\u0301'.repeat(8)}[U+0301][U+0301]b`],
])('shows invisible characters of %j by their codes', (text, expected) => {
  expect(shown(text)).toBe(expected)
})
