import { createPublicKey, verify } from 'node:crypto'
import { type ControlKeys, type DeliveredPolicy, type PolicyStored, policyHeader } from '@wardline/contract'
import { PolicySet, SessionMemory } from '@wardline/policy'
import type { KyselyPlugin } from 'kysely'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { listenOnFreePort, openControlStream } from '../../testing/control-stream.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { PolicySets } from './policy-sets.ts'

let service: TestService
beforeEach(async () => {
  service = await openTestService()
})
afterEach(() => service[Symbol.asyncDispose]())

const deny = (more: object = {}) => ({
  title: 'Volumes',
  rules: [{ title: 'Never', decision: 'deny', match: { tool: 'volume_delete' } }],
  ...more,
})

const beat = async (id: string, more: object = {}, key?: string) =>
  service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id, ...more }, ...(key ? { key } : {}) })
const poll = (id: string) => service.call('GET', `/api/instances/${id}/status`)
const known = async (id: string) => Number((await poll(id)).headers[policyHeader])
const store = async (body: object) => {
  const answer = await service.call<PolicyStored & { error: string }>('POST', '/api/policies', { body })
  expect(answer.body.error).toBeUndefined()
  return answer.body
}
const tag = (id: string, tags: string[]) => service.call('PUT', `/api/instances/${id}/tags`, { body: { tags } })
const deliver = async (id: string) => {
  const { body } = await service.call<DeliveredPolicy>('GET', `/api/instances/${id}/policy`)
  return { ...body, set: JSON.parse(body.body) }
}
const titles = async (id: string) =>
  (await deliver(id)).set.policies.map(({ title, mode }: { title: string; mode: string }) => `${title}: ${mode}`)

it('have version 0 and no policy until one is stored, and then the time', async () => {
  await beat('agent-1')
  await tag('agent-1', ['env:prod'])
  expect(await known('agent-1')).toBe(0)
  const { version, set } = await deliver('agent-1')
  expect([version, set]).toEqual([0, { agent: { id: 'agent-1', tags: ['env:prod'] }, policies: [] }])
  const stored = await store(deny())
  expect(stored.set_version).toBe(service.clock.now())
  expect(await known('agent-1')).toBe(stored.set_version)
  // Within one millisecond it grows too.
  expect((await store(deny())).set_version).toBe(stored.set_version + 1)
})

it('are signed for the instance, by the key of control messages', async () => {
  await beat('agent-1')
  await store(deny())
  const { body: keys } = await service.call<ControlKeys>('GET', '/.well-known/wardline-keys.json')
  const { kty, crv, x } = keys.keys[0]!
  const key = createPublicKey({ key: { kty, crv, x }, format: 'jwk' })
  const { instance_id, version, body, signature_ed25519 } = await deliver('agent-1')
  const verified = (text: string) => verify(null, Buffer.from(text), key, Buffer.from(signature_ed25519, 'base64url'))
  expect(verified(`wardline-policy-v1\n${instance_id}\n${version}\n${body}\n`)).toBe(true)
  expect(verified(`wardline-policy-v1\nagent-2\n${version}\n${body}\n`)).toBe(false)
  expect(verified(`wardline-policy-v1\n${instance_id}\n${version + 1}\n${body}\n`)).toBe(false)
})

it('have the policies for the id and the tags of operators, never for tags of the agent', async () => {
  await beat('pay-1', { tags: ['env:prod'] })
  await beat('web-1')
  await store(deny({ title: 'All', mode: 'enforce' }))
  await store(deny({ title: 'Prod', for: { tags: ['env:prod'] } }))
  await store(deny({ title: 'Payments', for: { agents: 'pay-*' } }))
  expect(await titles('pay-1')).toEqual(['All: enforce', 'Payments: observe'])
  expect(await titles('web-1')).toEqual(['All: enforce'])
  await tag('web-1', ['env:prod'])
  expect(await titles('web-1')).toEqual(['All: enforce', 'Prod: observe'])
})

it('decide for some agents while their mode is observe', async () => {
  await beat('agent-1', { tags: ['canary'] })
  await beat('agent-2')
  await tag('agent-2', ['canary'])
  await store(deny({ enforce_for: { tags: ['canary'] } }))
  expect([await titles('agent-1'), await titles('agent-2')]).toEqual([['Volumes: observe'], ['Volumes: enforce']])
  const { set } = await deliver('agent-2')
  const call = { tool: 'volume_delete', args: {}, at: 0 }
  expect(new PolicySet(set).decide(new SessionMemory(), call)).toMatchObject({ decision: 'deny', rule: 'Never' })
})

