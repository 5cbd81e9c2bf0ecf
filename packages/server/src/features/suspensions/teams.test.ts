import type { ControlChange, SuspensionCounts } from '@wardline/contract'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openTeamPair, type TeamPair, type TeamService } from '../../testing/teams.ts'

let pair: TeamPair
beforeAll(async () => {
  pair = await openTeamPair()
  for (const service of [pair.shared, pair.alone]) {
    const agents = ['b-1', 'a-1', 'claims-a', 'b-2', 'a-2', 'untagged']
    for (const id of agents.filter((agent) => service.hasOthers || agent.startsWith('a-'))) {
      service.clock.advance(1_000)
      const killed = await service.call('POST', `/api/kill/${id}`, { body: { reason: `a leak of ${id}` } })
      expect(killed.status).toBe(200)
    }
    service.clock.advance(1_000)
    await service.call('POST', '/api/resume/a-1')
  }
})
afterAll(() => pair[Symbol.asyncDispose]())

const get = <Body>(service: TeamService, path: string) =>
  service.call<Body & { error: string }>('GET', path, { key: service.limited })

it('a limited caller gets the figures of suspensions of the team', async () => {
  const { body } = await pair.same((service) => get<SuspensionCounts>(service, '/api/suspension-counts'))
  expect(body.suspensions).toBe(2)
  expect(body.states.map(({ count }) => count)).toEqual([1])
})

it('a limited caller lists kills and resumes of the team', async () => {
  const list = (query: string) =>
    pair.same((service) => get<{ changes: ControlChange[] }>(service, `/api/control-changes${query}`))
  const { body } = await list('')
  expect(body.changes.map(({ action, instance_id }) => [action, instance_id])).toEqual([
    ['resume', 'a-1'],
    ['suspend', 'a-2'],
    ['suspend', 'a-1'],
  ])
  for (const query of ['?limit=2', '?limit=3', '?instance_id=a-1', '?instance_id=b-1', '?instance_id=nowhere']) {
    await list(query)
  }
})
