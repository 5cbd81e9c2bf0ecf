import { expect, test } from 'vitest'
import { commandsOf, commandTexts } from './commands.ts'

const linesOf = (line: string) => commandsOf(line)?.map((words) => words.join(' '))

/** A line and all that it runs. */
test.each<[string, string[]]>([
  // Quotes and escapes.
  ['"rm" -r $"x y"', ['rm -r x y']],
  [`$'r\\x6d' $'\\u002f' $'\\057' $'a\\tb' $'\\q' $'\\U0000002fx'`, ['rm / / a\tb q /x']],
  [`$'\\U00110000rm'`, ['rm']],
  [`a 'b c' "d\\"e" "\\$x" "f\\\ng" \\`, ['a b c d"e $x fg ']],
  [`a 'b c`, ['a b c']],
  ['a "b c', ['a b c']],
  // Comments and lists.
  ['a #b\nc', ['a', 'c']],
  ['a b#c', ['a b#c']],
  ['a #b', ['a']],
  ['a | b || c & d;e', ['a', 'b', 'c', 'd', 'e']],
  // Braces and parentheses.
  ['{ a; b; }', ['a', 'b']],
  ['{ a; }; b', ['a', 'b']],
  ['{ a; }>x', ['a', '> x']],
  ['a {b,c} {} }', ['a {b,c} {}']],
  ['(a; (b) ) ; c', ['a', 'b', 'c']],
  ['case x in y) a ;; esac', ['a', 'esac']],
  // Substitutions.
  ['a "$(b "$(c)")" `d`', ['a $(b "$(c)") `d`', 'b $(c)', 'c', 'd']],
  ['a "x `b` y" "\\$(c)"', ['a x `b` y $(c)', 'b']],
  ['a "$(b \')\' c)"', ["a $(b ')' c)", 'b ) c']],
  ['a $((1 + $(b)))', ['a $((1 + $(b)))', 'b']],
  ['a $((b) ; (c))', ['a $((b) ; (c))', 'b', 'c']],
  ['a <(b) >(c)', ['a <(b) >(c)', 'b', 'c']],
  ['a "$(b \\) c)"', ['a $(b \\) c)', 'b ) c']],
  // Redirections.
  ['a >b', ['a > b', 'a']],
  ['a 2>&1 b', ['a 2>& 1 b', 'a b']],
  ['a2>b', ['a2 > b', 'a2']],
  ['a &>>b c', ['a &>> b c', 'a c']],
  ['a <b', ['a < b', 'a']],
  ['bash <<<"b c"', ['bash <<< b c', 'bash', 'b c']],
  ['cat <<<"b c"', ['cat <<< b c', 'cat']],
  ['> b', ['> b']],
  // Words before a program.
  ['A=1 B=2', []],
  ['A=1 if ! a', ['a']],
  ['while a; do b; done', ['a', 'b', 'done']],
  // Programs that run a text.
  ['trap "a b" EXIT', ['trap a b EXIT', 'a b']],
  ['trap', ['trap']],
  [`git -c alias.x='!a b' x`, ['git -c alias.x=!a b x', 'a b']],
  [`git -c alias.x='a b' x`, ['git -c alias.x=a b x']],
  ['eval a "b c"', ['eval a b c', 'a b c']],
  ['sh -ec "a b"', ['sh -ec a b', 'a b']],
  ['su --command "a b" x', ['su --command a b x', 'a b']],
  ['sh -c -e "a b"', ['sh -c -e a b', 'a b']],
  ['bash x.sh', ['bash x.sh']],
  ['bash --version', ['bash --version']],
  ['bash --help -s', ['bash --help -s']],
  ['script x', ['script x']],
  // `find`.
  ['find . -exec a {} + -ok b ;', ['find . -exec a {} + -ok b', 'a {}', 'b']],
  ['find . -execdir a b', ['find . -execdir a b', 'a b']],
  // Wrappers.
  ['/usr/bin/sudo -n -u x a b', ['sudo -n -u x a b', 'x a b', 'a b']],
  ['sudo -n a b', ['sudo -n a b', 'a b']],
  ['sudo -- a b', ['sudo -- a b', 'a b']],
  ['sudo --user=x a', ['sudo --user=x a', 'a']],
  ['xargs -n1 a', ['xargs -n1 a', 'a']],
  ['xargs -I{} {} a', ['xargs -I{} {} a']],
  ['timeout 1.5s a b', ['timeout 1.5s a b', '1.5s a b', 'a b']],
  ['flock x a b', ['flock x a b', 'x a b', 'a b']],
  ['nice a b', ['nice a b', 'a b']],
  [`env -S'a b'`, ['env -Sa b', 'a b']],
  [`env --split-string='a b' c`, ['env --split-string=a b c', 'a b', 'c']],
  ['env A=1 a', ['env A=1 a', 'a']],
  // A program in a known folder, and a test.
  ['$HOME/a b ; $PWD/c', ['a b', 'c']],
  [`\${HOME}/a ; \${PWD}/c`, ['a', 'c']],
  ['[ -f x ] && [[ y ]]', ['[ -f x ]', '[[ y ]]']],
])('%s runs %j', (line, commands) => expect(linesOf(line)).toEqual(commands))

