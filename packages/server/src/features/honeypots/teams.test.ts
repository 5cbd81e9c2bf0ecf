import { randomUUID } from 'node:crypto'
import type { HoneypotCreated, HoneypotDetail, ListedHoneypot } from '@wardline/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { adminKey } from '../../testing/service.ts'
import { openTeamPair, type TeamPair, type TeamService } from '../../testing/teams.ts'

const call = <Body>(service: TeamService, method: 'GET' | 'POST' | 'DELETE', path: string, body?: object) =>
  service.call<Body & { error: string }>(method, `/api/honeypots${path}`, {
    key: service.limited,
    ...(body ? { body } : {}),
  })
const create = async (service: TeamService, body: object, key = adminKey) => {
  service.clock.advance(1)
  return service.call<HoneypotCreated & { error: string }>('POST', '/api/honeypots', { key, body })
}
/** The agent checks a text that has the decoy. */
async function touch(service: TeamService, agent: string, value: string) {
  const { key } = await service.createKey('agent', [agent])
  service.clock.advance(1)
  const { body } = await service.call<{ matched: boolean }>('POST', '/api/honeypots/check/key', {
    key,
    body: { key: value },
  })
  expect(body.matched).toBe(true)
}

let pair: TeamPair
/** Ids of decoys that the team does not see, of the shared service. */
const hidden: string[] = []
const own = new Map<TeamService, HoneypotCreated>()
beforeAll(async () => {
  pair = await openTeamPair()
  for (const service of [pair.shared, pair.alone]) {
    if (service.hasOthers) {
      for (const instanceId of ['b-1', 'claims-a', 'untagged']) {
        const { body } = await create(service, { instanceId, type: 'api_key', keyType: 'generic' })
        await touch(service, 'b-2', body.key!)
        hidden.push(body.id)
      }
      hidden.push((await create(service, { type: 'file_path', path: '/srv/of-all' })).body.id)
    }
    const { body } = await create(service, { instanceId: 'a-1', type: 'api_key', keyType: 'generic', label: 'mine' })
    own.set(service, body)
    await create(service, { instanceId: 'a-2', type: 'file_path', path: '/srv/of-two' })
    // Agents of others touch it too, first and last.
    if (service.hasOthers) await touch(service, 'b-1', body.key!)
    await touch(service, 'a-1', body.key!)
    await touch(service, 'a-2', body.key!)
    if (service.hasOthers) await touch(service, 'claims-a', body.key!)
  }
})
afterAll(() => pair[Symbol.asyncDispose]())

it('a limited caller lists and gets the decoys of the team with the hits by its agents', async () => {
  const list = (query: string) => pair.same((service) => call<{ honeypots: ListedHoneypot[] }>(service, 'GET', query))
  const { body } = await list('?include=details')
  expect(body.honeypots.map(({ details }) => [details?.instanceId, details?.hit_count])).toEqual([
    ['a-1', 2],
    ['a-2', 0],
  ])
  for (const query of ['', '?state=tripped', '?instance_id=a-1', '?instance_id=b-1&include=details']) await list(query)
  const one = await pair.same((service) => call<HoneypotDetail>(service, 'GET', `/${own.get(service)!.id}`))
  expect(one.body.hits.map(({ reporter }) => reporter)).toEqual(['a-2', 'a-1'])
  const [last, first] = one.body.hits.map(({ at }) => at)
  expect(body.honeypots[0]!.details).toMatchObject({ first_hit_at: first, last_hit_at: last })
})

describe('a decoy of others, or of all agents', () => {
  it.each([0, 1, 2, 3])('is as unknown as one that never was: %i', async (index) => {
    const id = hidden[index]!
    const unknown = randomUUID()
    for (const [method, path, body] of [
      ['GET', '', undefined],
      ['POST', '/planted', { note: 'there' }],
      ['POST', '/rotate', undefined],
      ['POST', '/test', undefined],
      ['DELETE', '', undefined],
    ] as const) {
      const answer = await call(pair.shared, method, `/${id}${path}`, body)
      const absent = await call(pair.shared, method, `/${unknown}${path}`, body)
      expect([answer.status, answer.text.replace(id, unknown)]).toEqual([404, absent.text])
    }
    const { body } = await pair.shared.call<HoneypotDetail>('GET', `/api/honeypots/${id}`)
    expect([body.deleted_at, body.retired_at, body.planted]).toEqual([null, null, null])
  })

  it('is not created', async () => {
    for (const instanceId of ['b-1', 'claims-a', 'untagged', undefined]) {
      const body = { type: 'file_path', path: '/srv/other', ...(instanceId ? { instanceId } : {}) }
      const { status } = await pair.same((service) => create(service, body, service.limited))
      expect(status).toBe(instanceId ? 404 : 400)
    }
  })
})

it('a limited operator plants, tests, rotates and deletes the decoys of the team', async () => {
  const request = { instanceId: 'a-2', type: 'api_key', keyType: 'generic' }
  for (const service of [pair.shared, pair.alone]) {
    const { body } = await create(service, request, service.limited)
    const statuses: number[] = []
    const ask = async (method: 'GET' | 'POST' | 'DELETE', path: string, more?: object) => {
      const answer = await call<{ id: string }>(service, method, path, more)
      statuses.push(answer.status)
      return answer.body.id
    }
    await ask('POST', `/${body.id}/planted`, { note: 'In the settings.' })
    await ask('POST', `/${body.id}/test`)
    const next = await ask('POST', `/${body.id}/rotate`)
    await ask('DELETE', `/${next}`)
    await ask('GET', `/${body.id}`)
    expect(statuses).toEqual([200, 201, 201, 200, 200])
  }
})
