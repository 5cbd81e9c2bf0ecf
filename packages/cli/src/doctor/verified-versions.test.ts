import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { products, tools } from '@wardline/sdk/coding-agents'
import { expect, onTestFinished, test } from 'vitest'
import { checkVersions, verifiedVersions } from './verified-versions.ts'

const guide = readFileSync(new URL('../../../../docs/guide/coding-agents.md', import.meta.url), 'utf8')

test.each(tools)('the guide says of %s what the table says', (tool) => {
  const { version, subagents } = verifiedVersions[tool]
  const said = new RegExp(`Verified with ${products[tool]} (\\S+) itself(.*?)(?=Verified with|\\n)`).exec(guide)
  expect(said?.[1]).toBe(version)
  expect(said?.[2]?.includes('in its subagents') ?? false).toBe(subagents ?? false)
})

test.each([
  ['OpenCode 1.18.33', 'ok', 'also in subagents'],
  ['1.19.0', 'warn', '1.19.0: the hook was tried with 1.18.33'],
  ['', 'skip', 'does not tell its version'],
])('of the version "%s" doctor says %s', async (said, status, detail) => {
  const home = mkdtempSync(join(tmpdir(), 'wardline-home-'))
  onTestFinished(() => rmSync(home, { recursive: true }))
  const folder = join(home, '.config/opencode/plugins')
  for (const each of [folder, join(home, 'bin')]) mkdirSync(each, { recursive: true })
  const hooks = JSON.stringify({ 'tool.execute.before': [{ command: 'wardline-agent hook opencode' }] })
  const first = "// Wardline's plugin for OpenCode. To remove it: wardline-agent uninstall opencode"
  writeFileSync(join(folder, 'wardline.js'), `${first}\nconst hooks = ${hooks}\n`)
  writeFileSync(join(home, 'bin/opencode'), `#!/bin/sh\necho ${said}\n`, { mode: 0o755 })
  const checks = await checkVersions(home, { PATH: `${join(home, 'bin')}:/usr/bin:/bin` })
  expect(checks).toMatchObject([{ name: 'version of OpenCode', status, detail: expect.stringContaining(detail) }])
})
