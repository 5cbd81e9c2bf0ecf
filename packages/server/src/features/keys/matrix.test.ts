import { type Endpoint, endpoints, type KeyCreated, keyScopes, type PersonRole, type Scope } from '@wardline/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type IdentityProvider, startIdentityProvider } from '../../../../../test-servers/identity-provider.ts'
import { isoTime } from '../../clock.ts'
import { askApproval, askingCall } from '../../testing/approvals.ts'
import { as, atProvider, confirm, finish, openServiceWith, publicUrl, setRoles, signIn } from '../../testing/people.ts'
import type { TestService } from '../../testing/service.ts'
import { generateKey } from './key-format.ts'

/* Every endpoint for every kind of caller. What they get follows from the endpoint table, in `expected`. */

const table = Object.entries(endpoints as Record<string, Endpoint>)
const keyed = table.filter(([, { access }]) => Array.isArray(access))
const roles: PersonRole[] = ['viewer', 'approver', 'operator', 'admin']
const limitable = roles.filter((role) => role !== 'admin')

/** Takes a key and nothing else: a stolen session must not be renewed. */
const forKeys = ['createSession', 'createLoginLink']
/** Would end the session of the caller. */
const endsItself = 'deleteSession'

interface Caller {
  title: string
  /** What its requests have; `key` null: no key. */
  with: { key: string | null; headers?: Record<string, string> }
  scope: Scope | undefined
  isLimited?: boolean
  isPerson?: boolean
  isStale?: boolean
}

/** Whether the table lets a caller in: else the status with which it is refused. */
function expected(name: string, { access, teams }: Endpoint, { scope, isLimited, isPerson }: Caller) {
  if (scope === undefined || (isPerson && forKeys.includes(name))) return 401
  if (!(access as readonly Scope[]).includes(scope)) return 403
  return isLimited && teams === 'refused' ? 'refused to teams' : 'admitted'
}

let provider: IdentityProvider
let service: TestService
/** Who may do something, then who may do nothing. */
let callers: Caller[]
let strangers: Caller[]
/** Ids of what is of another team, by endpoint. */
let foreign: Record<string, string>

const loginOf = (role: PersonRole, isLimited: boolean) => `${role}${isLimited ? '-of-a' : ''}`
const people = [...roles.map((role) => [role, false] as const), ...limitable.map((role) => [role, true] as const)]

async function ok<Body>(method: 'POST' | 'PUT' | 'GET', path: string, body?: object): Promise<Body> {
  const answer = await service.call<Body>(method, path, body === undefined ? {} : { body })
  expect(answer.status, `${path}: ${answer.text}`).toBeLessThan(300)
  return answer.body
}

/** Lets agents of the other team do what endpoints show. Returns its ids, by endpoint. */
async function fillOthers(): Promise<Record<string, string>> {
  const about = { source: 'b', instance_id: 'b', event_type: 'report', description: 'x' }
  await ok('POST', '/api/events', { ...about, severity: 'breach' })
  const alert = (await ok<{ alerts: { id: string }[] }>('GET', '/api/alerts?instance_id=b')).alerts[0]!.id
  const comment = await ok<{ id: string }>('POST', `/api/alerts/${alert}/comments`, { text: 'x' })
  const decoy = await ok<{ id: string }>('POST', '/api/honeypots', {
    type: 'file_path',
    path: '/srv/b',
    instanceId: 'b',
  })
  const { key } = await service.createKey('agent', ['b'])
  const waiting = (await askApproval(service, askingCall(), { id: 'b', key })).body.id
  const decided = (await askApproval(service, askingCall({ tool: 'other' }), { id: 'b', key })).body.id
  const allowance = await ok<{ allowance_id: string }>('POST', `/api/approvals/${decided}`, {
    decision: 'approve',
    for_minutes: 5,
  })
  const act = { reason: 'x', selector: { instances: ['b', 'c'] } }
  const containment = await ok<{ id: string }>('POST', '/api/containments', {
    ...act,
    action: 'suspend',
    confirm: 'suspend 2 agents',
  })
  const drill = await ok<{ id: string }>('POST', '/api/drills', { selector: { instances: ['b'] } })
  const refused = await service.call('POST', '/api/containments', {
    body: { ...act, action: 'resume', confirm: 'resume 2 agents' },
  })
  expect(refused.status, refused.text).toBe(409)
  const waitingFor = await ok<{ resume_requests: { id: string }[] }>('GET', '/api/containments')
  return {
    getAlert: alert,
    changeAlert: alert,
    addComment: alert,
    deleteComment: comment.id,
    getHoneypot: decoy.id,
    noteDecoyPlanted: decoy.id,
    testDecoy: decoy.id,
    rotateDecoy: decoy.id,
    deleteHoneypot: decoy.id,
    getApproval: waiting,
    decideApproval: waiting,
    revokeAllowance: allowance.allowance_id,
    getContainment: containment.id,
    getDrill: drill.id,
    listRequestedMembers: waitingFor.resume_requests[0]!.id,
  }
}

