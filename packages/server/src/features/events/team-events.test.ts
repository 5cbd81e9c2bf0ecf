import type { KeyCreated } from '@wardline/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'
import { indexEvents } from './event-index.ts'

const team = 'team:a'
const own = ['own-1', 'own-2']

interface Filled {
  service: TestService
  key: string
}

/** Opens a service in which agents of the team, and of others if wanted, reported events. */
async function fill(hasOthers: boolean): Promise<Filled> {
  const service = await openTestService()
  const send = async (method: 'POST' | 'PUT', path: string, body: object) => {
    const answer = await service.call<never>(method, path, { body })
    expect(answer.status, `${path}: ${answer.text}`).toBeLessThan(300)
    return answer.body
  }
  const agents = hasOthers ? ['foreign-1', 'own-1', 'foreign-pretender', 'own-2'] : own
  for (const id of agents) {
    const claimed = id === 'foreign-pretender' ? { tags: [team] } : {}
    await send('POST', '/api/heartbeat', { instance_id: id, name: id, agent_type: 'test', ...claimed })
    if (own.includes(id)) await send('PUT', `/api/instances/${id}/tags`, { tags: [team, 'other'] })
    if (id === 'foreign-1') await send('PUT', `/api/instances/${id}/tags`, { tags: ['team:b'] })
  }
  const report = async (isIndexed: boolean) => {
    for (const id of [...agents, ...(hasOthers ? [undefined] : [])]) {
      const about = { source: `source of ${id ?? 'nobody'}`, ...(id ? { instance_id: id } : {}) }
      for (const severity of ['info', 'warning', 'critical', 'breach']) {
        const kind = id?.startsWith('own') ? 'note' : severity === 'breach' ? 'foreign_type' : 'note'
        await send('POST', '/api/events', {
          ...{ ...about, severity, event_type: kind, description: `text ${isIndexed}`, session_id: 'shared' },
        })
      }
      const metadata = { tool: id?.startsWith('own') ? 'file-read' : 'http-request' }
      await send('POST', '/api/events', {
        ...{ ...about, severity: 'info', event_type: 'tool_call', description: 'call', metadata },
      })
    }
    service.clock.advance(60_000)
  }
  await report(true)
  await indexEvents(service.deps.database)
  // The newest events are not indexed yet.
  await report(false)
  const body = { scope: 'viewer', name: 'limited', tags_scope: [team] }
  const { key } = (await send('POST', '/api/keys', body)) as KeyCreated
  return { service, key }
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
const comparable = (text: string) =>
  text.replaceAll(/"id":"[^"]*"/g, '"id":0').replaceAll(/"(seq|next)":("\d+"|\d+)/g, '"$1":0')

async function read({ service, key }: Filled, path: string): Promise<string> {
  const { status, text } = await service.call('GET', path, { key })
  expect([status, path, text]).toEqual([200, path, expect.not.stringMatching(/foreign|nobody|http-request/)])
  return comparable(text)
}

const filters = [
  '',
  'limit=3',
  'severity=info',
  'severity=breach',
  'event_type=note',
  'event_type=tool_call',
  'event_type=foreign_type',
  'exclude_type=tool_call',
  'session_id=shared',
  'session_id=unknown',
  'instance_id=own-1',
  'instance_id=own-1&severity=critical',
  'q=text',
  'from=2026-01-01T00:00:00Z&severity=warning',
]

describe('events for a caller limited to a team', () => {
  it.each(filters)('are as if there were no other agents: %s', async (filter) => {
    const paths = [`/api/events?${filter}`]
    if (!filter.includes('limit')) paths.push(`/api/events/facets?${filter}`)
    if (!filter.includes('limit') && !filter.includes('from')) paths.push(`/api/events/histogram?${filter}`)
    for (const path of paths) expect(await read(filled, path), path).toBe(await read(alone, path))
  })

  it('count only the calls of its agents', async () => {
    const seen = await read(filled, '/api/events/tools')
    expect(seen).toBe(await read(alone, '/api/events/tools'))
    expect(seen).toContain('file-read')
  })

  it('are those of its agents, page by page', async () => {
    const seen: string[] = []
    for (let next: string | null = '999999'; next !== null; ) {
      const path: string = `/api/events?limit=3&before=${next}`
      const { body } = await filled.service.call<{ events: { instance_id: string }[]; next: string | null }>(
        'GET',
        path,
        { key: filled.key },
      )
      seen.push(...body.events.map(({ instance_id }) => instance_id))
      next = body.next
    }
    // Also what the service reported of them.
    expect(new Set(seen)).toEqual(new Set(own))
    expect(seen.length).toBeGreaterThanOrEqual(2 * 2 * 5)
  })

  it.each(['events', 'events/facets', 'events/histogram'])('say nothing of a foreign agent: %s', async (list) => {
    for (const id of ['foreign-1', 'foreign-pretender']) {
      const { text } = await filled.service.call('GET', `/api/${list}?instance_id=${id}`, { key: filled.key })
      const { text: unknown } = await filled.service.call('GET', `/api/${list}?instance_id=unknown`, {
        key: filled.key,
      })
      expect(text).toBe(unknown)
    }
  })

  it('come at once when an operator tags another agent, and leave with the tag', async () => {
    const tags = (list: string[]) =>
      filled.service.call('PUT', '/api/instances/foreign-1/tags', { body: { tags: list } })
    const count = async () => {
      const path = '/api/events/facets?instance_id=foreign-1'
      return (await filled.service.call<{ total: number }>('GET', path, { key: filled.key })).body.total
    }
    await tags([team])
    expect(await count()).toBeGreaterThanOrEqual(10)
    await tags(['team:b'])
    expect(await count()).toBe(0)
  })
})
