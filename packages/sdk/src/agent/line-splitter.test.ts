import fc from 'fast-check'
import { expect, test } from 'vitest'
import { LineSplitter } from './line-splitter.ts'

const maxLength = 8

test('returns all bytes in order, and lines within the limit whole', () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ unit: fc.constantFrom('a', 'b', '\n'), maxLength: 30 }), { maxLength: 8 }),
      (chunks) => {
        const splitter = new LineSplitter(maxLength)
        const pieces = [...chunks.flatMap((chunk) => splitter.push(Buffer.from(chunk))), ...splitter.rest()]
        const texts = pieces.map(({ bytes }) => bytes.toString())
        expect(texts.join('')).toBe(chunks.join(''))
        const lines = chunks.join('').match(/[^\n]*\n|[^\n]+/g) ?? []
        const whole = pieces.flatMap(({ kind }, place) => (kind === 'line' ? [texts[place]] : []))
        for (const line of lines) if (line.length <= maxLength) expect(whole).toContain(line)
        for (const line of whole) expect(lines).toContain(line)
        // Each long line ends with a last part, so that the next line is read normally.
        const ends = pieces.filter(({ kind }) => kind === 'lastPart').length
        const longLines = lines.filter((line) => line.length > maxLength).length
        expect([longLines, longLines - 1]).toContain(ends)
      },
    ),
    { seed: 20261121 },
  )
})

test('buffers no more of a long line than its limit', () => {
  const splitter = new LineSplitter(maxLength)
  const chunk = Buffer.alloc(5, 'a')
  const kept = Array.from({ length: 1_000 }, () =>
    splitter.push(chunk).reduce((sum, { bytes }) => sum + bytes.length, 0),
  )
  expect(kept.reduce((sum, bytes) => sum + bytes, 0)).toBeGreaterThanOrEqual(5_000 - maxLength)
})
