import type { SearchReply } from '@wardline/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTeamPair, type TeamPair, type TeamService } from '../../testing/teams.ts'

let pair: TeamPair
beforeAll(async () => {
  pair = await openTeamPair({ ALERT_WEBHOOK_URL: 'http://127.0.0.1:9/hook' })
  for (const service of [pair.shared, pair.alone]) await fill(service)
})
afterAll(() => pair[Symbol.asyncDispose]())

/** Ids of critical events, by agent. */
const eventIds = new WeakMap<TeamService, Map<string, string>>()

async function fill(service: TeamService): Promise<void> {
  const ids = new Map<string, string>()
  eventIds.set(service, ids)
  const send = async <Body>(path: string, body: object) => {
    const answer = await service.call<Body>('POST', path, { body })
    expect(answer.status, answer.text).toBeLessThan(300)
    return answer.body
  }
  for (const id of service.hasOthers ? ['b-1', 'claims-a', 'untagged', 'a-1', 'a-2'] : ['a-1', 'a-2']) {
    // So that ids of events and decoys are in the same order in both services.
    service.clock.advance(1_000)
    await service.beat(id, { name: `ledger ${id}` })
    const event = { severity: 'critical', source: 's', event_type: 'ledger_leak', description: 'x', instance_id: id }
    ids.set(id, (await send<{ id: string }>('/api/events', event)).id)
    await send('/api/honeypots', { type: 'file_path', path: `/srv/ledger/${id}`, instanceId: id })
  }
  if (!service.hasOthers) return
  await send('/api/honeypots', { type: 'file_path', path: '/srv/ledger/all' })
  await send('/api/events', { severity: 'critical', source: 's', event_type: 'ledger_leak', description: 'x' })
}

const find = (service: TeamService, q: string, more = '') =>
  service.call<SearchReply>('GET', `/api/search?q=${encodeURIComponent(q)}${more}`, { key: service.limited })

describe('a search by a caller limited to a team', () => {
  // With limit=2, hits of others that took a place would be missed.
  it.each(['ledger', 'leger', 'a-', 'b-1', 'claims-a', 'untagged', 'team:b', 'team:a', 'env:prod', 'ledger all'])(
    'finds what it would if there were no other agents: %s',
    async (q) => {
      for (const more of ['', '&limit=2', '&limit=1']) await pair.same((service) => find(service, q, more))
    },
  )

  it('finds agents, decoys and alerts of the team', async () => {
    const { body } = await find(pair.shared, 'ledger', '&limit=2')
    const hits = Object.fromEntries(body.groups.map((group) => [group.kind, group.hits]))
    expect(hits.agent?.map(({ id }) => id)).toEqual(['a-1', 'a-2'])
    expect(hits.decoy?.map(({ instance_id }) => instance_id).sort()).toEqual(['a-1', 'a-2'])
    expect(hits.alert?.map(({ instance_id }) => instance_id).sort()).toEqual(['a-1', 'a-2'])
  })

  it('finds events of the team by id, and no others', async () => {
    const ids = eventIds.get(pair.shared)!
    const own = await find(pair.shared, ids.get('a-1')!)
    expect(own.body.groups).toMatchObject([{ kind: 'event', hits: [{ instance_id: 'a-1' }] }])
    const unknown = await find(pair.shared, ids.get('a-1')!.replace(/.{6}$/, '000000'))
    for (const id of ['b-1', 'claims-a', 'untagged']) {
      expect((await find(pair.shared, ids.get(id)!)).text).toBe(unknown.text)
    }
  })

  it('finds an agent as soon as an operator tags it', async () => {
    const kinds = async () => (await find(pair.shared, 'b-1')).body.groups.flatMap(({ hits }) => hits)
    await pair.shared.setTags('b-1', ['team:a'])
    expect(await kinds()).toContainEqual(expect.objectContaining({ id: 'b-1' }))
    await pair.shared.setTags('b-1', ['team:b'])
    expect((await kinds()).filter(({ id, instance_id }) => id === 'b-1' || instance_id === 'b-1')).toEqual([])
  })
})
