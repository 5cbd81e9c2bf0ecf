import {
  type ConfigItem,
  configLimits,
  type EventList,
  type InstanceConfig,
  type InstanceList,
  toolsNotCompared,
} from '@wardline/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { dayMs, minuteMs } from '../../clock.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { forgetConfigs } from './agent-configs.ts'

let service: TestService
let agent: string
beforeEach(async () => {
  service = await openTestService()
  for (const id of ['dev-1', 'dev-2']) {
    await service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id, agent_type: 'claude-code' } })
  }
  agent = (await service.createKey('agent', ['dev-*'])).key
})
afterEach(() => service[Symbol.asyncDispose]())

const item = (kind: ConfigItem['kind'], name: string, content = 'a', more: Partial<ConfigItem> = {}): ConfigItem => ({
  kind,
  name,
  sha256: content.repeat(64),
  ...more,
})
const hook = item('hook', 'PreToolUse wardline', 'a', { ours: true })
const github = item('server', 'github', 'b', { command: 'npx @example/github', version: '1.0.0' })
const skill = item('skill', 'deploy', 'c')

const report = async (items: ConfigItem[], { source = 'claude-code', id = 'dev-1', key = agent } = {}) => {
  service.clock.advance(10_000)
  return service.call<{ changes: number }>('PUT', `/api/instances/${id}/config`, { key, body: { source, items } })
}
const found = async () =>
  (await service.call<EventList>('GET', '/api/events?type=agent_config_changed')).body.events.toReversed()
const config = async (id = 'dev-1') => (await service.call<InstanceConfig>('GET', `/api/instances/${id}/config`)).body

describe('a supervisor', () => {
  const supervisorKey = async () => {
    const body = { scope: 'agent', name: 'supervisor', instances: ['dev-1'], supervises: true }
    return (await service.call<{ key: string }>('POST', '/api/keys', { body })).body.key
  }
  const rehashed = (items: ConfigItem[], digit: string) => items.map((each) => ({ ...each, sha256: digit.repeat(64) }))

  it('reports beside the agent, so that reports in turn are no change', async () => {
    const key = await supervisorKey()
    for (let turn = 0; turn < 3; turn++) {
      expect((await report([hook, github])).body).toEqual({ changes: 0 })
      expect((await report(rehashed([hook, github], '9'), { key })).body).toEqual({ changes: 0 })
    }
    expect(await found()).toEqual([])
    expect((await config()).configs.map(({ source }) => source)).toEqual(['claude-code', 'supervisor:claude-code'])
  })

  it('notices a changed content and a removed hook, whatever the agent reports meanwhile', async () => {
    const key = await supervisorKey()
    await report([hook, github])
    await report(rehashed([hook, github], '9'), { key })
    await report([hook, github])
    expect((await report([...rehashed([hook], '9'), ...rehashed([github], '8')], { key })).body).toEqual({ changes: 1 })
    await report([hook, github])
    expect((await report(rehashed([github], '8'), { key })).body).toEqual({ changes: 1 })
    const events = await found()
    expect(events.map(({ severity }) => severity)).toEqual(['warning', 'critical'])
    expect(events[1]).toMatchObject({ metadata: { source: 'supervisor:claude-code' } })
  })

  // An agent with its key could otherwise report what its supervisor is compared with.
  it('has a state that no other key changes', async () => {
    expect(await report([hook], { source: 'supervisor:claude-code' })).toMatchObject({ status: 400 })
    const key = await supervisorKey()
    await report([hook], { key })
    await report([])
    expect((await report([], { key })).body).toEqual({ changes: 1 })
  })
})

