import { readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { AgentHome, sample } from '../testing/agent-command.ts'
import { agentId, TestFleet } from '../testing/service.ts'

// The hook as a coding agent runs it, against a real service.
const slow = { timeout: 60_000 }
const silence = { code: 0, stdout: '', stderr: '' }
const settingsFile = '.claude/settings.json'

let fleet: TestFleet
beforeAll(async () => {
  fleet = await TestFleet.open()
}, 60_000)
afterAll(() => fleet[Symbol.asyncDispose]())

let agents = 0
/** Returns an agent of a name that no test had before, with the hook installed. */
async function installedAgent(env: Record<string, string> = {}) {
  const instance = `${agentId}-${++agents}`
  const key = await fleet.createKey([instance])
  const home = new AgentHome({
    WARDLINE_URL: fleet.wire.url,
    WARDLINE_KEY: key,
    WARDLINE_INSTANCE_ID: instance,
    ...env,
  })
  await home.run(['install', 'claude-code', '--yes'])
  const call = { ...sample('claude-code.PreToolUse.Bash.agent-sdk-0.3.330'), cwd: home.path('project') }
  const puts = () => fleet.wire.asked(new RegExp(`^PUT .*/${instance}/config$`)).length
  const stateFile = (ending: string) => {
    const folder = home.path('.local/state/wardline')
    return `${folder}/${readdirSync(folder).find((name) => name.endsWith(ending))}`
  }
  return {
    home,
    instance,
    puts,
    stateFile,
    hook: () => home.hook(['claude-code'], call),
    /** Lets the time pass after which a hook reads the configuration again. */
    letTurnPass: () => utimesSync(stateFile('.config'), new Date(0), new Date(0)),
    settings: () => JSON.parse(home.read(settingsFile)),
  }
}

test('the hook reports the configuration, and a weakened hook is critical', slow, async () => {
  const { home, instance, puts, hook, letTurnPass, settings } = await installedAgent()
  home.write('project/.mcp.json', { mcpServers: { db: { command: 'npx', args: ['server'] } } })
  expect(await hook()).toEqual(silence)
  const reported = await fleet.configs(instance)
  expect(reported.map(({ source }) => source)).toEqual(['claude-code', expect.stringMatching(/^claude-code:project-/)])
  const [user, folder] = reported.map(({ items }) => items)
  expect(user?.filter((item) => item.ours)).toMatchObject([{ kind: 'hook', name: 'settings.json PreToolUse wardline' }])
  expect(folder).toContainEqual(expect.objectContaining({ kind: 'server', name: 'db', command: 'npx server' }))
  expect(puts()).toBe(2)

  const weakened = settings()
  delete weakened.hooks.PreToolUse[0].hooks[0].onFailure
  home.write(settingsFile, weakened)
  expect(await hook()).toEqual(silence)
  expect(puts()).toBe(2)
  letTurnPass()
  expect(await hook()).toEqual(silence)
  const events = await fleet.events('agent_config_changed', 'critical')
  expect(events.filter((event) => event.instance_id === instance)).toMatchObject([
    { description: expect.stringContaining("Wardline's hook settings.json PreToolUse wardline weakened") },
  ])
  expect(puts()).toBe(3)
})

test('what the service knows is not sent again within ten minutes', slow, async () => {
  const { puts, hook, letTurnPass, stateFile } = await installedAgent()
  await hook()
  letTurnPass()
  await hook()
  expect(puts()).toBe(2)
  const file = stateFile('.configuration')
  writeFileSync(file, readFileSync(file, 'utf8').replaceAll(/"at":\d+/g, '"at":1'))
  letTurnPass()
  await hook()
  expect(puts()).toBe(4)
})

test('settings that disable hooks in a folder are critical', slow, async () => {
  const { home, instance, hook, letTurnPass } = await installedAgent()
  await hook()
  home.write('project/.claude/settings.local.json', { disableAllHooks: true })
  letTurnPass()
  await hook()
  const events = await fleet.events('agent_config_changed', 'critical')
  expect(events.filter((event) => event.instance_id === instance)).toMatchObject([
    { description: expect.stringContaining("Wardline's hook in this folder weakened") },
  ])
})

// A service that fails only there must not block or change calls.
test.each(['open', 'closed'])('without an answer, the call is decided as before (%s)', slow, async (failMode) => {
  const { puts, hook, letTurnPass } = await installedAgent({ WARDLINE_FAIL_MODE: failMode })
  onTestFinished(() => {
    fleet.wire.cut = /(?!)/
    fleet.wire.stall = /(?!)/
  })
  fleet.wire.cut = /^PUT/
  expect(await hook()).toEqual(silence)
  letTurnPass()
  fleet.wire.cut = /(?!)/
  fleet.wire.stall = /^PUT/
  expect(await hook()).toEqual(silence)
  letTurnPass()
  expect(puts()).toBe(4)
  fleet.wire.stall = /(?!)/
  expect(await hook()).toEqual(silence)
  expect(puts()).toBe(6)
})

test('a suspended agent reports nothing', slow, async () => {
  const { home, instance, puts, hook, letTurnPass } = await installedAgent()
  await hook()
  home.write('.claude/CLAUDE.md', 'Something new.')
  await fleet.kill('exfiltration', instance)
  letTurnPass()
  expect(await hook()).toMatchObject({ code: 2 })
  expect(puts()).toBe(2)
})

test('a service that does not take reports gets none for an hour', slow, async () => {
  let puts = 0
  const older = createServer(async (request, response) => {
    const parts = []
    for await (const part of request) parts.push(part)
    if (request.method === 'PUT') {
      puts++
      response.writeHead(404).end('{}')
      return
    }
    const { method = 'GET', headers } = request
    const { 'x-monitor-key': key = '', 'content-type': type = '' } = headers as Record<string, string>
    const body = method === 'GET' ? {} : { body: Buffer.concat(parts) }
    const sent = { method, headers: { 'x-monitor-key': key, ...(type ? { 'content-type': type } : {}) }, ...body }
    const answer = await fetch(`${fleet.wire.url}${request.url}`, sent)
    response.writeHead(answer.status, { etag: answer.headers.get('etag') ?? '' }).end(await answer.text())
  })
  await new Promise<void>((resolve) => older.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    older.close()
    older.closeAllConnections()
  })
  const { hook, letTurnPass, stateFile } = await installedAgent({
    WARDLINE_URL: `http://127.0.0.1:${(older.address() as AddressInfo).port}`,
  })
  expect(await hook()).toEqual(silence)
  expect(puts).toBe(2)
  letTurnPass()
  expect(await hook()).toEqual(silence)
  expect(puts).toBe(2)
  const file = stateFile('.configuration')
  writeFileSync(file, readFileSync(file, 'utf8').replaceAll(/"at":\d+/g, '"at":1'))
  letTurnPass()
  await hook()
  expect(puts).toBe(4)
})
