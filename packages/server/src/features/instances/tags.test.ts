import type { InstanceDetail, InstanceList } from '@wardline/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'

let service: TestService
beforeAll(async () => {
  service = await openTestService()
})
afterAll(() => service[Symbol.asyncDispose]())

const beat = (id: string, more: object = {}, key?: string) =>
  service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id, ...more }, ...(key ? { key } : {}) })
const tag = (id: string, tags: unknown, key?: string) =>
  service.call<{ tags: string[]; error: string }>('PUT', `/api/instances/${id}/tags`, {
    body: { tags },
    ...(key ? { key } : {}),
  })
const detail = async (id: string) => {
  const { body } = await service.call<InstanceDetail>('GET', `/api/instances/${id}`)
  return { tags: body.tags, agent: body.agent_tags, operator: body.operator_tags }
}
const tagged = async (name: string) =>
  (await service.call<InstanceList>('GET', `/api/instances?tag=${encodeURIComponent(name)}`)).body.instances.map(
    ({ id }) => id,
  )

describe('tags of an instance', () => {
  it('are set by a heartbeat, kept by heartbeats without tags, and removed by an empty list', async () => {
    await beat('agent-1', { tags: ['team:payments', 'env:prod', 'env:prod'] })
    expect(await detail('agent-1')).toEqual({
      tags: ['env:prod', 'team:payments'],
      agent: ['env:prod', 'team:payments'],
      operator: [],
    })
    await beat('agent-1')
    expect((await detail('agent-1')).tags).toEqual(['env:prod', 'team:payments'])
    await beat('agent-1', { tags: ['env:test'] })
    expect((await detail('agent-1')).tags).toEqual(['env:test'])
    await beat('agent-1', { tags: [] })
    expect(await detail('agent-1')).toEqual({ tags: [], agent: [], operator: [] })
  })

  // Otherwise a compromised agent could leave the group that operators watch or suspend together.
  it('of operators and of the agent do not change each other', async () => {
    await beat('agent-2', { tags: ['mine', 'both'] })
    expect((await tag('agent-2', ['watched', 'both'])).body.tags).toEqual(['both', 'mine', 'watched'])
    await beat('agent-2', { tags: [] })
    expect(await detail('agent-2')).toEqual({ tags: ['both', 'watched'], agent: [], operator: ['both', 'watched'] })
    await beat('agent-2', { tags: ['mine'] })
    await tag('agent-2', [])
    expect(await detail('agent-2')).toEqual({ tags: ['mine'], agent: ['mine'], operator: [] })
  })

  it('filter instances by exact match, whether set by the agent or by operators', async () => {
    await beat('tagged-1', { tags: ['a_b'] })
    await beat('tagged-2')
    await tag('tagged-2', ['a_b', 'axb'])
    await beat('tagged-3', { tags: ['axb', 'a_bc'] })
    expect(await tagged('a_b')).toEqual(['tagged-1', 'tagged-2'])
    expect(await tagged('axb')).toEqual(['tagged-2', 'tagged-3'])
    expect(await tagged('x')).toEqual([])
    const { body } = await service.call<InstanceList>('GET', '/api/instances?prefix=tagged&status=active&tag=axb')
    expect(body.instances.map(({ id, tags }) => [id, tags])).toEqual([
      ['tagged-2', ['a_b', 'axb']],
      ['tagged-3', ['a_bc', 'axb']],
    ])
  })

  it('are limited, and the error message names the limit', async () => {
    await beat('agent-3')
    const many = Array.from({ length: 21 }, (_, index) => `tag-${index}`)
    expect((await tag('agent-3', many)).body.error).toBe('tags must have at most 20 entries.')
    expect((await tag('agent-3', many.slice(1))).status).toBe(200)
    expect((await tag('agent-3', ['x'.repeat(41)])).body.error).toBe('tags.0 must have at most 40 characters.')
    for (const wrong of ['', 'A', 'a b', '<b>', 'a"b', 'a%']) {
      expect((await tag('agent-3', [wrong])).body.error).toBe(
        'tags.0 may contain only lower-case letters, digits, _ . : and -.',
      )
      expect((await beat('agent-3', { tags: [wrong] })).status).toBe(400)
    }
    expect((await beat('agent-3', { tags: 'x' })).status).toBe(400)
    expect((await service.call('GET', '/api/instances?tag=A')).status).toBe(400)
    expect((await tag('nobody', ['x'])).status).toBe(404)
  })

  it('of operators are audited with the tags before', async () => {
    await beat('agent-4')
    const operator = await service.createKey('operator')
    await tag('agent-4', ['one'], operator.key)
    await tag('agent-4', ['two'], operator.key)
    const { body } = await service.call<{ entries: object[] }>('GET', '/api/audit?action=instance.tags&target=agent-4')
    expect(body.entries).toMatchObject([
      { actor: operator.id, before: { tags: [] }, after: { tags: ['one'] } },
      { actor: operator.id, before: { tags: ['one'] }, after: { tags: ['two'] } },
    ])
  })

  it('are audited without a gap when operators set them at the same time', async () => {
    await beat('agent-5')
    const answers = await Promise.all(['one', 'two', 'three', 'four'].map((name) => tag('agent-5', [name])))
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200])
    type Entries = { entries: { before: { tags: string[] }; after: { tags: string[] } }[] }
    const { entries } = (await service.call<Entries>('GET', '/api/audit?target=agent-5')).body
    expect(entries.map(({ before }) => before.tags)).toEqual([
      [],
      ...entries.slice(0, -1).map(({ after }) => after.tags),
    ])
  })

  // An agent that could tag another one could hide it, or move it into a group that is suspended.
  it('cannot be set by a key of another instance, or as operator tags by an agent or viewer', async () => {
    await beat('agent-6')
    await beat('other-6')
    const { key } = await service.createKey('agent', ['agent-6'])
    expect((await beat('other-6', { tags: ['stolen'] }, key)).status).toBe(403)
    expect((await tag('agent-6', ['mine'], key)).status).toBe(403)
    expect((await tag('agent-6', ['mine'], (await service.createKey('viewer')).key)).status).toBe(403)
    expect([await detail('agent-6'), await detail('other-6')].flatMap(({ tags }) => tags)).toEqual([])
    expect((await beat('agent-6', { tags: ['mine'] }, key)).status).toBe(200)
    expect((await detail('agent-6')).agent).toEqual(['mine'])
  })
})
