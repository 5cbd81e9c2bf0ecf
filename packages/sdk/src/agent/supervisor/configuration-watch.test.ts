import { readdirSync, utimesSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { Service } from '../../service.ts'
import { AgentHome, sample } from '../../testing/agent-command.ts'
import { agentId, TestFleet } from '../../testing/service.ts'
import { eventually, Supervised } from '../../testing/supervised.ts'
import { configurationEveryMs } from '../agent-memory.ts'
import { codingToolOf, watchConfiguration } from './configuration-watch.ts'

// Hook, supervisor and service are the real ones.
const slow = { timeout: 200_000 }
const settingsFile = '.claude/settings.json'
const call = (home: AgentHome) => ({
  ...sample('claude-code.PreToolUse.Bash.agent-sdk-0.3.330'),
  cwd: home.folder,
})

let fleet: TestFleet
beforeAll(async () => {
  fleet = await TestFleet.open()
}, 60_000)
afterAll(() => fleet[Symbol.asyncDispose]())

const critical = async (instance: string) =>
  (await fleet.events('agent_config_changed')).filter((event) => event.instance_id === instance)

test.each<[string[], string, string | undefined]>([
  [['claude'], 'a', 'claude-code'],
  [['/usr/local/bin/claude', '--continue'], 'a', 'claude-code'],
  [['npx', '-y', '@anthropic-ai/claude-code@2.1.300'], 'a', 'claude-code'],
  [['npx', '@openai/codex'], 'a', 'codex'],
  [['cursor-agent'], 'a', 'cursor'],
  [['npx', '@google/gemini-cli'], 'a', 'gemini-cli'],
  [['copilot', '-p', 'x'], 'a', 'copilot-cli'],
  [['npx', 'opencode-ai'], 'a', 'opencode'],
  [['node', '/opt/openclaw.mjs', 'gateway'], 'a', 'openclaw'],
  [['./start.sh'], 'codex-atlas-anna', 'codex'],
  [['claude-desktop'], 'a', undefined],
  [['python3', 'claude.py'], 'a', undefined],
  [['sh', '-c', 'claude'], 'a', undefined],
])('of %j with id %s, the coding agent is %s', ([command, ...args], instance, tool) => {
  expect(codingToolOf(command!, args, instance)).toBe(tool)
})

test('a supervisor reports at its start, and a hook that was removed is one critical event', slow, async () => {
  const supervised = new Supervised(fleet)
  const { home } = supervised
  home.env = { ...home.env, PATH: `${home.path('bin')}:${process.env.PATH}` }
  home.write('bin/claude', '#!/bin/sh\nexec sleep 600\n', 0o755)
  await home.run(['install', 'claude-code', '--yes'])
  expect(await home.hook(['claude-code'], call(home))).toMatchObject({ code: 0 })
  const key = await fleet.createKey([agentId], { supervises: true })
  const start = async () => {
    const { child, ended } = supervised.start(['claude'], { env: { WARDLINE_KEY: key } })
    const puts = () => fleet.wire.asked(/^PUT .*\/agent-1\/config$/).length
    const before = puts()
    await eventually(() => expect(puts()).toBeGreaterThan(before))
    await eventually(async () =>
      expect((await fleet.configs()).map(({ source }) => source)).toContain('supervisor:claude-code'),
    )
    return async () => {
      child.kill('SIGTERM')
      await ended
    }
  }
  const stop = await start()
  const configs = await fleet.configs()
  for (const source of ['claude-code', 'supervisor:claude-code']) {
    const { items } = configs.find((each) => each.source === source)!
    expect(items.filter(({ ours }) => ours)).toHaveLength(1)
  }
  await stop()
  await (await start())()
  expect(await critical(agentId)).toEqual([])
  home.write(settingsFile, {})
  await (await start())()
  await eventually(async () =>
    expect(await critical(agentId)).toMatchObject([
      { severity: 'critical', metadata: { source: 'supervisor:claude-code' } },
    ]),
  )
})

test('while it runs it notices a removed hook at its next look, and nothing else', slow, async () => {
  const program = process.argv[1]!
  process.argv[1] = fileURLToPath(new URL('../../wardline-agent.ts', import.meta.url))
  onTestFinished(() => {
    process.argv[1] = program
    vi.useRealTimers()
  })
  const instance = 'claude-code-watched'
  const [agentKey, key] = [await fleet.createKey([instance]), await fleet.createKey([instance], { supervises: true })]
  const home = new AgentHome({ WARDLINE_URL: fleet.wire.url, WARDLINE_KEY: agentKey, WARDLINE_INSTANCE_ID: instance })
  await home.run(['install', 'claude-code', '--yes'])
  const hook = async () => {
    const folder = home.path('.local/state/wardline')
    for (const name of readdirSync(folder)) {
      if (name.endsWith('.config')) utimesSync(`${folder}/${name}`, new Date(0), new Date(0))
    }
    expect(await home.hook(['claude-code'], call(home))).toMatchObject({ code: 0 })
  }
  expect(await home.hook(['claude-code'], call(home))).toMatchObject({ code: 0 })
  let isSuspended = false
  const service = new Service({ url: fleet.wire.url, key, instanceId: instance })
  const puts = () => fleet.wire.asked(new RegExp(`^PUT .*/${instance}/config$`)).length
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  const end = watchConfiguration({
    tool: 'claude-code',
    env: {},
    home: home.folder,
    settings: { key, instanceId: instance },
    service,
    isSuspended: () => isSuspended,
  })
  const read = async (source: string) => (await fleet.configs(instance)).find((each) => each.source === source)
  await eventually(async () => expect(await read('supervisor:claude-code')).toBeDefined())
  await hook()
  const before = puts()
  vi.advanceTimersByTime(configurationEveryMs)
  await fleet.letTimePass()
  expect(puts()).toBe(before)
  expect(await critical(instance)).toEqual([])
  home.write(settingsFile, {})
  isSuspended = true
  vi.advanceTimersByTime(configurationEveryMs)
  await fleet.letTimePass()
  expect(await critical(instance)).toEqual([])
  isSuspended = false
  vi.advanceTimersByTime(configurationEveryMs)
  await eventually(async () => expect(await critical(instance)).toMatchObject([{ severity: 'critical' }]))
  end()
})