it('have documents without cases, with packs of labels written out', async () => {
  await beat('agent-1')
  const rule = { title: 'Never', decision: 'deny', match: { tool: 'x' }, cases: { match: [{ tool: 'x' }] } }
  const { id } = await store({ title: 'All', rules: [rule], labels: ['service', { mine: { is: ['sends'] } }] })
  const [policy] = (await deliver('agent-1')).set.policies
  expect(policy).toMatchObject({ id, title: 'All', version: 1, mode: 'observe', document: { title: 'All' } })
  expect(policy.document.rules).toEqual([{ title: 'Never', decision: 'deny', match: { tool: 'x' } }])
  expect(policy.document.labels.mine).toMatchObject({ is: ['sends'] })
  expect(Object.keys(policy.document.labels).length).toBeGreaterThan(5)
})

it('have a newer version after every change that concerns an agent', async () => {
  await beat('agent-1', { tags: ['mine'] })
  const { id } = await store(deny())
  let last = await known('agent-1')
  const isNewer = async (change: () => Promise<{ status: number }>) => {
    expect((await change()).status).toBe(200)
    const version = await known('agent-1')
    expect((await deliver('agent-1')).version).toBe(version)
    const newer = version > last
    last = version
    return newer
  }
  expect(await isNewer(() => service.call('PUT', `/api/policies/${id}/mode`, { body: { mode: 'enforce' } }))).toBe(true)
  expect(await isNewer(() => service.call('PUT', `/api/policies/${id}`, { body: deny({ title: 'New' }) }))).toBe(true)
  expect(await isNewer(() => tag('agent-1', ['env:prod']))).toBe(true)
  expect(await isNewer(() => beat('agent-1', { tags: ['other'] }))).toBe(false)
  expect(await isNewer(() => service.call('DELETE', `/api/policies/${id}`))).toBe(true)
  await beat('agent-2')
  expect(await isNewer(() => service.call('DELETE', '/api/instances/agent-2'))).toBe(true)
})

// On PostgreSQL locks taken in another order would end one of two changes.
it('are of one version each while policies, tags and agents change in two processes at once', async () => {
  await using second = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
  for (const id of ['agent-1', 'agent-2']) await beat(id)
  for (const n of [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]) await beat(`gone-${n}`)
  await store(deny({ for: { tags: ['round-9'] } }))
  const seen = new Map<number, string>()
  const look = async (on: TestService) => {
    const { status, body } = await on.call<DeliveredPolicy>('GET', '/api/instances/agent-1/policy')
    if (status !== 200) return
    expect(seen.get(body.version) ?? body.body).toBe(body.body)
    seen.set(body.version, body.body)
  }
  for (const n of [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]) {
    const [one, other] = n % 2 ? [service, second] : [second, service]
    const answers = await Promise.all([
      one.call('PUT', '/api/instances/agent-1/tags', { body: { tags: [`round-${n}`] } }),
      other.call('PUT', '/api/instances/agent-2/tags', { body: { tags: [`round-${n}`] } }),
      other.call('POST', '/api/policies', { body: deny({ title: `Policy ${n}`, mode: 'enforce' }) }),
      one.call('DELETE', `/api/instances/gone-${n}`),
      ...[one, other, one, other].map(look),
    ])
    expect(answers.slice(0, 4).map((answer) => answer?.status)).toEqual([200, 200, 201, 200])
  }
  await look(service)
  const { set, version } = await deliver('agent-1')
  expect(set.policies).toHaveLength(11)
  expect(Math.max(...seen.keys())).toBe(version)
})

it('are read again when a policy is stored between the tags and the policies', async () => {
  await beat('agent-1')
  await store(deny({ title: 'First' }))
  const { database } = service.deps
  let isStored = false
  const storing: KyselyPlugin = {
    transformQuery: ({ node }) => node,
    async transformResult({ result }) {
      if (!isStored) {
        isStored = true
        await store(deny({ title: 'Second' }))
      }
      return result
    },
  }
  const sets = new PolicySets({ ...service.deps, database: { ...database, db: database.db.withPlugin(storing) } })
  const { version, body } = await sets.read('agent-1')
  expect(JSON.parse(body).policies).toHaveLength(2)
  expect(version).toBe(await known('agent-1'))
})

