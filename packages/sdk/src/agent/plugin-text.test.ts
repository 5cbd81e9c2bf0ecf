import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { AgentHome, ended } from '../testing/agent-command.ts'
import { agentId, TestFleet } from '../testing/service.ts'
import { pluginText } from './plugin-text.ts'

const slow = { timeout: 60_000 }
const files = { opencode: '.config/opencode/plugins/wardline.js', openclaw: '.openclaw/wardline.js' } as const
type Tool = keyof typeof files
const tools = Object.keys(files) as Tool[]
const config = '.openclaw/openclaw.json'

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

const scripts: Record<Tool, (command: string) => string> = {
  opencode: (command) => `
    const { Wardline } = await import(${JSON.stringify(home.path(files.opencode))})
    const { 'tool.execute.before': before } = await Wardline({ directory: ${JSON.stringify(home.folder)} })
    const call = { tool: 'bash', sessionID: 's1', callID: 'c1' }
    await before(call, { args: { command: ${JSON.stringify(command)} } }).catch(({ message }) => console.log(message))`,
  // The event and its context as OpenClaw 2026.9.6 gives them.
  openclaw: (command) => `
    const { default: plugin } = await import(${JSON.stringify(home.path(files.openclaw))})
    const agent = { resolveAgentWorkspaceDir: () => ${JSON.stringify(home.folder)} }
    const handlers = {}
    plugin.register({ config: {}, runtime: { agent }, on: (event, handler) => void (handlers[event] = handler) })
    const answer = await handlers.before_tool_call(
      { toolName: 'exec', params: { command: ${JSON.stringify(command)} }, runId: 'r1', toolCallId: 'c1' },
      { toolName: 'exec', agentId: 'main', sessionKey: ${JSON.stringify(sessionKey)}, sessionId: 's1', runId: 'r1' },
    )
    if (answer?.block) console.log(answer.blockReason)`,
}
let sessionKey = ''
beforeEach(() => {
  sessionKey = 'agent:main:main'
})

/** Calls the plugin like the coding agent, in its process. Returns the reason of a blocked call, which the model gets. */
async function call(tool: Tool, command: string): Promise<string | undefined> {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', scripts[tool](command)], { env: home.env })
  const { code, stdout, stderr } = await ended(child)
  expect([code, stderr]).toEqual([0, ''])
  return stdout.trim() || undefined
}

describe.each(tools)('the plugin of %s', slow, (tool) => {
  test('reports calls, and blocks those that a policy denies and all of a suspended agent', async () => {
    await fleet.addPolicy({
      title: 'Shell',
      rules: [{ title: 'No rm', decision: 'deny', match: { tool: 'Bash(rm *)' } }],
    })
    expect(await home.run(['install', tool, '--yes'])).toMatchObject({ code: 0, stderr: '' })
    expect(await call(tool, 'ls')).toBeUndefined()
    const toolName = tool === 'opencode' ? 'bash' : 'Bash'
    expect(await fleet.events('tool_call')).toMatchObject([{ session_id: 's1', metadata: { toolName } }])
    expect(await call(tool, 'rm -rf /data')).toMatch(/^The policy of this agent denies this call \(No rm\)/)
    await fleet.kill('exfiltration')
    expect(await call(tool, 'ls')).toContain('exfiltration')
    fleet.wire.mode = 'refuse'
    expect(await call(tool, 'ls')).toContain('exfiltration')
  })

  test('follows the fail mode while the service is away', async () => {
    await home.run(['install', tool, '--yes'])
    fleet.wire.mode = 'refuse'
    expect(await call(tool, 'ls')).toBeUndefined()
    await home.run(['install', tool, '--yes', '--fail-closed'])
    expect(await call(tool, 'ls')).toMatch(/^The security monitor could not check this call/)
  })

  test.each(['/missing/node wardline-agent hook', 'exit 1', 'kill -9 $$'])(
    'blocks the call when the hook fails: %s',
    async (command) => {
      home.write(files[tool], pluginText(tool, command))
      expect(await call(tool, 'ls')).toBe('The Wardline hook failed, so this call is blocked.')
    },
  )

  test('blocks the call when the hook takes too long', async () => {
    const text = pluginText(tool, 'exec sleep 600')
    expect(text).toContain('timeoutMs = 5_000')
    home.write(files[tool], text.replace('timeoutMs = 5_000', 'timeoutMs = 50'))
    expect(await call(tool, 'ls')).toBe('The Wardline hook failed, so this call is blocked.')
  })

  test('is neither written over a foreign file of that name nor removed with it', async () => {
    home.write(files[tool], 'export const Mine = 1\n')
    const refused = await home.run(['install', tool, '--yes'])
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('not the plugin of wardline-agent') })
    expect((await home.run(['uninstall', tool, '--yes'])).stdout).toContain('not installed')
    expect(home.read(files[tool])).toBe('export const Mine = 1\n')
    home.write(files[tool], `${pluginText(tool, 'old wardline-agent hook')}// changed\n`)
    expect((await home.run(['uninstall', tool, '--yes'])).code).toBe(0)
    expect(() => home.read(files[tool])).toThrow('ENOENT')
  })
})

