import { randomUUID } from 'node:crypto'
import type { Allowance, AuditEntry, KeyCreated, KeyView } from '@wardline/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'

let service: TestService
const keys: Record<string, string> = {}
let limitedId: string
beforeAll(async () => {
  service = await openTestService()
  const limited = await create({ scope: 'operator', name: 'payments', approves: ['team:payments', 'team:refunds'] })
  limitedId = limited.body.id
  const rotated = await service.call<KeyCreated>('POST', `/api/keys/${limitedId}/rotate`, { body: {} })
  Object.assign(keys, { limited: limited.body.key, rotated: rotated.body.key })
  keys.unlimited = (await service.createKey('operator')).key
  keys.admin = (await service.createKey('admin')).key
  keys.agent = (await service.createKey('agent', ['by-*', 'untagged', 'other-team', 'moving'])).key
  const tagged = { scope: 'agent', instances: ['by-key'], tags: ['team:payments'] }
  keys.tagging = (await create(tagged)).body.key
  await beat('by-key', {}, keys.tagging)
  for (const id of ['by-operator', 'by-heartbeat', 'untagged', 'other-team']) {
    await beat(id, id === 'by-heartbeat' ? { tags: ['team:payments'] } : {})
  }
  await setTags('by-operator', ['team:refunds', 'env:prod'])
  await setTags('other-team', ['team:support'])
})
afterAll(() => service[Symbol.asyncDispose]())

const create = (body: object) => service.call<KeyCreated & { error: string }>('POST', '/api/keys', { body })
const beat = (id: string, more: object = {}, key?: string) =>
  service.call('POST', '/api/heartbeat', { key, body: { instance_id: id, name: id, ...more } })
const setTags = (id: string, tags: string[], key?: string) =>
  service.call<{ error: string }>('PUT', `/api/instances/${id}/tags`, { key, body: { tags } })

type Answered = { id: string; state: string; error: string; allowance_id: string; may_decide: boolean }
/** Asks with the agent's key; each call is another one. */
async function ask(agent: string, approvals = 1): Promise<string> {
  const body = {
    ...{ attempt: randomUUID(), tool: randomUUID(), args_sha256: 'a'.repeat(64), wait_seconds: 600 },
    ...{ policy_id: '01980000-0000-7000-8000-00000000a001', policy_version: 1, rule: null, approvals },
  }
  const asked = await service.call<Answered>('POST', `/api/instances/${agent}/approvals`, { key: keys.agent, body })
  expect([asked.body.state, asked.body.error]).toEqual(['pending', undefined])
  return asked.body.id
}
const decide = (id: string, body: object, caller: object) =>
  service.call<Answered>('POST', `/api/approvals/${id}`, { ...caller, body })
const stateOf = async (id: string) => (await service.call<Answered>('GET', `/api/approvals/${id}`)).body.state
const revoke = (id: string, caller: object) =>
  service.call<{ error: string }>('DELETE', `/api/allowances/${id}`, caller)

const refusal =
  'This key decides only for agents that operators or keys tagged team:payments or team:refunds: another operator has to decide.'
const decisions = [
  { decision: 'approve' },
  { decision: 'deny' },
  { decision: 'approve', for_minutes: 5, max_calls: 3 },
] as const

describe.each([
  ['limited', 'by-operator', true],
  ['limited', 'by-key', true],
  ['limited', 'by-heartbeat', false],
  ['limited', 'untagged', false],
  ['limited', 'other-team', false],
  ['rotated', 'by-operator', true],
  ['rotated', 'by-heartbeat', false],
  ['a session', 'by-key', true],
  ['a session', 'by-heartbeat', false],
  ['unlimited', 'by-heartbeat', true],
  ['unlimited', 'untagged', true],
  ['admin', 'by-heartbeat', true],
])('%s: approvals of the agent tagged %s', (by, agent, isAllowed) => {
  const callerOf = async () =>
    by === 'a session'
      ? { key: null, headers: { ...(await service.signIn(keys.limited)).headers, 'sec-fetch-site': 'same-origin' } }
      : { key: keys[by] }

  it.each(decisions)('%j is decided, or refused without a change', async (body) => {
    const id = await ask(agent)
    const caller = await callerOf()
    const shown = await service.call<Answered>('GET', `/api/approvals/${id}`, caller)
    expect(shown.body.may_decide).toBe(isAllowed)
    const answer = await decide(id, body, caller)
    const expected = isAllowed ? [200, undefined] : [403, refusal]
    expect([answer.status, answer.body.error]).toEqual(expected)
    const state = body.decision === 'approve' ? 'approved' : 'denied'
    expect(await stateOf(id)).toBe(isAllowed ? state : 'pending')
    const decided = isAllowed ? answer : await decide(id, body, { key: keys.unlimited })
    expect(decided.status).toBe(200)
    if (!('for_minutes' in body)) return
    const listed = await service.call<{ allowances: Allowance[] }>('GET', '/api/allowances', caller)
    const allowance = listed.body.allowances.find((one) => one.id === decided.body.allowance_id)
    expect(allowance?.may_revoke).toBe(isAllowed)
    const revoked = await revoke(decided.body.allowance_id, caller)
    expect([revoked.status, revoked.body.error]).toEqual(expected)
    if (!isAllowed) expect((await revoke(decided.body.allowance_id, { key: keys.unlimited })).status).toBe(200)
  })
})

