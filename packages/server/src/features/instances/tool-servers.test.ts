import {
  type ConfigItem,
  type EventList,
  type FleetSummary,
  type InstanceConfig,
  type SharedFleet,
  type ToolServerList,
  toolServerLimits,
} from '@wardline/contract'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { dayMs, hourMs, minuteMs } from '../../clock.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { forgetConfigs } from './agent-configs.ts'
import { deleteSeenOnce } from './queries.ts'

let service: TestService
let agent: string
beforeEach(async () => {
  service = await openTestService()
  for (const id of ['dev-1', 'dev-2', 'dev-3']) {
    await service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id, agent_type: 'claude-code' } })
  }
  agent = (await service.createKey('agent', ['dev-*'])).key
})
afterEach(() => service[Symbol.asyncDispose]())

const server = (name: string, more: Partial<ConfigItem> = {}): ConfigItem => ({
  ...{ kind: 'server', name, sha256: 'a'.repeat(64) },
  ...more,
})
const github = (version: string) => server('github', { command: 'npx @example/github', version })
const now = () => new Date(service.clock.now()).toISOString()

async function report(id: string, items: ConfigItem[], source = 'claude-code'): Promise<string> {
  service.clock.advance(10_000)
  const answer = await service.call('PUT', `/api/instances/${id}/config`, { key: agent, body: { source, items } })
  expect(answer.status).toBe(200)
  return now()
}
const list = async (query = '') => (await service.call<ToolServerList>('GET', `/api/tool-servers${query}`)).body
const names = async (query = '') => (await list(query)).servers.map(({ name }) => name)
const ids = async (query: string) =>
  (await service.call<SharedFleet>('GET', `/api/fleet?${query}`)).body.instances.map(({ id }) => id)

it('shows which servers agents have, by version, command and address, and since when', async () => {
  const first = await report('dev-1', [github('1.0.0'), server('db', { address: 'https://db.example.com' })])
  await report('dev-2', [github('1.0.0')])
  const other = await report('dev-3', [server('GitHub', { command: 'node evil.js' })])
  // Of two sources of one agent, an agent is counted once.
  const last = await report('dev-1', [github('1.0.0')], 'claude-code:shop')
  const { servers, next } = await list()
  expect(next).toBeNull()
  expect(servers).toEqual([
    {
      ...{ name: 'db', agents: 1, first_seen: first, last_seen: first, variant_count: 1 },
      variants: [
        {
          ...{ version: null, command: null, address: 'https://db.example.com' },
          ...{ agents: 1, first_seen: first, last_seen: first },
        },
      ],
    },
    {
      ...{ name: 'GitHub', agents: 3, first_seen: first, last_seen: last, variant_count: 2 },
      variants: [
        {
          ...{ version: '1.0.0', command: 'npx @example/github', address: null },
          ...{ agents: 2, first_seen: first, last_seen: last },
        },
        {
          ...{ version: null, command: 'node evil.js', address: null },
          ...{ agents: 1, first_seen: other, last_seen: other },
        },
      ],
    },
  ])
})

it('follows changes: another version is a variant since then, and what was removed is gone', async () => {
  const first = await report('dev-1', [github('1.0.0'), server('db')])
  const changed = await report('dev-1', [github('2.0.0')])
  const { servers } = await list()
  expect(servers).toMatchObject([
    {
      ...{ name: 'github', first_seen: first, last_seen: changed, variant_count: 1 },
      variants: [{ version: '2.0.0', agents: 1, first_seen: changed }],
    },
  ])
  await report('dev-1', [])
  expect(await list()).toEqual({ servers: [], next: null })
})

it('was last seen with the last report, to about an hour, and is stored again if rows are missing', async () => {
  const first = await report('dev-1', [github('1.0.0')])
  service.clock.advance(2 * minuteMs)
  await report('dev-1', [github('1.0.0')])
  expect((await list()).servers).toMatchObject([{ last_seen: first }])
  await service.execute('delete from tool_servers')
  service.clock.advance(hourMs)
  const later = await report('dev-1', [github('1.0.0')])
  expect((await list()).servers).toMatchObject([{ name: 'github', last_seen: later }])
  service.clock.advance(hourMs)
  const last = await report('dev-1', [github('1.0.0')])
  expect((await list()).servers).toMatchObject([{ first_seen: later, last_seen: last }])
})

it('is forgotten with its agent, after a month, and with agents that were seen only once', async () => {
  for (const id of ['dev-1', 'dev-2', 'dev-3']) await report(id, [server(id)])
  await service.call('DELETE', '/api/instances/dev-2')
  expect(await names()).toEqual(['dev-1', 'dev-3'])
  await deleteSeenOnce(service.deps.database.db, ['dev-3'], service.clock.now())
  expect(await names()).toEqual(['dev-1'])
  expect(await service.rows('select instance_id from agent_configs')).toEqual([{ instance_id: 'dev-1' }])
  service.clock.advance(29 * dayMs)
  await forgetConfigs(service.deps)
  expect(await names()).toEqual(['dev-1'])
  service.clock.advance(2 * dayMs)
  await forgetConfigs(service.deps)
  expect(await names()).toEqual([])
})

