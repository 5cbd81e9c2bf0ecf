import { type Endpoint, endpoints, type Scope } from '@wardline/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type IdentityProvider, startIdentityProvider } from '../../../../../test-servers/identity-provider.ts'
import { askApproval, askingCall } from '../../testing/approvals.ts'
import { as, openServiceWith, publicUrl, setRoles, signIn } from '../../testing/people.ts'
import type { TestService } from '../../testing/service.ts'

const accounts = {
  ann: { name: 'Ann', groups: ['reviewers'] },
  bob: { name: 'Bob', groups: ['reviewers-of-a'] },
}
const mappings = [
  { group: 'reviewers', role: 'approver' },
  { group: 'reviewers-of-a', role: 'approver', tags: ['team:a'] },
]

let provider: IdentityProvider
let service: TestService
let ann: ReturnType<typeof as>
let bob: ReturnType<typeof as>
beforeAll(async () => {
  provider = await startIdentityProvider({ publicUrl, accounts })
  service = await openServiceWith(provider)
  await setRoles(service, mappings)
  ann = as(await signIn(service, 'ann'))
  bob = as(await signIn(service, 'bob'))
  for (const id of ['a', 'b']) {
    await service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id } })
    await service.call('PUT', `/api/instances/${id}/tags`, { body: { tags: [`team:${id}`] } })
  }
})
afterAll(async () => {
  await service[Symbol.asyncDispose]()
  await provider[Symbol.asyncDispose]()
})

const ask = async (id: string, tool: string) => (await askApproval(service, askingCall({ tool }), { id })).body.id
const decide = (id: string, caller: object, body: object = { decision: 'approve', for_minutes: 5 }) =>
  service.call<{ state: string; allowance_id: string }>('POST', `/api/approvals/${id}`, { ...caller, body })
const revoke = (id: string, caller: object) => service.call('DELETE', `/api/allowances/${id}`, caller)

describe('an approver', () => {
  it('decides approvals and revokes allowances', async () => {
    const { status, body } = await decide(await ask('b', 'one'), ann)
    expect([status, body.state]).toEqual([200, 'approved'])
    expect((await revoke(body.allowance_id, ann)).status).toBe(200)
  })

  it('limited to a team decides and revokes for it only', async () => {
    const foreign = await ask('b', 'two')
    expect((await decide(foreign, bob)).status).toBe(404)
    const allowed = await decide(foreign, ann)
    expect((await revoke(allowed.body.allowance_id, bob)).status).toBe(404)
    const own = await decide(await ask('a', 'two'), bob)
    expect([own.status, (await revoke(own.body.allowance_id, bob)).status]).toEqual([200, 200])
  })

  const table = Object.entries(endpoints as Record<string, Endpoint>)
  const names = (is: (endpoint: Endpoint) => boolean) => table.filter(([, one]) => is(one)).map(([name]) => name)
  const isFor = (scope: Scope) => (endpoint: Endpoint) =>
    Array.isArray(endpoint.access) && (endpoint.access as readonly Scope[]).includes(scope)

  it('may call what a viewer may, and nothing else besides', () => {
    const decisions = ['decideApproval', 'revokeAllowance']
    const added = names((one) => isFor('approver')(one) && !isFor('viewer')(one))
    expect(added.sort()).toEqual(decisions)
    expect(names((one) => isFor('viewer')(one) && !isFor('approver')(one))).toEqual([])
  })
})