it('a limited key follows a change of tags, and cannot give its own tags', async () => {
  await beat('moving')
  const id = await ask('moving')
  const given = await setTags('moving', ['env:prod', 'team:payments'], keys.limited)
  expect([given.status, given.body.error]).toEqual([
    403,
    'This key approves for team:payments: another operator has to set this tag.',
  ])
  expect((await decide(id, { decision: 'approve' }, { key: keys.limited })).status).toBe(403)
  expect((await setTags('moving', ['team:payments'], keys.unlimited)).status).toBe(200)
  // It stays, so the key gives nothing.
  expect((await setTags('moving', ['env:prod', 'team:payments'], keys.limited)).status).toBe(200)
  expect((await decide(id, { decision: 'approve' }, { key: keys.limited })).status).toBe(200)
  expect((await setTags('moving', [], keys.limited)).status).toBe(200)
  expect((await decide(await ask('moving'), { decision: 'deny' }, { key: keys.limited })).status).toBe(403)
})

it('of two operators, one with a limited key approves, but neither twice nor with its successor', async () => {
  const id = await ask('by-operator', 2)
  const approve = (key: string | undefined) => decide(id, { decision: 'approve' }, { key })
  expect((await approve(keys.limited)).body.state).toBe('pending')
  expect((await approve(keys.rotated)).status).toBe(409)
  expect((await approve(keys.unlimited)).body.state).toBe('approved')
})

// Just before the change is stored, an operator takes the tag away that lets the key decide.
describe.each(['decision', 'revocation'])('a %s while the tag is removed', (kind) => {
  const racing = async (id: string, tags: string[]) => {
    const { database } = service.deps
    const { batch } = database
    database.batch = async (statements, options) => {
      database.batch = batch
      expect((await setTags('moving', tags, keys.unlimited)).status).toBe(200)
      return batch(statements, options)
    }
    const caller = { key: keys.limited }
    const answer = await (kind === 'decision' ? decide(id, { decision: 'approve' }, caller) : revoke(id, caller))
    database.batch = batch
    return [answer.status, answer.body.error]
  }
  const prepare = async () => {
    await beat('moving')
    expect((await setTags('moving', ['team:payments'], keys.unlimited)).status).toBe(200)
    const id = await ask('moving')
    if (kind === 'decision') return { id, wasChanged: async () => (await stateOf(id)) === 'approved' }
    const { body } = await decide(id, { decision: 'approve', for_minutes: 5 }, { key: keys.limited })
    const wasChanged = async () => {
      const listed = await service.call<{ allowances: Allowance[] }>('GET', '/api/allowances')
      return listed.body.allowances.find((one) => one.id === body.allowance_id)?.state === 'revoked'
    }
    return { id: body.allowance_id, wasChanged }
  }

  it('is refused', async () => {
    const { id, wasChanged } = await prepare()
    expect(await racing(id, [])).toEqual([403, refusal])
    expect(await wasChanged()).toBe(false)
  })

  it('is stored if another of its tags replaces it', async () => {
    const { id, wasChanged } = await prepare()
    expect(await racing(id, ['team:refunds'])).toEqual([200, undefined])
    expect(await wasChanged()).toBe(true)
  })
})

it('the limit is in the list of keys, of its successor too, and in the audit log', async () => {
  const listed = (await service.call<{ keys: KeyView[] }>('GET', '/api/keys')).body.keys
  const limits = listed.filter(({ scope }) => scope === 'operator').map(({ approves }) => approves)
  const tags = ['team:payments', 'team:refunds']
  expect(limits).toHaveLength(3)
  expect(limits).toEqual(expect.arrayContaining([tags, tags, null]))
  const { body } = await service.call<{ entries: AuditEntry[] }>('GET', `/api/audit?target=${limitedId}`)
  expect(body.entries.find(({ action }) => action === 'key.create')?.after).toMatchObject({ approves: tags })
})

it.each([
  [{ scope: 'admin' }, 'approves must be absent for scope admin.'],
  [{ scope: 'viewer' }, 'approves must be absent for scope viewer.'],
  [{ scope: 'agent', instances: ['a'] }, 'approves must be absent for scope agent.'],
  [{ approves: [] }, 'approves must have at least 1 entries.'],
  [{ approves: Array.from({ length: 21 }, (_, n) => `t${n}`) }, 'approves must have at most 20 entries.'],
  [{ approves: ['A b'] }, 'approves.0 may contain only lower-case letters, digits, _ . : and -.'],
])('a key with %j is refused', async (wrong, sentence) => {
  const { status, body } = await create({ scope: 'operator', name: 'x', approves: ['team:payments'], ...wrong })
  expect([status, body.error]).toEqual([400, sentence])
})