it('is listed in pages, each name once, also with hostile names', async () => {
  const hostile = ['../%_', '<img src=x onerror=alert(1)>', "'; drop table tool_servers; --", 'İstanbul', 'ÅΣ', '😀']
  const plain = Array.from({ length: 150 }, (_, n) => `server-${n}`)
  await report(
    'dev-1',
    [...hostile, ...plain].map((name) => server(name)),
  )
  await report('dev-2', [server('ÅΣ'.toLowerCase()), server('SERVER-7'), server('server-7')])
  const seen: string[] = []
  for (let after: string | null = ''; after !== null; ) {
    const page: ToolServerList = await list(`?limit=7${after && `&after=${encodeURIComponent(after)}`}`)
    expect(page.servers.length).toBeLessThanOrEqual(7)
    seen.push(...page.servers.map(({ name }) => name))
    after = page.next
  }
  expect(seen.map((name) => name.toLowerCase()).toSorted()).toEqual(
    [...hostile, ...plain].map((name) => name.toLowerCase()).toSorted(),
  )
  const first = await list()
  expect(first.servers).toHaveLength(toolServerLimits.page)
  for (const name of hostile) expect(await ids(`server=${encodeURIComponent(name)}`)).toContain('dev-1')
  expect(await service.call('GET', '/api/tool-servers?limit=101')).toMatchObject({ status: 400 })
  expect(await service.call('GET', '/api/tool-servers?after=a%0Ab')).toMatchObject({ status: 400 })
})

// A key could otherwise fill the list, which people read, with names that it invents.
it('lists at most 500 names of the agents of one key, and reports those left out', async () => {
  const own = await service.createKey('agent', ['bot-*'])
  for (const id of ['bot-1', 'bot-2']) {
    await service.call('POST', '/api/heartbeat', { key: own.key, body: { instance_id: id, name: id } })
  }
  const put = async (id: string, items: ConfigItem[]) => {
    service.clock.advance(10_000)
    const body = { source: 'claude-code', items }
    expect((await service.call('PUT', `/api/instances/${id}/config`, { key: own.key, body })).status).toBe(200)
  }
  const invented = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, n) => server(`invented-${from + n}`))
  const listed = async () => (await service.rows('select distinct server_key from tool_servers')).length
  const refused = async () => {
    await service.services.countedReports.flush()
    await service.services.ingest.whenIdle()
    const { body } = await service.call<EventList>('GET', '/api/events?type=quota_exceeded')
    return body.events.toReversed().map(({ severity, metadata }) => [severity, metadata?.refused])
  }
  await put('bot-1', invented(0, 499))
  expect([await listed(), await refused()]).toEqual([499, []])
  // What the key lists already needs no room.
  await put('bot-2', [...invented(0, 10), ...invented(600, 900)])
  expect(await listed()).toBe(500)
  expect(await refused()).toEqual([['warning', { tool_servers: 299 }]])
  const { body } = await service.call<InstanceConfig>('GET', '/api/instances/bot-2/config')
  expect(body.configs[0]!.items).toHaveLength(310)
  // Agents of other keys have room of theirs, and what is removed makes room.
  await report('dev-1', [github('1.0.0')])
  await put('bot-1', [])
  await put('bot-2', invented(600, 900))
  expect(await listed()).toBe(301)
})

it('lists the variants of most agents, and counts the others', async () => {
  const many = Array.from({ length: 40 }, (_, n) => n)
  for (const n of many) await report('dev-1', [github(`1.0.${n}`)], `s-${n}`)
  await report('dev-2', [github('1.0.39')])
  const [only] = (await list()).servers
  expect(only).toMatchObject({ agents: 2, variant_count: 40 })
  expect(only!.variants).toHaveLength(toolServerLimits.variants)
  expect(only!.variants[0]).toMatchObject({ version: '1.0.39', agents: 2 })
})

it('filters the ids of the fleet, as children of an agent do', async () => {
  await report('dev-1', [server('my_%db')])
  await report('dev-2', [server('myXXdb'), server('shared')])
  await report('dev-3', [server('Shared')])
  const body = { instance_id: 'child', name: 'child', parent_instance_id: 'dev-1' }
  await service.call('POST', '/api/heartbeat', { body })
  expect(await ids('server=my_%25db')).toEqual(['dev-1'])
  expect(await ids('server=SHARED')).toEqual(['dev-2', 'dev-3'])
  expect(await ids('server=shared&from=dev-3')).toEqual(['dev-3'])
  expect(await ids('parent=dev-1')).toEqual(['child'])
  expect(await ids('parent=dev-1&server=shared')).toEqual([])
  expect(await ids('')).toEqual(['child', 'dev-1', 'dev-2', 'dev-3'])
})

it('is read by readers only', async () => {
  for (const path of [
    '/api/tool-servers',
    '/api/fleet',
    '/api/fleet/summary',
    '/api/fleet/groups?by=env',
    '/api/fleet/tags',
  ]) {
    expect(await service.call('GET', path, { key: agent })).toMatchObject({ status: 403 })
    expect((await service.call('GET', path, { key: (await service.createKey('viewer')).key })).status).toBe(200)
  }
})

it('shows and counts only agents of the team of a caller who is limited to it', async () => {
  for (const id of ['dev-1', 'dev-2']) await report(id, [github(id)])
  await report('dev-3', [server('other')])
  await service.call('PUT', '/api/instances/dev-1/tags', { body: { tags: ['team:web'] } })
  const body = { scope: 'viewer', name: 'web', tags_scope: ['team:web'] }
  const { key } = (await service.call<{ key: string }>('POST', '/api/keys', { body })).body
  const { servers, next } = (await service.call<ToolServerList>('GET', '/api/tool-servers', { key })).body
  expect(next).toBeNull()
  expect(servers).toMatchObject([
    { name: 'github', agents: 1, variant_count: 1, variants: [{ version: 'dev-1', agents: 1 }] },
  ])
  const { body: found } = await service.call<SharedFleet>('GET', '/api/fleet?server=github', { key })
  expect(found.instances).toMatchObject([{ id: 'dev-1' }])
  const { body: counted } = await service.call<FleetSummary>('GET', '/api/fleet/summary', { key })
  expect(counted.state?.counts.all).toBe(1)
})
