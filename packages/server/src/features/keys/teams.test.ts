import { type Endpoint, endpoints, type KeyCreated } from '@wardline/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'

const team = 'team:payments'
/** Every id, name and text of agents of others contains it. */
const foreign = 'foreign'
const own = ['pay-1', 'pay-2']
const others = [`${foreign}-1`, `${foreign}-2`, `${foreign}-untagged`]
/** Gives itself the tag of the team, which must not count. */
const pretender = `${foreign}-pretender`

interface Filled {
  service: TestService
  viewer: string
  operator: string
}

/** Opens a service in which agents of the team, and of others if wanted, did what an endpoint could show. */
async function fill(hasOthers: boolean): Promise<Filled> {
  const service = await openTestService()
  const ok = async <Body>(method: 'GET' | 'POST' | 'PUT', path: string, body?: object): Promise<Body> => {
    const answer = await service.call<Body>(method, path, body === undefined ? {} : { body })
    expect(answer.status, `${path}: ${answer.text}`).toBeLessThan(300)
    return answer.body
  }
  const agents = hasOthers ? [...others, pretender, ...own] : own
  for (const id of agents) {
    const tags = id === pretender ? { tags: [team] } : {}
    await ok('POST', '/api/heartbeat', { instance_id: id, name: `Agent ${id}`, agent_type: 'test', ...tags })
    if (own.includes(id)) await ok('PUT', `/api/instances/${id}/tags`, { tags: [team] })
    if (id === others[0]) await ok('PUT', `/api/instances/${id}/tags`, { tags: [`team:${foreign}`] })
  }
  for (const id of agents) {
    // Only now, so that the same happens at the same times in both services; ids of one millisecond have a random order.
    if (own.includes(id)) service.clock.advance(1_000)
    const about = { source: id, instance_id: id, session_id: `session-${id}` }
    for (const tool of ['file-read', 'http-request']) {
      const metadata = { tool, target: `https://${id}.example/` }
      await ok('POST', '/api/events', {
        ...about,
        severity: 'info',
        event_type: 'tool_call',
        description: id,
        metadata,
      })
    }
    for (const severity of ['warning', 'critical', 'breach']) {
      await ok('POST', '/api/events', {
        ...about,
        severity,
        event_type: `report_of_${id}`.replaceAll('-', '_'),
        description: id,
      })
    }
    await ok('POST', '/api/honeypots', { type: 'file_path', path: `/srv/${id}`, instanceId: id })
    await ok('POST', `/api/kill/${id}`, { reason: `Stop ${id}` })
    if (id !== own[1]) await ok('POST', `/api/resume/${id}`, {})
  }
  if (hasOthers) await ok('POST', '/api/honeypots', { type: 'file_path', path: `/srv/${foreign}-for-all` })
  const created = async (scope: string) =>
    (await ok<KeyCreated>('POST', '/api/keys', { scope, name: `${scope} of payments`, tags_scope: [team] })).key
  return { service, viewer: await created('viewer'), operator: await created('operator') }
}

let filled: Filled
let alone: Filled
beforeAll(async () => {
  filled = await fill(true)
  alone = await fill(false)
})
afterAll(async () => {
  await filled.service[Symbol.asyncDispose]()
  await alone.service[Symbol.asyncDispose]()
})

