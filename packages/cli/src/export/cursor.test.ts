import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Cursor, cursorOption, formatCursor } from './cursor.ts'

const place = fc.record({ seq: fc.nat(), at: fc.nat() })
const cursors: fc.Arbitrary<Cursor> = fc.oneof(
  fc.record({ event: place }),
  fc.record({ event: place, control: place }),
  fc.record({ audit: place }),
  fc.record({ event: place, control: place, audit: place }),
)

test('a cursor is equal after formatting and parsing, and needs no quotes in a shell', () => {
  fc.assert(
    fc.property(cursors, (cursor) => {
      const text = formatCursor(cursor)
      expect(text).toMatch(/^[a-z0-9@.]+$/)
      expect(cursorOption(text)).toEqual(cursor)
    }),
  )
})

test.each(['', '1234', 'e1234', 'x1@2', 'e1@2.e3@4', 'e1@2.', 'e-1@2', 'e1@2 c3@4', `e${'9'.repeat(16)}@1`])(
  'the cursor %j is rejected',
  (text) => {
    expect(() => cursorOption(text)).toThrow('It must be the cursor that an export printed')
  },
)
