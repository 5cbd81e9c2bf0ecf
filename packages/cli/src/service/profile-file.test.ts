import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeEach, expect, test } from 'vitest'
import { profileFile, readProfiles, writeProfiles } from './profile-file.ts'

const folder = mkdtempSync(join(tmpdir(), 'wardline-profile-'))
afterAll(() => rmSync(folder, { recursive: true }))

const file = join(folder, 'wardline', 'config.json')
beforeEach(() => rmSync(dirname(file), { recursive: true, force: true }))

const mode = (path: string) => (statSync(path).mode & 0o777).toString(8)
const put = (text: string, fileMode = 0o600) => {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
  chmodSync(file, fileMode)
}

test('the path follows the XDG specification', () => {
  expect(profileFile({ XDG_CONFIG_HOME: '/etc/mine' })).toBe('/etc/mine/wardline/config.json')
  const atHome = join(homedir(), '.config/wardline/config.json')
  expect(profileFile({})).toBe(atHome)
  expect(profileFile({ XDG_CONFIG_HOME: 'relative' })).toBe(atHome)
})

test('written profiles are read unchanged, and no other file remains', () => {
  expect(readProfiles(file).size).toBe(0)
  const profiles = new Map([
    ['prod', { url: 'https://prod.example', key: 'wl_secret' }],
    ['local', { url: 'http://127.0.0.1:4747' }],
  ])
  writeProfiles(file, profiles)
  writeProfiles(file, profiles)
  expect(readProfiles(file)).toEqual(profiles)
  expect(readdirSync(dirname(file))).toEqual(['config.json'])
})

// The file contains keys, and with the usual umask a new file is readable by all users of a machine.
test('the file and its folder are readable by the owner only', () => {
  writeProfiles(file, new Map([['prod', { url: 'https://prod.example', key: 'wl_secret' }]]))
  expect(mode(file)).toBe('600')
  expect(mode(dirname(file))).toBe('700')
})

// A user who can read the file has the keys, and one who can write it can send them to another address.
test.each([0o640, 0o604, 0o620, 0o602, 0o660, 0o644])('a file of mode %o is rejected, with the fix', (fileMode) => {
  put('{ "profiles": { "prod": { "url": "https://prod.example", "key": "wl_secret" } } }', fileMode)
  expect(() => readProfiles(file)).toThrow(`chmod 600 ${file}`)
  chmodSync(file, 0o600)
  expect(readProfiles(file).get('prod')?.key).toBe('wl_secret')
})

test('an invalid profile file is rejected without quoting its content', () => {
  const wrong = [
    'wl_secret',
    '{"profiles":["wl_secret"]}',
    '{"profiles":{"a":{"key":"wl_secret"}}}',
    '{"profiles":{"a":{"url":1}}}',
    '{"profiles":{"a":{"url":"https://a","key":7}}}',
    '[]',
    'null',
    '',
  ]
  for (const text of wrong) {
    put(text)
    expect(() => readProfiles(file), text).toThrow(/^(?!.*wl_secret).*config\.json/)
  }
})

test('names such as __proto__ and constructor are ordinary profile names', () => {
  put('{"profiles":{"__proto__":{"url":"https://evil.example"},"constructor":{"url":"https://c.example"}}}')
  const profiles = readProfiles(file)
  expect(profiles.get('constructor')).toEqual({ url: 'https://c.example' })
  expect(Object.getPrototypeOf({})).toBe(Object.prototype)
  writeProfiles(file, new Map([['prod', { url: 'https://prod.example' }]]))
  expect(readFileSync(file, 'utf8')).toContain('"prod"')
})