beforeAll(async () => {
  const named = people.map(([role, isLimited]) => loginOf(role, isLimited))
  const accounts = Object.fromEntries([...named, 'removed'].map((name) => [name, { name, groups: [name] }]))
  provider = await startIdentityProvider({ publicUrl, accounts })
  service = await openServiceWith(provider, { WARDLINE_TWO_PERSON_RESUME: 'true' })
  const mappings = [
    ...people.map(([role, isLimited]) => ({
      group: loginOf(role, isLimited),
      role,
      ...(isLimited ? { tags: ['team:a'] } : {}),
    })),
    { group: 'removed', role: 'admin' },
  ]
  await setRoles(service, mappings)
  for (const [id, tag] of [
    ['a', 'team:a'],
    ['b', 'team:b'],
    ['c', 'team:b'],
  ]) {
    await ok('POST', '/api/heartbeat', { instance_id: id, name: id })
    await ok('PUT', `/api/instances/${id}/tags`, { tags: [tag] })
  }
  foreign = await fillOthers()

  const expired = await service.createKey('admin', undefined, isoTime(service.clock.now() + 1_000))
  const revoked = await service.createKey('admin')
  await service.call('DELETE', `/api/keys/${revoked.id}`)
  const removed = as(await signIn(service, 'removed'))
  provider.accounts.removed!.groups = []
  expect((await finish(service, await atProvider(service, 'removed'))).status).toBe(403)
  service.clock.advance(2_000)
  const ended = as(await signIn(service, 'admin'))
  await service.call('DELETE', '/api/session', ended)
  const { headers } = as(await signIn(service, 'admin'))
  strangers = [
    ['nobody', { key: null }],
    ['an empty key', { key: '' }],
    ['no key of this service', { key: 'bad' }],
    ['an unknown key', { key: generateKey('admin').key }],
    ['an expired key', { key: expired.key }],
    ['a revoked key', { key: revoked.key }],
    ['a session that has ended', ended],
    ['a person who was removed', removed],
    ['a cookie without its secret', { key: null, headers: { cookie: headers.cookie } }],
  ].map(([title, given]) => ({ title: title as string, with: given as Caller['with'], scope: undefined }))

  callers = []
  for (const scope of keyScopes) {
    callers.push({ title: `key ${scope}`, with: { key: (await service.createKey(scope)).key }, scope })
  }
  for (const scope of ['viewer', 'operator'] as const) {
    const body = { scope, name: 'of a', tags_scope: ['team:a'] }
    const { key } = await ok<KeyCreated>('POST', '/api/keys', body)
    callers.push({ title: `key ${scope} of a team`, with: { key }, scope, isLimited: true })
  }
  for (const [scope, isLimited] of people) {
    const of = { scope, isLimited, isPerson: true }
    const login = loginOf(scope, isLimited)
    callers.push({ title: `${login}, unconfirmed`, with: as(await signIn(service, login)), ...of, isStale: true })
    callers.push({ title: `${login}, confirmed`, with: as(await confirm(service, login)), ...of })
  }
})
afterAll(async () => {
  await service[Symbol.asyncDispose]()
  await provider[Symbol.asyncDispose]()
})

const unknownIds: Record<string, string> = { ':instanceId': 'agent-nobody', keys: '00000000' }

/** A request that fails after authorization. */
function ask(endpoint: Endpoint, caller: Caller) {
  const path = endpoint.path
    .replace(':instanceId', unknownIds[':instanceId']!)
    .replace(':id', endpoint.path.includes('keys') ? unknownIds.keys! : '00000000-0000-0000-0000-000000000000')
  const body = endpoint.body || endpoint.rawBody ? { body: '"no object"' } : {}
  return service.call<{ error: string }>(endpoint.method, path, { ...caller.with, ...body })
}

