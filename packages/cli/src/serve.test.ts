import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { welcome } from './serve.ts'

const key = 'wl_admin_secret'

test('the welcome screen shows the address, the file of the admin key and the next commands, but no key', () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'wardline-welcome-'))
  onTestFinished(() => rmSync(dataDir, { recursive: true }))
  writeFileSync(join(dataDir, 'admin-key'), key)
  const screen = welcome('http://127.0.0.1:4747', { apiKey: undefined, dataDir })
  expect(screen).toContain('Dashboard    http://127.0.0.1:4747\n')
  expect(screen).toContain(`Admin key    in the file ${join(dataDir, 'admin-key')}\n`)
  expect(screen).toMatch(/^ {4}npx wardline keys create --scope agent --instance my-agent$/m)
  expect(screen).not.toContain(key)
})

test('the commands of the welcome screen contain the address if it is not the default', () => {
  const screen = welcome('http://127.0.0.1:5000', { apiKey: key, dataDir: '/nosuch' })
  expect(screen).toMatch(/^ {4}npx wardline tail --url http:\/\/127\.0\.0\.1:5000$/m)
  expect(screen).toContain('Admin key    in WARDLINE_API_KEY\n')
  expect(screen).not.toContain(key)
})
