import { spawn } from 'node:child_process'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { AgentHome, ended } from '../testing/agent-command.ts'
import { agentId, TestFleet } from '../testing/service.ts'
import { pluginText } from './opencode-plugin.ts'

const slow = { timeout: 60_000 }
const file = '.config/opencode/plugins/wardline.js'

let fleet: TestFleet
let home: AgentHome
beforeEach(async () => {
  fleet = await TestFleet.open()
  home = new AgentHome({
    WARDLINE_URL: fleet.wire.url,
    WARDLINE_KEY: fleet.agentKey,
    WARDLINE_INSTANCE_ID: agentId,
    // The sources of other packages, which are not built here.
    NODE_OPTIONS: '--conditions=wardline-source',
  })
}, 60_000)
afterEach(() => fleet[Symbol.asyncDispose]())

/** Calls the plugin like OpenCode, in its process. Returns what it throws, which OpenCode gives to the model. */
async function call(command: string): Promise<string | undefined> {
  const script = `
    const { Wardline } = await import(${JSON.stringify(home.path(file))})
    const { 'tool.execute.before': before } = await Wardline({ directory: ${JSON.stringify(home.folder)} })
    const call = { tool: 'bash', sessionID: 's1', callID: 'c1' }
    await before(call, { args: { command: ${JSON.stringify(command)} } }).catch(({ message }) => console.log(message))`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], { env: home.env })
  const { code, stdout, stderr } = await ended(child)
  expect([code, stderr]).toEqual([0, ''])
  return stdout.trim() || undefined
}

test(
  'the installed plugin reports calls, and blocks those that a policy denies and all of a suspended agent',
  slow,
  async () => {
    await fleet.addPolicy({
      title: 'Shell',
      rules: [{ title: 'No rm', decision: 'deny', match: { tool: 'Bash(rm *)' } }],
    })
    expect(await home.run(['install', 'opencode', '--yes'])).toMatchObject({ code: 0, stderr: '' })
    expect(await call('ls')).toBeUndefined()
    expect(await fleet.events('tool_call')).toMatchObject([{ session_id: 's1', metadata: { toolName: 'bash' } }])
    expect(await call('rm -rf /data')).toMatch(/^The policy of this agent denies this call \(No rm\)/)
    await fleet.kill('exfiltration')
    expect(await call('ls')).toContain('exfiltration')
    fleet.wire.mode = 'refuse'
    expect(await call('ls')).toContain('exfiltration')
  },
)

test('the plugin follows the fail mode while the service is away', slow, async () => {
  await home.run(['install', 'opencode', '--yes'])
  fleet.wire.mode = 'refuse'
  expect(await call('ls')).toBeUndefined()
  await home.run(['install', 'opencode', '--yes', '--fail-closed'])
  expect(await call('ls')).toMatch(/^The security monitor could not check this call/)
})

test.each(['/missing/node wardline-agent hook', 'exit 1', 'kill -9 $$'])(
  'the plugin blocks the call when the hook fails: %s',
  slow,
  async (command) => {
    home.write(file, pluginText(command))
    expect(await call('ls')).toBe('The Wardline hook failed, so this call is blocked.')
  },
)

test('install and uninstall leave a foreign file of that name as it is, and remove only the plugin', slow, async () => {
  home.write(file, 'export const Mine = 1\n')
  const refused = await home.run(['install', 'opencode', '--yes'])
  expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('not the plugin of wardline-agent') })
  expect((await home.run(['uninstall', 'opencode', '--yes'])).stdout).toContain('not installed')
  expect(home.read(file)).toBe('export const Mine = 1\n')
  home.write(file, `${pluginText('old wardline-agent hook opencode')}// changed\n`)
  expect((await home.run(['uninstall', 'opencode', '--yes'])).code).toBe(0)
  expect(() => home.read(file)).toThrow('ENOENT')
})