it.each(keyed.filter(([name]) => name !== endsItself))(
  '%s admits whom the table says, and nobody else',
  async (name, endpoint) => {
    const wrong: unknown[] = []
    for (const caller of callers) {
      const { status, headers, text } = await ask(endpoint, caller)
      const code = headers['x-error-code']
      const should = expected(name, endpoint, caller)
      const isUnconfirmed = caller.isStale && status === 401 && code === 'fresh_confirmation_required'
      const isRight =
        should === 'admitted'
          ? isUnconfirmed || ![401, 403, 500, 503].includes(status)
          : // An invalid body or path may be refused before the team.
            should === 'refused to teams'
            ? [400, 403, 404].includes(status)
            : status === should
      if (!isRight) wrong.push([caller.title, should, status, text.slice(0, 200)])
    }
    expect(wrong).toEqual([])
  },
)

describe('an id of another team answers as an unknown one, byte for byte:', () => {
  /** Bodies that are valid, so that only the id decides. */
  const bodies: Record<string, object> = {
    setInstanceNote: { text: 'x' },
    killInstance: { reason: 'x' },
    decideApproval: { decision: 'approve' },
    changeAlert: { status: 'acknowledged' },
    addComment: { text: 'x' },
    noteDecoyPlanted: { note: 'x' },
  }
  /** Rules are for all; what they say of agents is in teams.test.ts. */
  const ofNoAgent = ['getRule', 'listRuleFirings']
  const named = keyed.filter(([, { teams, path }]) => teams === 'agent' || (teams === 'agents' && path.includes(':')))

  it.each(named.filter(([name]) => !ofNoAgent.includes(name)))('%s', async (name, endpoint) => {
    const { path, teams, method } = endpoint
    const there = teams === 'agent' ? 'b' : foreign[name]
    expect(there, `fillOthers has nothing for ${name}`).toBeDefined()
    const unknown = there!.slice(0, -1) + (there!.endsWith('0') ? '1' : '0')
    const send = async (id: string, { with: given }: Pick<Caller, 'with'>) => {
      const url = path.replace(/:(instanceId|id)/, id).replace(/:\w+/, 'events')
      const body = endpoint.body ? { body: bodies[name] ?? {} } : {}
      const { status, text, headers } = await service.call(method, url, { ...given, ...body })
      const { date: _date, 'content-length': _length, ...others } = headers
      return { status, text: text.replaceAll(id, 'ID'), headers: others }
    }
    // Else an id that exists for no one would prove nothing.
    if (method === 'GET') expect([200, 404]).toContain((await send(there!, callers[3]!)).status)
    if (method === 'GET' && teams === 'agents') expect((await send(there!, callers[3]!)).status).toBe(200)
    for (const caller of callers.filter(({ isLimited }) => isLimited)) {
      if (expected(name, endpoint, caller) !== 'admitted') continue
      const found = await send(there!, caller)
      expect(found, caller.title).toEqual(await send(unknown, caller))
      const isUnconfirmed = caller.isStale && found.headers['x-error-code'] === 'fresh_confirmation_required'
      expect(isUnconfirmed ? 404 : found.status, caller.title + found.text).toBe(404)
    }
  })
})

// Last, because the sessions of the others end meanwhile.
it.each(keyed)('%s answers 401 to who has no valid key or session', async (_name, endpoint) => {
  for (const caller of strangers) {
    // Forgets the invalid keys of the calls before.
    service.clock.advance(60_000)
    const { status, body, headers } = await ask(endpoint, caller)
    expect([status, headers['x-error-code']], caller.title).toEqual([401, 'unauthorized'])
    expect(Object.keys(body), caller.title).toEqual(endpoint.isOtlp ? ['code', 'message'] : ['error'])
  }
})

it('the endpoint table is as it was reviewed', async () => {
  const lines = table.map(([name, { method, path, access, teams }]) => {
    const who = typeof access === 'string' ? access : access.join(' ')
    return `${method} ${path}  ${name}: ${who}${teams ? `; teams: ${teams}` : ''}`
  })
  await expect(`${lines.sort().join('\n')}\n`).toMatchFileSnapshot('endpoint-access.txt')
})
