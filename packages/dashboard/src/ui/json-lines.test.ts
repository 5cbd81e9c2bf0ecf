import { expect, test } from 'vitest'
import { jsonLines } from './json-lines.ts'

const value = {
  a: ['x "y"\n', 3, [], {}, null],
  'b.c': { d: 'say "no"', e: true },
}

test('are those of JSON', () => {
  const lines = jsonLines(value, () => []).map(({ text }) => text)
  expect(lines.join('\n')).toBe(JSON.stringify(value, null, 2))
})

test('mark parts of texts and numbers, where their characters are escaped too', () => {
  const marked = jsonLines(value, (path, text) => {
    const start = text.indexOf(path[0] === 'a' ? 'y' : 'no')
    return start < 0 ? [] : [{ start, end: start + 2 }]
  })
  const shown = marked.flatMap(({ text, marks }) => marks.map(({ start, end }) => text.slice(start, end)))
  expect(shown).toEqual(['y\\"', 'no'])
})