describe('a change of the configuration', () => {
  it.each<[string, ConfigItem[], 'info' | 'warning' | 'critical', object[], string]>([
    [
      'a hook of ours removed',
      [github, skill],
      'critical',
      [{ kind: 'hook', change: 'removed', unhooked: true }],
      "Wardline's hook PreToolUse wardline removed",
    ],
    [
      'a hook of ours weakened',
      [{ kind: 'hook', name: hook.name, sha256: hook.sha256 }, github, skill],
      'critical',
      [{ change: 'changed', unhooked: true }],
      "Wardline's hook PreToolUse wardline weakened",
    ],
    [
      'a hook of ours changed',
      [{ ...hook, sha256: 'd'.repeat(64) }, github, skill],
      'warning',
      [{ kind: 'hook', change: 'changed' }],
      'hook PreToolUse wardline changed',
    ],
    [
      'another hook added',
      [hook, github, skill, item('hook', 'Stop x')],
      'warning',
      [{ kind: 'hook', change: 'added' }],
      'hook Stop x added',
    ],
    [
      'a permission added',
      [hook, github, skill, item('permission', 'allow')],
      'warning',
      [{ kind: 'permission', change: 'added' }],
      'permission allow added',
    ],
    [
      'a server in another version',
      [hook, { ...github, version: '2.0.0' }, skill],
      'warning',
      [{ kind: 'server', change: 'changed', from: '1.0.0', to: '2.0.0' }],
      'server github changed from 1.0.0 to 2.0.0',
    ],
    ['a server removed', [hook, skill], 'warning', [{ kind: 'server', change: 'removed' }], 'server github removed'],
    [
      'a skill changed',
      [hook, github, item('skill', 'deploy', 'e')],
      'info',
      [{ kind: 'skill', change: 'changed' }],
      'skill deploy changed',
    ],
    [
      'instructions added',
      [hook, github, skill, item('instructions', 'CLAUDE.md')],
      'info',
      [{ kind: 'instructions', change: 'added' }],
      'instructions CLAUDE.md added',
    ],
    [
      'a new tool',
      [hook, github, skill, item('tool', 'send')],
      'warning',
      [{ kind: 'tool', change: 'added' }],
      'tool send added',
    ],
    [
      'a skill and a hook of ours',
      [github],
      'critical',
      [{ unhooked: true }, { kind: 'skill' }],
      'wardline removed, skill deploy removed',
    ],
  ])('%s', async (_name, items, severity, changes, text) => {
    expect((await report([hook, github, skill])).body).toEqual({ changes: 0 })
    expect(await found()).toEqual([])
    expect((await report(items)).body).toEqual({ changes: changes.length })
    const [event, ...more] = await found()
    expect(more).toEqual([])
    expect(event).toMatchObject({
      severity,
      instance_id: 'dev-1',
      by_service: true,
      metadata: { source: 'claude-code', changes },
    })
    expect(event!.description).toContain(text)
  })

  it('is neither another order nor the same state again, which is only noted', async () => {
    await report([hook, github, skill])
    service.clock.advance(minuteMs)
    expect((await report([skill, hook, github])).body).toEqual({ changes: 0 })
    expect(await found()).toEqual([])
    const [only] = (await config()).configs
    expect(only).toMatchObject({ source: 'claude-code', changed_at: null, items: [hook, github, skill] })
    expect(Date.parse(only!.reported_at) - Date.parse(only!.since)).toBe(minuteMs + 10_000)
  })

  it('of a tool server after its approval is a warning, a tool that is gone is not', async () => {
    const source = 'mcp:github'
    await report([item('tool', 'search'), item('tool', 'read')], { source })
    await report([item('tool', 'search'), item('tool', 'read', 'f')], { source })
    await report([item('tool', 'search')], { source })
    expect((await found()).map(({ severity }) => severity)).toEqual(['warning', 'info'])
  })

  it('from tools to too many tools is info', async () => {
    const source = 'mcp:github'
    await report([item('tool', 'search')], { source })
    await report([item('tool', toolsNotCompared)], { source })
    expect((await found()).map(({ severity }) => severity)).toEqual(['info'])
  })

  it('is too many tools in the first report, once: no later report can show what changes in them', async () => {
    const source = 'mcp:github'
    expect((await report([item('tool', toolsNotCompared)], { source })).body).toEqual({ changes: 1 })
    expect((await report([item('tool', toolsNotCompared)], { source })).body).toEqual({ changes: 0 })
    const changes = [{ kind: 'tool', name: toolsNotCompared, change: 'added' }]
    expect(await found()).toMatchObject([{ severity: 'info', metadata: { source, total: 1, changes } }])
    expect((await config()).configs).toMatchObject([{ source, changed_at: null }])
  })

  it('with another key is what the new hashes do not hide', async () => {
    await report([hook, github, skill])
    const key = (await service.createKey('agent', ['dev-*'])).key
    const rehashed = [hook, github, skill].map((each) => ({ ...each, sha256: '9'.repeat(64) }))
    expect((await report(rehashed, { key })).body).toEqual({ changes: 0 })
    expect((await config()).configs[0]).toMatchObject({ changed_at: null })
    expect((await report([hook, github, skill])).body).toEqual({ changes: 0 })
    expect((await report(rehashed.slice(1), { key })).body).toEqual({ changes: 1 })
    expect((await report([{ ...github, sha256: '8'.repeat(64) }, rehashed[2]!], { key })).body).toEqual({ changes: 1 })
    expect((await found()).map(({ severity }) => severity)).toEqual(['critical', 'warning'])
  })

  it('is one event if many requests report it at the same time', async () => {
    await report([hook, github])
    const answers = await Promise.all(Array.from({ length: 5 }, () => report([hook])))
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200])
    expect(answers.map(({ body }) => body.changes).sort()).toEqual([0, 0, 0, 0, 1])
    expect(await found()).toHaveLength(1)
  })

  it('with a thousand items lists a few, and counts the others', async () => {
    const many = (content: string) =>
      Array.from({ length: configLimits.items }, (_, n) => item('skill', `${n} ${'\u{1f600}'.repeat(20)}`, content))
    expect((await report(many('a'))).status).toBe(200)
    expect((await report(many('b'))).body).toEqual({ changes: 1000 })
    const [event] = await found()
    expect(event!.metadata).toMatchObject({ total: 1000 })
    expect((event!.metadata as { changes: object[] }).changes).toHaveLength(configLimits.listedChanges)
    expect(event!.description).toContain('and 995 more')
  })
})