describe('the configuration of OpenClaw', slow, () => {
  const plugins = () => JSON.parse(home.read(config)).plugins

  test('a rule for subagents is for the sessions whose key is of one', async () => {
    await fleet.addPolicy({
      title: 'Subagents',
      rules: [{ title: 'Read only', decision: 'deny', match: { scope: 'subagent' } }],
    })
    await home.run(['install', 'openclaw', '--yes'])
    expect(await call('openclaw', 'ls')).toBeUndefined()
    sessionKey = 'agent:main:subagent:7d9f'
    expect(await call('openclaw', 'ls')).toContain('Read only')
  })

  test.each([
    undefined,
    '',
    '{ "gateway": { "port": 1 } }',
    '{\n\t"plugins": {\n\t\t"allow": ["telegram"],\n\t\t"load": { "paths": ["/opt/mine"] }\n\t}\n}\n',
    '{ "plugins": { "entries": { "wardline": { "enabled": false } } } }',
  ])('enables the plugin, and is restored by uninstall byte for byte: %j', async (before) => {
    if (before !== undefined) home.write(config, before)
    expect(await home.run(['install', 'openclaw', '--yes'])).toMatchObject({ code: 0, stderr: '' })
    // Without a setting for hooks, the gateway would not load the plugin at startup.
    const wardline = { enabled: true, hooks: { timeouts: { before_tool_call: 15_000 } } }
    expect(plugins().entries).toEqual({ wardline })
    expect(plugins().load.paths.at(-1)).toBe(home.path(files.openclaw))
    if (before?.includes('allow')) {
      expect(plugins()).toMatchObject({
        allow: ['telegram', 'wardline'],
        load: { paths: ['/opt/mine', expect.any(String)] },
      })
    }
    expect((await home.run(['install', 'openclaw', '--yes'])).stdout).toContain('already installed')
    expect(await home.run(['uninstall', 'openclaw', '--yes'])).toMatchObject({ code: 0, stderr: '' })
    expect(existsSync(home.path(config)) ? home.read(config) : undefined).toBe(before)
    expect(existsSync(home.path(files.openclaw))).toBe(false)
  })

  // OpenClaw writes to its configuration itself.
  test('loses only what install added when it was changed since', async () => {
    home.write(config, '{ "plugins": { "allow": ["telegram"] } }')
    await home.run(['install', 'openclaw', '--yes'])
    home.write(config, home.read(config).replace('{ "plugins"', '{ "meta": { "touched": 1 }, "plugins"'))
    await home.run(['uninstall', 'openclaw', '--yes'])
    expect(home.read(config)).toBe('{ "meta": { "touched": 1 }, "plugins": { "allow": ["telegram"] } }')
  })

  test.each([
    ['{ "plugins": { "enabled": false } }', 'plugins.enabled is false'],
    ['{ "plugins": { "deny": ["wardline"] } }', 'plugins.deny names wardline'],
    ['{ "plugins": { "load": [] } }', 'plugins.load must be an object'],
    ['{ plugins: {} }', 'is not JSON'],
  ])('refuses the install without writing anything: %s', async (before, fault) => {
    home.write(config, before)
    expect(await home.run(['install', 'openclaw', '--yes'])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(fault),
    })
    expect(home.read(config)).toBe(before)
    expect(existsSync(home.path(files.openclaw))).toBe(false)
  })

  test('is found by the variables of OpenClaw, and not in a project', async () => {
    home.env = { ...home.env, OPENCLAW_STATE_DIR: home.path('claw'), OPENCLAW_CONFIG_PATH: home.path('claw.json') }
    await home.run(['install', 'openclaw', '--yes'])
    expect(JSON.parse(home.read('claw.json')).plugins.load.paths).toEqual([home.path('claw/wardline.js')])
    expect(await home.run(['install', 'openclaw', '--project', '--yes'])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('OpenClaw has no settings of a project.'),
    })
  })
})