/** An attacker hides which program runs. */
test.each([
  '$a b',
  `\${a} b`,
  `\${PWD}a b`,
  '$HOME',
  '`a` b',
  '$(a) b',
  'a* b',
  'a? b',
  '[ab] c',
  '/bin/ a',
  '{a,b} c',
  'curl x | bash',
  'bash',
  'bash -s a',
  'bash -x',
  'bash -c "$a"',
  'bash <<<"$a"',
  'eval $a',
  'trap "$a" EXIT',
  `git -c alias.x='!$a' x`,
  'sudo $a',
  'find . -exec $a ;',
  'a "$($b)"',
  `env -S '$a b'`,
  `sh -c "sh -c 'sh -c \\"$a\\"'"`,
])('what %s runs is not known', (line) => expect(commandsOf(line)).toBeUndefined())

test('commands are read as deep, as many and as long as the bounds say', () => {
  const nested = (depth: number) => `${'a $('.repeat(depth)}b${')'.repeat(depth)}`
  expect(linesOf(nested(8))).toContain('b')
  expect(commandsOf(nested(9))).toBeUndefined()
  const evals = (count: number) => `${'eval '.repeat(count)}b`
  expect(linesOf(evals(8))).toContain('b')
  expect(commandsOf(evals(9))).toBeUndefined()
  const wrapped = (count: number) => `${'nice '.repeat(count)}b`
  expect(linesOf(wrapped(8))).toContain('b')
  expect(commandsOf(wrapped(9))).toBeUndefined()
  const finds = (count: number) => `${'find -exec '.repeat(count)}b`
  expect(commandsOf(finds(9))).toBeUndefined()
  const aliases = (line: string, count: number): string =>
    count === 0 ? line : aliases(`git -c "alias.x=!${line.replaceAll(/["\\]/g, '\\$&')}"`, count - 1)
  expect(linesOf(aliases('b', 4))).toContain('b')
  expect(commandsOf('a;'.repeat(1_000))).toHaveLength(1_000)
  expect(commandsOf('a;'.repeat(1_001))).toBeUndefined()
  expect(commandsOf('a'.repeat(65_536))).toHaveLength(1)
  const values = (count: number) => `sudo ${'-a 1 '.repeat(count)}`
  expect(commandsOf(values(16))).toBeDefined()
  expect(commandsOf(values(17))).toBeUndefined()
  expect(commandsOf(`watch ${'"a b" '.repeat(16)}`)).toBeDefined()
  expect(commandsOf(`watch ${'"a b" '.repeat(17)}`)).toBeUndefined()
  expect(linesOf(`a "${'$(a '.repeat(5)}b${')'.repeat(5)}"`)).toContain('a b')
  expect(commandsOf(`a ${'"$(a '.repeat(70)}`)).toBeUndefined()
})

test.each<[string, boolean]>([
  ['a > b', true],
  ['a >> b', true],
  ['a >| b', true],
  ['a <> b', true],
  ['a &> b', true],
  ['a &>> b', true],
  ['a 2> b', true],
  ['a >& b', true],
  ['> b', true],
  ['a > /dev/null', false],
  ['a 2>&1', false],
  ['a < b', false],
  ['a <<< b', false],
  ['a', false],
])('whether %s writes is %s', (line, isWriting) => expect(commandTexts(line)!.writes).toBe(isWriting))

test('texts are compared in lower case, each once, with the whole line first', () => {
  expect(commandTexts('  A ; sudo A; a ')).toEqual({
    lines: ['a ; sudo a; a', 'a', 'sudo a'],
    commands: ['a', 'sudo a'],
    writes: false,
  })
  expect(commandTexts('$a')).toBeUndefined()
})
