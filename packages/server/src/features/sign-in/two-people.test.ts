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
