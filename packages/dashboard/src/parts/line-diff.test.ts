import { expect, test } from 'vitest'
import { lineDiff } from './line-diff.ts'

const shown = (before: string, after: string) =>
  lineDiff(before.replaceAll(' ', '\n'), after.replaceAll(' ', '\n')).map(
    ({ kind, text }) => ({ same: ' ', removed: '-', added: '+', gap: '…' })[kind] + text,
  )

test.each([
  ['a b c', 'a b c', []],
  ['a b c', 'a x b c', [' a', '+x', ' b', ' c']],
  ['a b c', 'a x c', [' a', '-b', '+x', ' c']],
  ['a b c', 'a b', [' a', ' b', '-c']],
  ['a', 'a b c', [' a', '+b', '+c']],
  ['1 2 3 4 5 6 7 8', '1 2 3 4 5 x 6 7 8', [' 4', ' 5', '+x', ' 6', ' 7', '…']],
  ['a 1 2 3 4 5 6 b', 'x 1 2 3 4 5 6 y', ['-a', '+x', ' 1', ' 2', '…', ' 5', ' 6', '-b', '+y']],
])('%s and %s', (before, after, lines) => expect(shown(before, after)).toEqual(lines))
