import type { AlertDetail, ReplyOf } from '@wardline/contract'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { type IdentityProvider, startIdentityProvider } from '../../../../../test-servers/identity-provider.ts'
import { accounts, as, confirm, openServiceWith, publicUrl, signIn } from '../../testing/people.ts'
import type { TestService } from '../../testing/service.ts'

let provider: IdentityProvider
let service: TestService
let alert: string
beforeEach(async () => {
  provider = await startIdentityProvider({ publicUrl, accounts })
  service = await openServiceWith(provider)
  alert = await report()
})
afterEach(async () => {
  await service[Symbol.asyncDispose]()
  await provider[Symbol.asyncDispose]()
})

type Caller = { key?: string | null; headers?: Record<string, string> }

async function report(): Promise<string> {
  const body = { severity: 'critical', source: 'x', event_type: 'policy_violation', description: 'x', instance_id: 'a' }
  return (await service.call<{ id: string }>('POST', '/api/events', { body })).body.id
}
const assign = (assignee: string | null, caller: Caller = {}, more = {}) =>
  service.call<{ error: string }>('PATCH', `/api/alerts/${alert}`, { ...caller, body: { assignee, ...more } })
const detail = async () => (await service.call<AlertDetail>('GET', `/api/alerts/${alert}`)).body
const setPeople = (columns: { role?: null; name?: string }) =>
  service.deps.database.db.updateTable('people').set(columns).execute()

/** Returns how many alerts are assigned so, by the list and by the counts. */
async function assigned(filter: string, caller: Caller = {}): Promise<number> {
  const query = `instance_id=a&assigned=${filter}`
  const list = await service.call<ReplyOf<'listAlerts'>>('GET', `/api/alerts?${query}`, caller)
  const { body } = await service.call<ReplyOf<'countAlerts'>>('GET', `/api/alert-counts?${query}`, caller)
  const count = body.counts.reduce((sum, one) => sum + one.count, 0)
  expect(count).toBe(list.body.alerts.length)
  return count
}

it('an alert is assigned to a person by id, name or mail address, and to the person behind a key', async () => {
  const ada = as(await signIn(service, 'ada'))
  expect((await assign('me', ada)).status).toBe(200)
  const { assignee, ...rest } = await detail()
  expect(rest).toMatchObject({ assignee_name: 'Ada Lovelace', assignee_ended: false })
  expect(assignee).toMatch(/^person-/)
  expect([await assigned('me', ada), await assigned(assignee!)]).toEqual([1, 1])
  const names = [assignee!, 'Ada Lovelace', 'ada@example.com']
  for (const name of names) {
    expect((await assign(null)).status).toBe(200)
    expect([await assigned('none'), await assigned('me', ada)]).toEqual([1, 0])
    expect((await assign(name)).status, name).toBe(200)
    expect((await detail()).assignee).toBe(assignee)
  }
  const root = as(await confirm(service, 'root'))
  const body = { scope: 'operator', name: 'x' }
  const own = (await service.call<{ id: string; key: string }>('POST', '/api/keys', { ...root, body })).body
  const ways: [string, Caller][] = [
    ['me', { key: own.key }],
    [own.id, {}],
  ]
  for (const [who, caller] of ways) {
    await assign(null)
    expect((await assign(who, caller)).status).toBe(200)
    expect(await detail()).toMatchObject({ assignee_name: 'Grace Hopper', assignee_ended: false })
  }
  expect(await assigned('me', { key: own.key })).toBe(1)
  const history = (await detail()).history.map(({ after }) => after.assignee)
  expect(new Set(history)).toEqual(new Set(['Grace Hopper', 'Ada Lovelace', null]))
})

// An agent that was responsible for the alerts about it would hide them from operators who look for unassigned ones.
it('an alert is never assigned to the key of an agent or viewer, a revoked key, or an unknown name', async () => {
  const agent = await service.createKey('agent', ['a'])
  const viewer = await service.createKey('viewer')
  const gone = await service.createKey('operator')
  expect((await service.call('DELETE', `/api/keys/${gone.id}`)).status).toBe(200)
  for (const who of [agent.id, viewer.id, gone.id, 'Nobody', 'configured-00000000', 'person-0000000000000000', '<b>']) {
    const { status, body } = await assign(who)
    expect(status, who).toBe(400)
    expect(body.error).toMatch(/^assignee /)
  }
  for (const { key } of [agent, viewer]) {
    expect((await assign('me', { key })).status).toBe(403)
    expect((await service.call('GET', '/api/assignees', { key })).status).toBe(403)
  }
  expect(await detail()).toMatchObject({ assignee: null, assignee_name: null, assignee_ended: false, history: [] })
})

// People choose their names at the provider.
it('a name of several is refused, and one that looks like an id takes no alert from whom the id names', async () => {
  const one = await service.createKey('operator')
  await service.createKey('operator')
  expect((await assign('operator of a test')).body.error).toContain('several')
  await signIn(service, 'ada')
  await setPeople({ name: one.id })
  expect((await assign(one.id)).status).toBe(200)
  expect((await detail()).assignee).toBe(one.id)
})

it('an assignee whose role has ended is named so, and can be replaced', async () => {
  await assign('me', as(await signIn(service, 'ada')))
  await setPeople({ role: null })
  expect(await detail()).toMatchObject({ assignee_name: 'Ada Lovelace', assignee_ended: true })
  expect((await assign('Ada Lovelace')).status).toBe(400)
  const list = await service.call<ReplyOf<'listAssignees'>>('GET', '/api/assignees')
  expect(list.body.assignees).toEqual([
    { id: expect.stringMatching(/^configured-/), name: 'WARDLINE_API_KEY', kind: 'key', own: true },
  ])
  expect((await assign('me')).status).toBe(200)
  // What an older version stored.
  await service.deps.database.db.updateTable('alerts').set({ assignee: 'Kim' }).execute()
  expect(await detail()).toMatchObject({ assignee_name: 'Kim', assignee_ended: true })
})

it('the other alerts of a problem are assigned too, and keep their assignee when only the state changes', async () => {
  const operator = await service.createKey('operator')
  await assign(operator.id)
  const first = alert
  alert = await report()
  expect((await assign('me', {}, { whole_group: true })).body).toMatchObject({ changed: 2 })
  expect(await assigned('me')).toBe(2)
  await assign(operator.id)
  const body = { status: 'acknowledged', whole_group: true }
  expect((await service.call('PATCH', `/api/alerts/${first}`, { body })).body).toMatchObject({ changed: 2 })
  expect((await detail()).assignee).toBe(operator.id)
})