it('belongs to the agent of the key, and is forgotten with it or after a month', async () => {
  const other = (await service.createKey('agent', ['bot-*'])).key
  expect(await report([hook], { key: other })).toMatchObject({ status: 403 })
  expect(await report([hook], { id: 'dev-9' })).toMatchObject({ status: 404 })
  await report([hook])
  await report([hook], { id: 'dev-2' })
  await service.call('DELETE', '/api/instances/dev-2')
  expect(await service.call('GET', '/api/instances/dev-2/config')).toMatchObject({ status: 404 })
  await service.call('POST', '/api/heartbeat', { body: { instance_id: 'dev-2', name: 'dev-2' } })
  expect(await config('dev-2')).toEqual({ configs: [] })
  service.clock.advance(31 * dayMs)
  await forgetConfigs(service.deps)
  expect(await config()).toEqual({ configs: [] })
})

it('finds who runs a server, also with a name that has signs of a pattern', async () => {
  await report([github, item('server', 'my_%db')])
  await report([item('server', 'myXXdb')], { id: 'dev-2' })
  const who = async (server: string) => {
    const { body } = await service.call<InstanceList>('GET', `/api/instances?server=${encodeURIComponent(server)}`)
    return body.instances.map(({ id }) => id)
  }
  expect(await who('GitHub')).toEqual(['dev-1'])
  expect(await who('my_%db')).toEqual(['dev-1'])
  expect(await who('git')).toEqual([])
})

it.each<[string, object]>([
  ['source', { source: 'Claude Code', items: [] }],
  ['items', { source: 'a', items: [hook, hook] }],
  ['/items/0/name', { source: 'a', items: [{ ...hook, name: 'a\nb' }] }],
  ['/items/0/sha256', { source: 'a', items: [{ ...hook, sha256: 'A'.repeat(64) }] }],
  ['/items/0/content', { source: 'a', items: [{ ...hook, content: 'x' }] }],
])('refuses an invalid %s', async (field, body) => {
  const answer = await service.call<{ error: { message: string } }>('PUT', '/api/instances/dev-1/config', { body })
  expect(answer.status).toBe(400)
  expect(JSON.stringify(answer.body)).toContain(field.split('/').at(-1))
})

it('bounds the sources and the reports of an agent', async () => {
  for (let n = 0; n < configLimits.sources; n++) await report([], { source: `s-${n}` })
  expect(await report([], { source: 'one-more' })).toMatchObject({ status: 429 })
  expect(await report([], { source: 's-1' })).toMatchObject({ status: 200 })
  let status = 200
  for (let n = 0; n < 100 && status === 200; n++) {
    ;({ status } = await service.call('PUT', '/api/instances/dev-1/config', {
      key: agent,
      body: { source: 's-1', items: [] },
    }))
  }
  expect(status).toBe(429)
})
