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

test('stands where the XDG specification says', () => {
  expect(profileFile({ XDG_CONFIG_HOME: '/etc/mine' })).toBe('/etc/mine/wardline/config.json')
  const atHome = join(homedir(), '.config/wardline/config.json')
  expect(profileFile({})).toBe(atHome)
  expect(profileFile({ XDG_CONFIG_HOME: 'relative' })).toBe(atHome)
})

test('reads back what it wrote, and leaves nothing beside it', () => {
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

// The file contains keys; on a shared machine the usual umask makes a new file readable by all.
test('writes a file and a folder that only their owner can read', () => {
  writeProfiles(file, new Map([['prod', { url: 'https://prod.example', key: 'wl_secret' }]]))
  expect(mode(file)).toBe('600')
  expect(mode(dirname(file))).toBe('700')
})

// A reader of the file has the keys, and a writer can send them elsewhere.
test.each([0o640, 0o604, 0o620, 0o602, 0o660, 0o644])('refuses a file of mode %o, and says what to do', (fileMode) => {
  put('{ "profiles": { "prod": { "url": "https://prod.example", "key": "wl_secret" } } }', fileMode)
  expect(() => readProfiles(file)).toThrow(`chmod 600 ${file}`)
  chmodSync(file, 0o600)
  expect(readProfiles(file).get('prod')?.key).toBe('wl_secret')
})

test('refuses what is no profile file, without repeating what stands in it', () => {
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

test('takes a name like any other for a name', () => {
  put('{"profiles":{"__proto__":{"url":"https://evil.example"},"constructor":{"url":"https://c.example"}}}')
  const profiles = readProfiles(file)
  expect(profiles.get('constructor')).toEqual({ url: 'https://c.example' })
  expect(Object.getPrototypeOf({})).toBe(Object.prototype)
  writeProfiles(file, new Map([['prod', { url: 'https://prod.example' }]]))
  expect(readFileSync(file, 'utf8')).toContain('"prod"')
})
