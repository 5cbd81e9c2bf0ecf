import { expect, test } from 'vitest'
import type { Profile } from './profile-file.ts'
import { localUrl, resolveSettings, serviceUrl } from './settings.ts'

const profiles = new Map<string, Profile>([
  ['default', { url: 'https://default.example', key: 'of-default' }],
  ['prod', { url: 'https://prod.example', key: 'of-prod' }],
  ['keyless', { url: 'https://keyless.example' }],
])
const none = new Map<string, Profile>()
const environment = { WARDLINE_URL: 'https://env.example', WARDLINE_KEY: 'of-env' }

/** The origin, and where the key comes from. */
function chosen(...given: Parameters<typeof resolveSettings>) {
  const { url, urlFrom, key } = resolveSettings(...given)
  return [url, urlFrom, key?.from]
}

test('takes options before the environment, that before profiles, those before the service on this machine', () => {
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

// A kill that was typed for production must not go to the staging service that a forgotten variable names.
test('takes a profile that is named on the command line before the environment', () => {
  expect(chosen({ profile: 'prod' }, { ...environment, WARDLINE_PROFILE: 'keyless' }, profiles)).toEqual([
    'https://prod.example',
    'the profile prod',
    'the profile prod',
  ])
})

test('takes address and key from different places where they are given so', () => {
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

// A mistyped or hostile --url would otherwise be handed the key that is stored with another address.
test('shows the key of a profile to no other address', () => {
  expect(chosen({ url: 'https://evil.example' }, {}, profiles)).toEqual(['https://evil.example', '--url', undefined])
  expect(chosen({}, { WARDLINE_URL: 'http://prod.example', WARDLINE_PROFILE: 'prod' }, profiles)).toEqual([
    'http://prod.example',
    'WARDLINE_URL',
    undefined,
  ])
  expect(chosen({ url: 'https://prod.example/' }, { WARDLINE_PROFILE: 'prod' }, profiles)[2]).toBe('the profile prod')
})

test('takes an empty variable for an unset one', () => {
  const empty = { WARDLINE_URL: '', WARDLINE_KEY: '', WARDLINE_KEY_FILE: '', WARDLINE_PROFILE: '' }
  expect(chosen({}, empty, none)).toEqual([localUrl, 'the address of a service on this machine', undefined])
})

test('knows whether the service was chosen', () => {
  const isChosen = (...given: Parameters<typeof resolveSettings>) => resolveSettings(...given).isChosen
  expect(isChosen({}, { WARDLINE_KEY: 'x' }, none)).toBe(false)
  expect(isChosen({}, {}, none)).toBe(false)
  expect(isChosen({}, {}, profiles)).toBe(true)
  expect(isChosen({}, { WARDLINE_URL: localUrl }, none)).toBe(true)
  expect(isChosen({ keyFile: '/k' }, {}, none)).toBe(true)
})

test('refuses what makes no sense', () => {
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

test('takes addresses that a service can have, and repeats none that may hold a password', () => {
  expect(serviceUrl('HTTPS://Monitor.Example:443/')).toBe('https://monitor.example')
  expect(serviceUrl('http://[::1]:4747')).toBe('http://[::1]:4747')
  for (const wrong of ['monitor.example', 'file:///etc', 'http://me:secret@x', 'http://x/base', 'http://x?a=b', '']) {
    expect(() => serviceUrl(wrong), wrong).toThrow(/^must (?!.*secret)/)
  }
})
