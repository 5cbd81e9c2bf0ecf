import { expect, test } from 'vitest'
import { commandsOf } from './commands.ts'
import { hostOf, matchesGlob, matchesHost, matchesPath } from './glob.ts'

test.each([
  ['send_*', 'send_email', true],
  ['*', '', true],
  ['a*b*c', 'a-b-c', true],
  ['a*bc', 'abbc', true],
  ['a*ab', 'ab', false],
  ['ab', 'abc', false],
  ['*.example.com', 'example.com', false],
])('the glob %s compared with %s is %s', (pattern, text, isMatch) => expect(matchesGlob(pattern, text)).toBe(isMatch))

test.each([
  ['.env', '/app/.env', true],
  ['.env', '/app/.env.example', false],
  ['.ssh/**', '/home/ada/.ssh/id_rsa', true],
  ['~/.ssh/*', '/Users/Ada/.ssh/id_rsa', true],
  ['~/.ssh/*', '~/.ssh/id_rsa', true],
  ['~/.ssh/*', '/srv/.ssh/id_rsa', false],
  ['/etc/**', '/app/../etc/passwd', true],
  ['/etc/**', '//etc/./passwd', true],
  ['/etc/**', 'C:\\etc\\passwd', false],
  ['/srv/*/keys', '/srv/a/b/keys', false],
  ['/srv/**/keys', '/srv/a/b/keys', true],
  ['/srv/**/keys', '/srv/keys', true],
  ['*.pem', 'certs\\Server.PEM', true],
])('the path %s compared with %s is %s', (pattern, path, isMatch) => expect(matchesPath([pattern], path)).toBe(isMatch))

test.each([
  ['https://user:pw@Evil.Example.:8443/x?y@z', 'evil.example'],
  ['//cdn.example/x', 'cdn.example'],
  ['https:\\\\evil.example\\x', 'evil.example'],
  ['Ada <ada@example.com>', 'example.com'],
  ['mailto:ada@example.com', 'example.com'],
  ['example.com@evil.example', 'evil.example'],
  ['http://[::1]:80/', '[::1]'],
  ['localhost:3000', 'localhost'],
  ['ada', undefined],
  ['', undefined],
  ['two words.example', undefined],
])('the host of %s is %s', (text, host) => expect(hostOf(text)).toBe(host))

test('a host pattern with *. is for the hosts below one', () => {
  expect(matchesHost('*.example.com', 'a.example.com')).toBe(true)
  expect(matchesHost('*.example.com', 'notexample.com')).toBe(false)
  expect(matchesHost('example.com', 'a.example.com')).toBe(false)
})

test.each([
  ['ls; rm -rf /', 'rm -rf /'],
  ['ls && rm  -rf  "/x"', 'rm -rf /x'],
  ["r''m -rf /", 'rm -rf /'],
  ['/bin/rm -rf /', 'rm -rf /'],
  ['\\rm -rf /', 'rm -rf /'],
  ['echo "$(rm -rf /)"', 'rm -rf /'],
  ['echo `rm -rf /`', 'rm -rf /'],
  ['cat <(rm -rf /)', 'rm -rf /'],
  ['sudo -u root rm -rf /', 'rm -rf /'],
  ['timeout 5 nice -n 3 rm -rf /', 'rm -rf /'],
  ['A=1 env B=2 rm -rf /', 'rm -rf /'],
  ["bash -lc 'cd /x && rm -rf /'", 'rm -rf /'],
  ['eval "rm -rf /"', 'rm -rf /'],
  ['find . | xargs rm -rf', 'rm -rf'],
  ['if true; then rm -rf /; fi', 'rm -rf /'],
  ['(rm -rf /)', 'rm -rf /'],
  ['ls # rm\nrm -rf /', 'rm -rf /'],
  ['rm \\\n-rf /', 'rm -rf /'],
])('%s runs %s', (line, command) => {
  expect(commandsOf(line)!.map((words) => words.join(' '))).toContain(command)
})

test.each(['echo "rm -rf /"', "echo 'rm -rf /'", '# rm -rf /', 'ls rm'])('%s runs no rm', (line) => {
  expect(commandsOf(line)!.filter(([program]) => program === 'rm')).toEqual([])
})

test.each([
  ['too long', 'a'.repeat(65_537)],
  ['too deeply nested', '$('.repeat(12) + ')'.repeat(12)],
  ['wrapped too often', 'sudo -a '.repeat(2_000)],
])('a command line that is %s is not taken apart', (_why, line) => expect(commandsOf(line)).toBeUndefined())

test('hostile command lines take no more than linear work for each level', () => {
  for (const part of ['$(', '`', '"', "'", '\\', 'sudo ', '<(', 'bash -c "', '{', 'a=b '])
    commandsOf(part.repeat(8_000))
})
