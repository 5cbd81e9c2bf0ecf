import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { demoEnvironment, readDemoConfig, welcome } from '../serve-demo.ts'
import { shellWord, storedAdminKey } from '../service/admin-key.ts'
import { findKey, killCommand } from './key.ts'

const folder = mkdtempSync(join(tmpdir(), 'wardline-key-'))
afterAll(() => rmSync(folder, { recursive: true }))

test('a given key is used', () => {
  expect(findKey('https://monitor.example', 'given').key).toBe('given')
})

// The admin key in the local data folder must not be sent to a mistyped or hostile --url.
test('the stored key is used only for a service on this machine', () => {
  for (const url of ['https://monitor.example', 'http://127.0.0.1.example:4747', 'http://localhost@evil.example/']) {
    expect(() => findKey(url, undefined), url).toThrow(/give an admin key of that service/)
  }
})

test('the stored key is shown as the path of its file', () => {
  expect(storedAdminKey(folder)).toBeUndefined()
  writeFileSync(join(folder, 'admin-key'), 'wl_secret\n')
  const found = storedAdminKey(folder)!
  expect(found.key).toBe('wl_secret')
  const shown =
    welcome('http://127.0.0.1:4747', folder, found, 'demo-1') + killCommand('http://127.0.0.1:4747', 'demo-1', found)
  expect(shown).not.toContain('wl_secret')
  expect(shown).toContain(`$(cat ${join(folder, 'admin-key')})`)
})

test('a word is quoted if a shell would interpret it', () => {
  expect(shellWord('data-demo/admin-key')).toBe('data-demo/admin-key')
  expect(shellWord("it's $(rm -rf x)")).toBe("'it'\\''s $(rm -rf x)'")
})

test('the demo has a separate folder and a quiet log by default', () => {
  expect(demoEnvironment({})).toMatchObject({ WARDLINE_DATA_DIR: './data-demo', WARDLINE_LOG_LEVEL: 'warn' })
  const said = { WARDLINE_DATA_DIR: './data', WARDLINE_LOG_LEVEL: 'info', PORT: '1' }
  expect(demoEnvironment(said)).toMatchObject(said)
})

test('alerts of the demo may be sent to its receiver, beside the networks that are configured', () => {
  expect(demoEnvironment({}).WARDLINE_ALERT_ALLOW_CIDRS).toBe('127.0.0.1/32')
  const given = { WARDLINE_ALERT_ALLOW_CIDRS: '10.0.0.0/8' }
  expect(demoEnvironment(given).WARDLINE_ALERT_ALLOW_CIDRS).toBe('10.0.0.0/8,127.0.0.1/32')
  expect(demoEnvironment({ WARDLINE_DATA_DIR: '' }).WARDLINE_DATA_DIR).toBe('./data-demo')
})

// Demo agents and breaches in a production database would be mistaken for real ones.
test('the demo refuses to start if DATABASE_URL is set', () => {
  expect(() => readDemoConfig({ DATABASE_URL: 'sqlite:/srv/wardline.db' })).toThrow(/DATABASE_URL is set/)
})
