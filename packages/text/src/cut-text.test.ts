import fc from 'fast-check'
import { expect, test } from 'vitest'
import { anyCharacter } from '../../../test-servers/any-character.ts'
import { cutText, utf8Size, utf16Size } from './cut-text.ts'

test.each([
  ['abc', 3, 'abc'],
  ['abcd', 3, 'ab…'],
  ['😀😀', 4, '😀😀'],
  ['😀😀😀', 4, '😀…'],
  ['', 0, ''],
])('cuts %j to %i as %j', (text, maxSize, expected) => {
  expect(cutText(text, maxSize, utf16Size)).toBe(expected)
})

test.each([utf16Size, utf8Size])('stays within the maximum size, keeps whole characters, and marks a cut', (size) => {
  fc.assert(
    fc.property(fc.string({ unit: anyCharacter }), fc.integer({ min: 3, max: 100 }), (text, maxSize) => {
      const cut = cutText(text, maxSize, size)
      expect([...cut].map(size).reduce((sum, one) => sum + one, 0)).toBeLessThanOrEqual(maxSize)
      expect(cut === text || (cut.endsWith('…') && text.startsWith(cut.slice(0, -1)))).toBe(true)
      expect(cut.isWellFormed()).toBe(true)
    }),
  )
})

test('counts characters by default', () => {
  expect(cutText('🦊🦊🦊🦊', 3)).toBe('🦊🦊…')
  expect(cutText('four', 4)).toBe('four')
})
