import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { Profile } from './profile-file.ts'
import { localUrl, resolveSettings, serviceUrl } from './settings.ts'

const profiles = new Map<string, Profile>([
  ['default', { url: 'https://default.example', key: 'of-default' }],
  ['prod', { url: 'https://prod.example', key: 'of-prod' }],
  ['keyless', { url: 'https://keyless.example' }],
])
const none = new Map<string, Profile>()
const environment = { WARDLINE_URL: 'https://env.example', WARDLINE_KEY: 'of-env' }

/** Returns the address, its source and the source of the key. */
function chosen(...given: Parameters<typeof resolveSettings>) {
  const { url, urlFrom, key } = resolveSettings(...given)
  return [url, urlFrom, key?.from]
}

test('the precedence is: options, environment, profiles, the service on this machine', () => {
  const flags = { url: 'https://flag.example', keyFile: '/k' }
  expect(chosen(flags, environment, profiles)).toEqual(['https://flag.example', '--url', '--key-file'])
  expect(chosen({}, environment, profiles)).toEqual(['https://env.example', 'WARDLINE_URL', 'WARDLINE_KEY'])
  expect(chosen({}, { WARDLINE_PROFILE: 'prod' }, profiles)).toEqual([
    'https://prod.example',
    'the profile prod',
    'the profile prod',
  ])
  expect(chosen({}, {}, profiles)).toEqual(['https://default.example', 'the profile default', 'the profile default'])
  expect(chosen({}, {}, none)).toEqual([localUrl, 'the address of a service on this machine', undefined])
})

// A kill for production must not go to a staging service in a forgotten variable.
test('a profile given as an option takes precedence over the environment', () => {
  expect(chosen({ profile: 'prod' }, { ...environment, WARDLINE_PROFILE: 'keyless' }, profiles)).toEqual([
    'https://prod.example',
    'the profile prod',
    'the profile prod',
  ])
})

test('address and key may come from different sources', () => {
  expect(chosen({ url: 'https://flag.example' }, environment, none)).toEqual([
    'https://flag.example',
    '--url',
    'WARDLINE_KEY',
  ])
  expect(chosen({ profile: 'keyless' }, environment, profiles)).toEqual([
    'https://keyless.example',
    'the profile keyless',
    'WARDLINE_KEY',
  ])
  expect(chosen({ profile: 'prod', keyFile: '/k' }, {}, profiles)).toEqual([
    'https://prod.example',
    'the profile prod',
    '--key-file',
  ])
})

// Otherwise a mistyped or hostile --url would receive the key of another address.
test('the key of a profile is used only for the address of the profile', () => {
  expect(chosen({ url: 'https://evil.example' }, {}, profiles)).toEqual(['https://evil.example', '--url', undefined])
  expect(chosen({}, { WARDLINE_URL: 'http://prod.example', WARDLINE_PROFILE: 'prod' }, profiles)).toEqual([
    'http://prod.example',
    'WARDLINE_URL',
    undefined,
  ])
  expect(chosen({ url: 'https://prod.example/' }, { WARDLINE_PROFILE: 'prod' }, profiles)[2]).toBe('the profile prod')
})

test('without a setting it is the service that runs in this folder, else that of PORT', () => {
  const folder = mkdtempSync(join(tmpdir(), 'wardline-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'address')
  const env = { WARDLINE_DATA_DIR: folder, PORT: '5050' }
  expect(chosen({}, env, none)).toEqual(['http://127.0.0.1:5050', 'PORT', undefined])
  writeFileSync(file, 'http://127.0.0.1:6060\n')
  expect(chosen({}, env, none)).toEqual(['http://127.0.0.1:6060', file, undefined])
  expect(chosen({}, { ...env, WARDLINE_URL: 'https://x.example' }, none)[0]).toBe('https://x.example')
  expect(chosen({}, env, profiles)[0]).toBe('https://default.example')
  // A clone with such a file would have the key in WARDLINE_KEY sent to its author.
  for (const foreign of [
    'https://evil.example',
    'http://127.0.0.2:1',
    'http://127.0.0.1.evil.example',
    'nonsense',
    '',
  ]) {
    writeFileSync(file, foreign)
    expect(chosen({}, { ...env, WARDLINE_KEY: 'k' }, none), foreign).toEqual([
      'http://127.0.0.1:5050',
      'PORT',
      'WARDLINE_KEY',
    ])
  }
  expect(chosen({}, { WARDLINE_DATA_DIR: folder, PORT: '0' }, none)[0]).toBe(localUrl)
})

test('an empty variable counts as unset', () => {
  const empty = { WARDLINE_URL: '', WARDLINE_KEY: '', WARDLINE_KEY_FILE: '', WARDLINE_PROFILE: '' }
  expect(chosen({}, empty, none)).toEqual([localUrl, 'the address of a service on this machine', undefined])
})

test('isChosen is true if an address, a profile or a key file is configured', () => {
  const isChosen = (...given: Parameters<typeof resolveSettings>) => resolveSettings(...given).isChosen
  expect(isChosen({}, { WARDLINE_KEY: 'x' }, none)).toBe(false)
  expect(isChosen({}, {}, none)).toBe(false)
  expect(isChosen({}, {}, profiles)).toBe(true)
  expect(isChosen({}, { WARDLINE_URL: localUrl }, none)).toBe(true)
  expect(isChosen({ keyFile: '/k' }, {}, none)).toBe(true)
})

test('an unknown profile, conflicting variables and an invalid address are rejected', () => {
  const refused =
    (...given: Parameters<typeof resolveSettings>) =>
    () =>
      resolveSettings(...given)
  expect(refused({ profile: 'nosuch' }, {}, profiles)).toThrow('No profile nosuch (from --profile)')
  expect(refused({}, { WARDLINE_PROFILE: 'constructor' }, profiles)).toThrow(
    'No profile constructor (from WARDLINE_PROFILE)',
  )
  expect(refused({}, { WARDLINE_KEY: 'a', WARDLINE_KEY_FILE: 'b' }, none)).toThrow('exclude each other')
  expect(refused({}, { WARDLINE_URL: 'ftp://x' }, none)).toThrow(/WARDLINE_URL must begin with/)
})

test('an invalid address is rejected without quoting it, since it may contain a password', () => {
  expect(serviceUrl('HTTPS://Monitor.Example:443/')).toBe('https://monitor.example')
  expect(serviceUrl('http://[::1]:4747')).toBe('http://[::1]:4747')
  for (const wrong of ['monitor.example', 'file:///etc', 'http://me:secret@x', 'http://x/base', 'http://x?a=b', '']) {
    expect(() => serviceUrl(wrong), wrong).toThrow(/^must (?!.*secret)/)
  }
})
