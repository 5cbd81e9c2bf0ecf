import { randomUUID } from 'node:crypto'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { type IdentityProvider, startIdentityProvider } from '../../../../../test-servers/identity-provider.ts'
import { accounts, as, confirm, openServiceWith, publicUrl } from '../../testing/people.ts'
import type { TestService } from '../../testing/service.ts'

let provider: IdentityProvider
let service: TestService
beforeEach(async () => {
  provider = await startIdentityProvider({ publicUrl, accounts })
  service = await openServiceWith(provider, { WARDLINE_TWO_PERSON_RESUME: 'true' })
  await service.call('POST', '/api/heartbeat', { body: { instance_id: 'a', name: 'a' } })
  await service.call('POST', '/api/kill/a', { body: { reason: 'x' } })
})
afterEach(async () => {
  await service[Symbol.asyncDispose]()
  await provider[Symbol.asyncDispose]()
})

type Caller = { key: string | null; headers?: Record<string, string> }
const resume = async (caller: Caller) => (await service.call('POST', '/api/resume/a', caller)).status
async function createKey(scope: string, caller: Caller) {
  const answer = await service.call<{ key: string; id: string }>('POST', '/api/keys', {
    ...caller,
    body: { scope, name: 'x' },
  })
  expect(answer.status, answer.text).toBe(201)
  return answer.body
}

it('two operators are two people, whatever keys they hold', async () => {
  const root = as(await confirm(service, 'root'))
  expect(await resume(root)).toBe(409)
  const own = await createKey('operator', root)
  const admin = await createKey('admin', root)
  const through = await createKey('operator', { key: admin.key })
  const rotated = await service.call<{ key: string }>('POST', `/api/keys/${own.id}/rotate`, { ...root, body: {} })
  const ofOther = await service.createKey('operator')
  const taken = await service.call<{ key: string }>('POST', `/api/keys/${ofOther.id}/rotate`, { ...root, body: {} })
  const again = as(await confirm(service, 'root'))
  for (const key of [own.key, admin.key, through.key, rotated.body.key, taken.body.key])
    expect(await resume({ key })).toBe(409)
  expect(await resume(again)).toBe(409)
  expect(await resume(as(await confirm(service, 'ada')))).toBe(200)
})

it('a key that the person did not create is another operator', async () => {
  const { key } = await service.createKey('operator')
  expect(await resume(as(await confirm(service, 'root')))).toBe(409)
  expect(await resume({ key })).toBe(200)
})

it('keys of agents that a person creates go on to own their instances', async () => {
  const root = as(await confirm(service, 'root'))
  const { body } = await service.call<{ key: string; id: string }>('POST', '/api/keys', {
    ...root,
    body: { scope: 'agent', instances: ['b'] },
  })
  await service.call('POST', '/api/heartbeat', { key: body.key, body: { instance_id: 'b', name: 'b' } })
  const row = await service.deps.database.db
    .selectFrom('instances')
    .select('owner')
    .where('id', '=', 'b')
    .executeTakeFirst()
  expect(row?.owner).toBe(body.id)
})

// One person with two keys must not get past a rule that asks for two people.
it('two who approve a call are two people, whatever keys they hold', async () => {
  const root = as(await confirm(service, 'root'))
  const own = await createKey('operator', root)
  const admin = await createKey('admin', root)
  const ofOther = await service.createKey('operator')
  const agent = await service.createKey('agent', ['c'])
  await service.call('POST', '/api/heartbeat', { body: { instance_id: 'c', name: 'c' } })
  const ask = async (digit: string, key: string) => {
    const body = {
      ...{ attempt: randomUUID(), session_id: 's', tool: 'send', args_sha256: digit.repeat(64), args: '{}' },
      ...{ policy_id: '01980000-0000-7000-8000-00000000a001', policy_version: 1, rule: 'x', approvals: 2 },
      wait_seconds: 600,
    }
    const answer = await service.call<{ id: string }>('POST', '/api/instances/c/approvals', { key, body })
    expect(answer.status, answer.text).toBe(200)
    return answer.body.id
  }
  const approve = async (id: string, caller: Caller) => {
    const answer = await service.call<{ state: string }>('POST', `/api/approvals/${id}`, {
      ...caller,
      body: { decision: 'approve' },
    })
    return answer.status === 200 ? answer.body.state : answer.status
  }
  const one = await ask('a', agent.key)
  expect(await approve(one, { key: own.key })).toBe('pending')
  for (const caller of [root, { key: admin.key }, { key: own.key }]) expect(await approve(one, caller)).toBe(409)
  expect(await approve(one, as(await confirm(service, 'ada')))).toBe('approved')
  const other = await ask('b', agent.key)
  expect([await approve(other, root), await approve(other, { key: ofOther.key })]).toEqual(['pending', 'approved'])
  // What a person asked for with one key, they decide with none.
  const asked = await ask('c', admin.key)
  for (const caller of [root, { key: own.key }, { key: admin.key }]) expect(await approve(asked, caller)).toBe(403)
})

it('two who resume a fleet are two people, whatever keys they hold', async () => {
  await service.call('POST', '/api/heartbeat', { body: { instance_id: 'b', name: 'b' } })
  await service.call('POST', '/api/kill/b', { body: { reason: 'x' } })
  const resumeAll = async (caller: Caller) => {
    const body = { action: 'resume', reason: 'x', selector: { instances: ['a', 'b'] }, confirm: 'resume 2 agents' }
    const { status, headers } = await service.call('POST', '/api/containments', { ...caller, body })
    return headers['x-error-code'] ?? status
  }
  const root = as(await confirm(service, 'root'))
  const own = await createKey('operator', root)
  for (const caller of [root, { key: own.key }, root]) expect(await resumeAll(caller)).toBe('second_operator_required')
  expect(await resumeAll(as(await confirm(service, 'ada')))).toBe(201)
})
