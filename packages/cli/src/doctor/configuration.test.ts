import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createClient } from '@wardline/contract'
import { type RunningServer, readConfig, startServer } from '@wardline/server'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { version } from '../version.ts'
import { checkConfigurations } from './configuration.ts'

const adminKey = 'the-administrator-key-of-the-tests-of-doctor'
const folder = mkdtempSync(join(tmpdir(), 'wardline-doctor-'))

let service: RunningServer
let call: ReturnType<typeof createClient>
beforeAll(async () => {
  const env = { PORT: '0', WARDLINE_DATA_DIR: join(folder, 'data'), WARDLINE_RULES_DIR: join(folder, 'data') }
  service = await startServer(readConfig({ ...env, WARDLINE_API_KEY: adminKey, WARDLINE_LOG_LEVEL: 'silent' }))
  call = createClient({ url: service.url, key: adminKey })
}, 60_000)
afterAll(async () => {
  await service?.close()
  rmSync(folder, { recursive: true })
})

/** Runs the check with settings of Claude Code whose hook has this version. Returns it, and what the service stored. */
async function check(instance: string, key: string, hookVersion = version) {
  const body = { instance_id: instance, name: instance, agent_type: 'claude-code' }
  await call('sendHeartbeat', { body })
  const home = join(folder, instance)
  const program = join(home, 'wardline-agent.mjs')
  const command = `"${process.execPath}" "${program}" wardline-agent hook`
  const hooks = { PreToolUse: [{ matcher: '*', hooks: [{ type: 'command', command }] }] }
  mkdirSync(dirname(join(home, '.claude/settings.json')), { recursive: true })
  writeFileSync(join(home, '.claude/settings.json'), JSON.stringify({ hooks }))
  writeFileSync(program, `console.log(${JSON.stringify(hookVersion)})`)
  const env = { HOME: home, WARDLINE_URL: service.url, WARDLINE_KEY: key, WARDLINE_INSTANCE_ID: instance }
  const checks = await checkConfigurations(home, env)
  const { configs } = await call('getConfig', { params: { instanceId: instance } })
  return { checks, sources: configs.map(({ source }) => source) }
}
const agentKey = async (instance: string) =>
  (await call('createKey', { body: { scope: 'agent', name: 'test', instances: [instance] } })).key

test('without settings of the hook, an agent key in the environment reports the settings', async () => {
  const { checks, sources } = await check('agent-key', await agentKey('agent-key'))
  expect(checks).toMatchObject([{ name: 'settings of Claude Code', status: 'ok' }])
  expect(sources).toEqual(['claude-code'])
})

// An operator's key may report for any agent, and its hashes are not those of the hook.
test('never reports with the key of an operator', async () => {
  const { checks, sources } = await check('operator-key', adminKey)
  expect(checks).toMatchObject([{ status: 'skip', detail: expect.stringContaining('There is no key') }])
  expect(sources).toEqual([])
})

test.each([
  ['another version', '9.9.9', 'the agent has 9.9.9'],
  ['an unknown version', '', 'the agent has an unknown version'],
])('reports nothing with a hook of %s', async (_case, hookVersion, detail) => {
  const instance = `version-${hookVersion.length}`
  const { checks, sources } = await check(instance, await agentKey(instance), hookVersion)
  expect(checks).toMatchObject([{ status: 'skip', detail: expect.stringContaining(detail) }])
  expect(sources).toEqual([])
})
