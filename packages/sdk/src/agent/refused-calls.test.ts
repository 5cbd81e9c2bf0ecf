import { fileURLToPath } from 'node:url'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { AgentHome, sample } from '../testing/agent-command.ts'
import { eventually, TestFleet } from '../testing/service.ts'

const program = fileURLToPath(new URL('../wardline-agent.ts', import.meta.url))
const server = fileURLToPath(new URL('../testing/mcp-server.ts', import.meta.url))
const said = /This agent is suspended \(leak\)/

let fleet: TestFleet
beforeAll(async () => {
  fleet = await TestFleet.open({ WARDLINE_SUSPENSION_SILENCE_SECONDS: '2' })
  await fleet.plantKey('openai', 'hook')
}, 60_000)
afterAll(() => fleet[Symbol.asyncDispose]())

const home = async (instanceId: string, env: Record<string, string> = {}) =>
  new AgentHome({
    WARDLINE_URL: fleet.wire.url,
    WARDLINE_KEY: await fleet.createKey([instanceId]),
    WARDLINE_INSTANCE_ID: instanceId,
    ...env,
  })

async function openHook(): Promise<() => Promise<unknown>> {
  const own = await home('hook')
  const call = sample('claude-code.PreToolUse.Bash.agent-sdk-0.3.330')
  expect(await own.hook(['claude-code'], call)).toMatchObject({ code: 0 })
  return async () => (await own.hook(['claude-code'], call)).stderr
}

async function openProxy(): Promise<() => Promise<unknown>> {
  const own = await home('proxy')
  const client = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } })
  const args = ['--conditions=wardline-source', program, 'mcp-proxy', '--', process.execPath, server]
  await client.connect(new StdioClientTransport({ command: process.execPath, args, env: own.env, stderr: 'pipe' }))
  onTestFinished(() => client.close())
  const call = async () => JSON.stringify(await client.callTool({ name: 'echo', arguments: { said: 'x' } }))
  expect(await call()).not.toMatch(said)
  return call
}

async function openMonitor(): Promise<() => Promise<unknown>> {
  const { monitor } = fleet.monitor({ instanceId: 'monitor', key: await fleet.createKey(['monitor']) })
  await monitor.start()
  const guarded = monitor.guardTool('shell-exec', (command: string) => command, { onDeny: 'return' })
  const call = async () => JSON.stringify(await guarded('ls'))
  expect(await call()).toBe('"ls"')
  await monitor.flush()
  return call
}

// Calls of a suspended agent that its guard refuses are no activity: they would make each stop look ignored.
test.each([
  ['hook', openHook],
  ['proxy', openProxy],
  ['monitor', openMonitor],
])(
  'an agent guarded by the %s stays proven although it goes on to try calls',
  async (instanceId, open) => {
    const call = await open()
    const checks = () => fleet.wire.asked(/\/honeypots\/check\//).length
    await fleet.kill('leak', instanceId)
    await eventually(async () => expect(await call()).toMatch(said))
    const before = checks()
    const state = async () => (await fleet.suspensions(instanceId))[0]!.state
    await eventually(async () => expect(await state()).toBe('proven'))
    for (let attempt = 0; attempt < 3; attempt++) expect(await call()).toMatch(said)
    if (instanceId === 'hook') {
      const { stdout } = await (await home('hook')).run(['status', 'claude-code'])
      expect(stdout).toContain('suspended (leak)')
    }
    expect(checks()).toBe(before)
    expect(await state()).toBe('proven')
    expect(await fleet.events('activity_while_suspended')).toEqual([])
  },
  120_000,
)
