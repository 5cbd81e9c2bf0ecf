import type { AuditPage, ControlChange } from '@wardline/contract'
import type { Static } from 'typebox'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'

interface Changes {
  changes: ControlChange[]
  next: string | null
}

let service: TestService
let operator: { id: string; key: string }
let viewer: { id: string; key: string }
/** Milliseconds between two changes. */
const step = 60_000

/** An operator kills and resumes two instances in turn, with a minute between changes; then its key is revoked. */
beforeAll(async () => {
  service = await openTestService()
  operator = await service.createKey('operator')
  viewer = await service.createKey('viewer')
  for (const id of ['bot-a', 'bot-b']) {
    await service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id } })
  }
  const { key } = operator
  for (const id of ['bot-a', 'bot-b', 'bot-a']) {
    service.clock.advance(step)
    await service.call('POST', `/api/kill/${id}`, { key, body: { reason: `because of ${id}` } })
    service.clock.advance(step)
    await service.call('POST', `/api/resume/${id}`, { key })
  }
  service.clock.advance(step)
  await service.call('POST', '/api/kill/bot-b', { body: { reason: 'by the administrator' } })
  await service.call('DELETE', `/api/keys/${operator.id}`)
})
afterAll(() => service[Symbol.asyncDispose]())

const read = async (query = '') =>
  (await service.call<Changes>('GET', `/api/control-changes${query}`, { key: viewer.key })).body
const summary = ({ changes }: Changes) => changes.map(({ action, instance_id }) => `${action} ${instance_id}`)

describe('control changes', () => {
  it('contain actor, instance and reason, newest first, with the names of revoked keys', async () => {
    const list = await read()
    expect(summary(list)).toEqual([
      'suspend bot-b',
      'resume bot-a',
      'suspend bot-a',
      'resume bot-b',
      'suspend bot-b',
      'resume bot-a',
      'suspend bot-a',
    ])
    expect(list.changes[0]).toMatchObject({
      kind: 'control',
      reason: 'by the administrator',
      actor: expect.stringMatching(/^configured-/),
      actor_name: 'WARDLINE_API_KEY',
      version: 3,
    })
    expect(list.changes.at(-1)).toMatchObject({
      at: new Date(service.clock.now() - 6 * step).toISOString(),
      reason: 'because of bot-a',
      version: 1,
      actor: operator.id,
      actor_name: 'operator of a test',
    })
    expect(list.changes[1]).toMatchObject({ reason: null, version: 4 })
    expect(list.next).toBe(null)
  })

  it('are paged without gaps or duplicates', async () => {
    const seqs: number[] = []
    for (let next: string | null = ''; next !== null; ) {
      const page: Changes = await read(`?limit=2${next === '' ? '' : `&before=${next}`}`)
      seqs.push(...page.changes.map(({ seq }) => seq))
      next = page.next
    }
    expect(seqs).toEqual((await read()).changes.map(({ seq }) => seq))
  })

  it('are filtered by instance, by time and by cursor', async () => {
    expect(summary(await read('?instance_id=bot-b'))).toEqual(['suspend bot-b', 'resume bot-b', 'suspend bot-b'])
    const { changes } = await read()
    const [from, to] = [changes[3]!.at, changes[1]!.at]
    expect((await read(`?from=${from}&to=${to}`)).changes).toEqual([changes[2], changes[3]])
    expect((await read(`?after=${changes[2]!.seq}&before=${changes[0]!.seq}`)).changes).toEqual([changes[1]])
  })

  it.each([
    ['limit=0', 'limit must be from 1 to 1000.'],
    ['limit=1001', 'limit must be from 1 to 1000.'],
    ['before=x', 'before must be a whole number.'],
    ['after=-1', 'after must be a whole number.'],
    ['from=yesterday', 'from must be an ISO 8601 instant.'],
    ['to=2026-40-40T00:00:00Z', 'to must be an ISO 8601 instant.'],
    ['instance_id=A%20B', 'instance_id may contain only lower-case letters, digits, _ and -.'],
  ])('requests with %s get 400 with the name and the rule', async (query, error) => {
    const answer = await service.call('GET', `/api/control-changes?${query}`)
    expect([answer.status, answer.body]).toEqual([400, { error }])
  })
})

type Page = Static<typeof AuditPage>
const audit = async (query: string) => (await service.call<Page>('GET', `/api/audit?${query}`)).body

describe('the audit log', () => {
  it('is filtered by the name or id of a key, even a revoked one', async () => {
    const byName = await audit('actor=operator%20of%20a%20test')
    expect(byName.entries).toHaveLength(6)
    expect(new Set(byName.entries.map(({ actor_name }) => actor_name))).toEqual(new Set(['operator of a test']))
    expect((await audit(`actor=${operator.id}`)).entries).toEqual(byName.entries)
    expect((await audit('actor=nobody')).entries).toEqual([])
    const own = await audit('actor=system')
    expect(own.entries.map(({ action, actor_name }) => [action, actor_name])).toEqual([
      ['key.create', null],
      ['key.create', null],
    ])
  })

  it('is filtered by action, by group of actions, by target and by time', async () => {
    expect((await audit('action=instance.resume')).entries).toHaveLength(3)
    expect((await audit('action=key.*')).entries.map(({ action }) => action)).toEqual([
      'key.create',
      'key.create',
      'key.revoke',
    ])
    expect((await audit(`target=${operator.id}`)).entries.map(({ action }) => action)).toEqual([
      'key.create',
      'key.revoke',
    ])
    const now = new Date(service.clock.now()).toISOString()
    expect((await audit(`from=${now}&order=newest`)).entries.map(({ action }) => action)).toEqual([
      'key.revoke',
      'instance.suspend',
    ])
    expect((await audit(`to=${now}`)).entries).toHaveLength(8)
  })

  it('is paged in either order', async () => {
    const oldest = (await audit('limit=1000')).entries.map(({ seq }) => seq)
    expect(oldest).toEqual(Array.from({ length: 10 }, (_, index) => index + 1))
    for (const [order, cursor] of [
      ['oldest', 'after'],
      ['newest', 'before'],
    ]) {
      const seqs: number[] = []
      for (let next: string | null = ''; next !== null; ) {
        const page: Page = await audit(`order=${order}&limit=3${next === '' ? '' : `&${cursor}=${next}`}`)
        seqs.push(...page.entries.map(({ seq }) => seq))
        next = page.next
      }
      expect(seqs).toEqual(order === 'oldest' ? oldest : oldest.toReversed())
    }
  })

  it.each([
    ['action=kill', 'action must be an action such as instance.suspend, or a group such as key.*.'],
    ['order=random', 'order must be oldest, or newest.'],
    ['actor=', 'actor must not be empty.'],
    ['from=2026-40-40T00:00:00Z', 'from must be an ISO 8601 instant.'],
  ])('rejects %s with 400, the name and the rule', async (query, error) => {
    const answer = await service.call('GET', `/api/audit?${query}`)
    expect([answer.status, answer.body]).toEqual([400, { error }])
  })
})
