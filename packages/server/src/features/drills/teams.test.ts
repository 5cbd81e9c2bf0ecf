import { randomUUID } from 'node:crypto'
import type { Drill, DrillList } from '@wardline/contract'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { adminKey } from '../../testing/service.ts'
import { openTeamPair, type TeamPair, type TeamService } from '../../testing/teams.ts'

let pair: TeamPair
beforeAll(async () => {
  pair = await openTeamPair()
})
afterAll(() => pair[Symbol.asyncDispose]())

const start = (service: TeamService, selector: object, key = service.limited) =>
  service.call<Drill & { error: string }>('POST', '/api/drills', { key, body: { selector } })
const get = <Body>(service: TeamService, path: string, key = service.limited) =>
  service.call<Body & { error: string }>('GET', path, { key })

it.each([{ tags: ['team:b'] }, { tags: ['env:test'] }, { instances: ['a-1', 'b-1'] }, { instances: ['claims-a'] }])(
  'a drill of what is not of the team fails as if it did not exist: %j',
  async (selector) => {
    expect((await pair.same((service) => start(service, selector))).status).toBe(400)
  },
)

it('a drill asks the agents of the team, and only the team sees it', async () => {
  const foreign = await start(pair.shared, { all: true }, adminKey)
  expect(foreign.body).toMatchObject({ selected: 6, tags_scope: null })
  for (const selector of [{ all: true }, { tags: ['env:prod'] }, { instances: ['a-2'] }]) {
    for (const { clock } of [pair.shared, pair.alone]) clock.advance(1)
    const { body } = await pair.same(async (service) => {
      const started = await start(service, selector)
      return get<Drill>(service, `/api/drills/${started.body.id}`)
    })
    expect(body.selected).toBe('all' in selector ? 2 : 1)
    expect(body.tags_scope).toEqual(['team:a'])
  }
  const { body } = await pair.same((service) => get<DrillList>(service, '/api/drills', service.second))
  expect(body.drills).toHaveLength(3)
  await pair.same((service) => get<DrillList>(service, '/api/drills?limit=1'))
  const unknown = randomUUID()
  const hidden = await get(pair.shared, `/api/drills/${foreign.body.id}`)
  const absent = await get(pair.shared, `/api/drills/${unknown}`)
  expect([hidden.status, hidden.text.replace(foreign.body.id, unknown)]).toEqual([404, absent.text])
})