it('are loaded once for all agents that ask after a change', async () => {
  const ids = Array.from({ length: 50 }, (_, n) => `agent-${n}`)
  for (const id of ids) await beat(id)
  await store(deny())
  let loads = 0
  const counting: KyselyPlugin = {
    transformQuery: ({ node }) => node,
    async transformResult({ result }) {
      if (result.rows.some((row) => 'document' in row)) loads += 1
      return result
    },
  }
  const { database } = service.deps
  const sets = new PolicySets({ ...service.deps, database: { ...database, db: database.db.withPlugin(counting) } })
  const read = await Promise.all(ids.map((id) => sets.read(id)))
  expect(read.map(({ body }) => JSON.parse(body).policies.length)).toEqual(ids.map(() => 1))
  // Those who ask while one load runs share the next.
  expect(loads).toBeLessThanOrEqual(2)
})

it('are newer after a restore than what agents know, from the next change on', async () => {
  await beat('agent-1')
  await store(deny())
  service.clock.advance(60_000)
  const lost = (await store(deny())).set_version
  // What a backup of before has.
  await service.deps.database.db
    .updateTable('counters')
    .set({ value: lost - 60_000 })
    .where('name', '=', 'policy_set')
    .execute()
  service.clock.advance(1_000)
  expect((await store(deny())).set_version).toBeGreaterThan(lost)
})

it('answer 304 for the version that a client has, and only for that', async () => {
  await beat('agent-1')
  await store(deny())
  const get = (etag?: string) =>
    service.call(
      'GET',
      '/api/instances/agent-1/policy',
      etag === undefined ? {} : { headers: { 'if-none-match': etag } },
    )
  const { headers, status } = await get()
  const etag = String(headers.etag)
  expect([status, etag]).toEqual([200, `"${await known('agent-1')}"`])
  expect(await get(etag)).toMatchObject({ status: 304, text: '' })
  await store(deny())
  expect((await get(etag)).status).toBe(200)
})

it('are given to the agent itself and to readers, to no other agent', async () => {
  await beat('agent-1')
  const own = await service.createKey('agent', ['agent-1'])
  const other = await service.createKey('agent', ['agent-2'])
  const viewer = await service.createKey('viewer')
  const get = async (key: string | null, id = 'agent-1') =>
    (await service.call('GET', `/api/instances/${id}/policy`, { key })).status
  expect(await Promise.all([get(own.key), get(viewer.key), get(other.key), get(null)])).toEqual([200, 200, 403, 401])
  expect(await get(viewer.key, 'unknown')).toBe(404)
})

it('are announced on control streams that ask for them, at most every five seconds', async () => {
  const url = await listenOnFreePort(service.app)
  await beat('agent-1')
  await using plain = await openControlStream(url, 'agent-1')
  await using asking = await openControlStream(url, 'agent-1', '?understands=drill,policy')
  const announced = () => asking.messages().flatMap(({ action, version }) => (action === 'policy' ? [version] : []))
  const first = await store(deny())
  await expect.poll(announced).toEqual([first.set_version])
  // A script that tags a fleet.
  for (const name of ['a', 'b', 'c']) await tag('agent-1', [name])
  await service.services.policySets.refresh()
  service.clock.advance(5_000)
  await service.services.policySets.refresh()
  await service.services.policySets.refresh()
  await expect.poll(announced).toEqual([first.set_version, first.set_version + 3])
  // Of another process, whose notice did not arrive.
  await using second = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
  service.clock.advance(5_000)
  await second.call('POST', '/api/policies', { body: deny() })
  await service.services.policySets.refresh()
  await expect.poll(() => announced().length).toBe(3)
  expect(announced()[2]).toBe(await known('agent-1'))
  expect(plain.messages().map(({ action }) => action)).toEqual(['resume'])
})

it('are known to heartbeats and polls of all processes, also with 304', async () => {
  await beat('agent-1')
  await using second = await openTestService({ dataDir: service.deps.config.dataDir, clock: service.clock })
  const { set_version } = await store(deny())
  await second.services.policySets.refresh()
  const answers = [
    await second.call('GET', '/api/instances/agent-1/status'),
    await second.call('POST', '/api/heartbeat', { body: { instance_id: 'agent-1', name: 'One' } }),
  ]
  answers.push(
    await second.call('GET', '/api/instances/agent-1/status', {
      headers: { 'if-none-match': String(answers[0]!.headers.etag) },
    }),
  )
  expect(answers.map(({ status, headers }) => [status, headers[policyHeader]])).toEqual([
    [200, String(set_version)],
    [200, String(set_version)],
    [304, String(set_version)],
  ])
  // A process that has the policies of an earlier version in memory reads those of this one.
  await second.call('GET', '/api/instances/agent-1/policy')
  await store(deny({ title: 'More' }))
  expect((await second.call<DeliveredPolicy>('GET', '/api/instances/agent-1/policy')).body.body).toContain('"More"')
})
