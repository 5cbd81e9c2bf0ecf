import { expect, it } from 'vitest'
import { simpleCommands } from './path-words.ts'

const plain = (text: string) => simpleCommands(text).map((command) => command.map((word) => word.plain))

it.each([
  ['cat ~/.aws/credentials', [['cat', '~/.aws/credentials']]],
  [`cat ~/.a'w's/"cre"dentials`, [['cat', '~/.aws/credentials']]],
  ['cat ~/.a\\ws/my\\ key', [['cat', '~/.aws/my key']]],
  ['cat "a\\"b" \'a\\b\'', [['cat', 'a"b', 'a\\b']]],
  ['cat a\\\nb', [['cat', 'ab']]],
  [`cat $'\\x2fetc/shadow' $"x"`, [['cat', '/etc/shadow', 'x']]],
  ['cat "/etc/shadow', [['cat', '/etc/shadow']]],
  ["it's /etc/shadow", [['its /etc/shadow']]],
  ['a; b | c && (d) `e`', [['a'], ['b'], ['c'], ['d'], ['e']]],
  // A parser of Bash finds no word of these.
  [') cat /etc/shadow', [['cat', '/etc/shadow']]],
  ['&& cat /etc/shadow', [['cat', '/etc/shadow']]],
  ['/srv/My Files (old)/id_rsa', [['/srv/My', 'Files'], ['old'], ['/id_rsa']]],
])('reads the words of %j', (text, words) => {
  expect(plain(text)).toEqual(words)
})

it('keeps the backslashes beside, which separate Windows paths', () => {
  expect(simpleCommands('type C:\\Users\\bob')[0]![1]).toMatchObject({
    plain: 'C:Usersbob',
    escaped: 'C:\\Users\\bob',
  })
})

it('tells braces outside quotes, and here-documents that no shell reads', () => {
  const words = (text: string) =>
    simpleCommands(text)
      .flat()
      .map(({ plain: word, hasBraces, isData }) => `${word}${hasBraces ? ' braces' : ''}${isData ? ' data' : ''}`)
  expect(words('{a,b} "{a,b}" \\{a')).toEqual(['{a,b} braces', '{a,b}', '{a'])
  expect(words('cat <<E\nx\nE\ny')).toEqual(['cat', 'E', 'x data', 'E', 'y'])
  expect(words('sh <<E\nx\nE\ny')).toEqual(['sh', 'E', 'x', 'E', 'y'])
  expect(words('cat <<< E\nx')).toEqual(['cat', 'E', 'x'])
})
