import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { demoEnvironment, reachableUrl, readDemoConfig, welcome } from '../serve-demo.ts'
import { shellWord, storedAdminKey } from '../service/admin-key.ts'
import { findKey, killCommand } from './key.ts'

const folder = mkdtempSync(join(tmpdir(), 'wardline-key-'))
afterAll(() => rmSync(folder, { recursive: true }))

test('takes the key that was given', () => {
  expect(findKey('https://monitor.example', 'given').key).toBe('given')
})

// A mistyped or hostile --url must not be handed the admin key that lies in the local data folder.
test('shows the stored key to a service on this machine only', () => {
  for (const url of ['https://monitor.example', 'http://127.0.0.1.example:4747', 'http://localhost@evil.example/']) {
    expect(() => findKey(url, undefined), url).toThrow(/give an admin key of that service/)
  }
})

test('finds the stored key and names its file, not the key', () => {
  expect(storedAdminKey(folder)).toBeUndefined()
  writeFileSync(join(folder, 'admin-key'), 'wl_secret\n')
  const found = storedAdminKey(folder)!
  expect(found.key).toBe('wl_secret')
  const shown =
    welcome('http://127.0.0.1:4747', folder, found, 'demo-1') + killCommand('http://127.0.0.1:4747', 'demo-1', found)
  expect(shown).not.toContain('wl_secret')
  expect(shown).toContain(`$(cat ${join(folder, 'admin-key')})`)
})

test('quotes what a shell would take apart', () => {
  expect(shellWord('data-demo/admin-key')).toBe('data-demo/admin-key')
  expect(shellWord("it's $(rm -rf x)")).toBe("'it'\\''s $(rm -rf x)'")
})

test('gives the demo a separate folder and a quiet log, unless the environment says otherwise', () => {
  expect(demoEnvironment({})).toEqual({ WARDLINE_DATA_DIR: './data-demo', WARDLINE_LOG_LEVEL: 'warn' })
  const said = { WARDLINE_DATA_DIR: './data', WARDLINE_LOG_LEVEL: 'info', PORT: '1' }
  expect(demoEnvironment(said)).toEqual(said)
  expect(demoEnvironment({ WARDLINE_DATA_DIR: '' }).WARDLINE_DATA_DIR).toBe('./data-demo')
})

// Demo agents and breaches in the real database would be taken for real ones.
test('refuses to run the demo on a database that is not its own', () => {
  expect(() => readDemoConfig({ DATABASE_URL: 'sqlite:/srv/wardline.db' })).toThrow(/DATABASE_URL is set/)
})

test('reaches a service that listens everywhere by loopback', () => {
  expect(reachableUrl('http://0.0.0.0:4747')).toBe('http://127.0.0.1:4747')
  expect(reachableUrl('http://[::]:4747')).toBe('http://[::1]:4747')
  expect(reachableUrl('http://10.0.0.7:4747')).toBe('http://10.0.0.7:4747')
})