/** Leaves out what differs between any two services: random ids, and numbers in the order of all writes. */
const comparable = (text: string): string =>
  text
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?<="id":")[0-9a-z]{8}(?=")/g, 'id')
    .replaceAll(/"(seq|event_seq|last_seq|next|key_id|lag_events)":("[^"]*"|\d+|null)/g, '"$1":0')

const table = Object.entries(endpoints as Record<string, Endpoint>)
/** Streams have their own tests; the metrics need no key by default. */
const limitedTo = (...kinds: Endpoint['teams'][]) =>
  table.filter(
    ([, { teams, access, eventStream }]) => kinds.includes(teams) && access !== 'metrics' && eventStream === undefined,
  )
const bodyOf = ({ body, rawBody }: Endpoint) => (body || rawBody ? { body: {} } : {})

describe('a caller limited to a team', () => {
  it.each(limitedTo('refused'))('is refused what concerns all agents: %s', async (_, endpoint) => {
    const path = endpoint.path.replaceAll(/:\w+/g, '01980000-0000-7000-8000-000000000000')
    const answer = await filled.service.call<{ error: string }>(endpoint.method, path, {
      key: filled.operator,
      ...bodyOf(endpoint),
    })
    // An invalid body or path is refused first.
    expect([400, 403, 404]).toContain(answer.status)
    if (endpoint.method === 'GET' && !endpoint.path.includes(':') && !endpoint.query) {
      expect([answer.status, answer.body.error]).toEqual([403, expect.stringContaining(team)])
    }
  })

  const bodies: Record<string, object> = {
    setInstanceNote: { text: 'x' },
    killInstance: { reason: 'x' },
  }
  it.each(limitedTo('agent'))('finds an agent of others no more than an unknown one: %s', async (name, endpoint) => {
    const ask = (id: string) => {
      const path = endpoint.path.replace(':instanceId', id).replace(/:\w+/, 'events')
      const body = bodies[name] ?? {}
      const key = filled.operator
      return filled.service.call(endpoint.method, path, { key, ...(endpoint.body ? { body } : {}) })
    }
    const unknown = await ask('nobody')
    expect(unknown.status, unknown.text).toBe(404)
    for (const id of [...others, pretender]) {
      const answer = await ask(id)
      expect([answer.status, answer.text.replaceAll(id, 'nobody')], id).toEqual([404, unknown.text])
      const { date: _, 'content-length': _length, ...headers } = answer.headers
      expect(unknown.headers).toMatchObject(headers)
    }
    if (endpoint.method === 'GET') {
      const answer = await ask(own[0]!)
      expect([200, 404]).toContain(answer.status)
      expect(answer.text).not.toContain(foreign)
    }
  })

  const lists = limitedTo('agents', 'global').filter(([, { method, path }]) => method === 'GET' && !path.includes(':'))
  const queries: Record<string, string[]> = {
    search: ['?q=pay', `?q=${foreign}`],
    getRule: [],
    explainEvent: [],
    listInstances: [
      '',
      `?tag=team:${foreign}`,
      '?status=suspended',
      `?prefix=${foreign}`,
      `?ids=${others.join()}`,
      '?limit=1',
    ],
    listAlerts: ['', `?instance_id=${others[0]}`, '?status=open'],
    listEvents: [
      '',
      `?instance_id=${others[0]}`,
      '?event_type=tool_call',
      '?severity=breach',
      `?session_id=session-${others[0]}`,
    ],
    getEventHistogram: ['', '?severity=breach', `?instance_id=${others[0]}`],
    getEventFacets: ['', '?severity=info'],
  }
  it.each(lists)('reads the same as if there were no others: %s', async (name, { path }) => {
    for (const query of queries[name] ?? ['']) {
      for (const who of ['viewer', 'operator'] as const) {
        const [among, without] = await Promise.all(
          [filled, alone].map(({ service, ...keys }) => service.call('GET', path + query, { key: keys[who] })),
        )
        expect([200, 400, 403], `${query}: ${among!.text}`).toContain(among!.status)
        expect(among!.text, query).not.toContain(foreign)
        expect(comparable(among!.text), query).toBe(comparable(without!.text))
      }
    }
  })

  it('neither sees nor changes an alert about an agent of others', async () => {
    const { body } = await filled.service.call<{ alerts: { id: string; instance_id: string | null }[] }>(
      'GET',
      '/api/alerts',
    )
    const of = (id: string) => body.alerts.find(({ instance_id }) => instance_id === id)!.id
    const key = filled.operator
    for (const [id, status] of [
      [of(own[0]!), 200],
      [of(others[0]!), 404],
      [of(pretender), 404],
    ] as const) {
      expect((await filled.service.call('GET', `/api/alerts/${id}`, { key })).status).toBe(status)
      const change = { key, body: { status: 'acknowledged' } }
      expect((await filled.service.call('PATCH', `/api/alerts/${id}`, change)).status).toBe(status)
      const comment = { key, body: { text: 'Looked at' } }
      expect((await filled.service.call('POST', `/api/alerts/${id}/comments`, comment)).status).toBe(
        status === 200 ? 201 : 404,
      )
    }
  })

  it('gives no agent to another team, takes none, and takes none from a policy', async () => {
    const set = (tags: string[]) =>
      filled.service.call('PUT', `/api/instances/${own[0]}/tags`, { key: filled.operator, body: { tags } })
    for (const tags of [[], [team], [team, 'env:prod']]) expect((await set(tags)).status, tags.join()).toBe(403)
  })

  it('loses an agent with the tag, and gets it with the tag', async () => {
    const { service, viewer: key } = filled
    const tag = (tags: string[]) => service.call('PUT', `/api/instances/${own[1]}/tags`, { body: { tags } })
    const sees = async () => {
      const { body } = await service.call<{ instances: { id: string }[] }>('GET', '/api/instances', { key })
      return [
        body.instances.map(({ id }) => id),
        (await service.call('GET', `/api/instances/${own[1]}`, { key })).status,
      ]
    }
    await tag(['team:other'])
    expect(await sees()).toEqual([[own[0]], 404])
    await tag([team, 'team:other'])
    expect(await sees()).toEqual([own, 200])
  })
})

it('each endpoint for people declares what callers of a team get', () => {
  const undeclared = table.filter(([, { access, teams }]) => {
    const isForPeople =
      access === 'stream' ||
      access === 'metrics' ||
      (Array.isArray(access) && access.includes('viewer')) ||
      (Array.isArray(access) && access.includes('operator'))
    return isForPeople && teams === undefined
  })
  expect(undeclared.map(([name]) => name)).toEqual([])
})
