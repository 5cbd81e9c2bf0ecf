import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'

let service: TestService
let bound: string
let another: string
beforeAll(async () => {
  service = await openTestService({ env: { WARDLINE_AUTO_SUSPEND: 'decoy' } })
  for (const id of ['bot-1', 'bot-2']) {
    const body = { instance_id: id, name: id }
    expect((await service.call('POST', '/api/heartbeat', { body })).status).toBe(200)
  }
  bound = (await service.createKey('agent', ['bot-1'])).key
  another = (await service.createKey('agent', ['bot-2'])).key
})
afterAll(() => service[Symbol.asyncDispose]())

async function plant(path: string, instanceId?: string): Promise<string> {
  const body = { ...(instanceId === undefined ? {} : { instanceId }), type: 'file_path', path }
  const { status, text, body: created } = await service.call<{ id: string }>('POST', '/api/honeypots', { body })
  expect(status, text).toBe(201)
  return created.id
}
async function touch(path: string, key?: string, meta: object = {}): Promise<boolean> {
  const body = { path, meta: { tool: 'shell-exec', ...meta } }
  const {
    status,
    text,
    body: reply,
  } = await service.call<{ matched: boolean }>('POST', '/api/honeypots/check/path', {
    body,
    ...(key === undefined ? {} : { key }),
  })
  expect(status, text).toBe(200)
  return reply.matched
}
interface Detail {
  instanceId: string | null
  state: string
  leaked_outside: boolean
  hits: { reporter: string | null; form: string; outside: boolean; event_id: string }[]
}
const detail = async (id: string) => (await service.call<Detail>('GET', `/api/honeypots/${id}`)).body
const statusOf = async (id: string) =>
  (await service.call<{ status: string }>('GET', `/api/instances/${id}`)).body.status
const resume = (id: string) => service.call('POST', `/api/resume/${id}`, { body: {} })

/** The forms in which a path is found, as its decoy and what a command says. */
const forms = [
  ['path', (name: string) => `/opt/${name}/seed.bak`, (name: string) => `cat /opt/x/../${name}//seed.bak`],
  ['pattern', (name: string) => `/opt/${name}/*.bak`, (name: string) => `/opt/${name}/old.bak`],
  ['folder', (name: string) => `/opt/${name}/seed.bak`, (name: string) => `tar c /opt/${name}`],
  ['glob', (name: string) => `/opt/${name}/seed.bak`, (name: string) => `cat /opt/${name}/se*.bak`],
] as const

describe.each(forms)('a decoy path in the form %s', (form, decoyOf, commandOf) => {
  test.each([
    ['for every agent', undefined, true],
    ['of the agent', 'bot-1', true],
    ['of another agent', 'bot-2', false],
  ])('%s', async (scope, instanceId, isMatched) => {
    const name = `${form}-${scope.replaceAll(' ', '-')}`
    const id = await plant(decoyOf(name), instanceId)
    expect(await touch(commandOf(name), bound)).toBe(isMatched)
    const { hits, leaked_outside } = await detail(id)
    expect(hits).toMatchObject(isMatched ? [{ reporter: 'bot-1', form, outside: false }] : [])
    expect(leaked_outside).toBe(false)
    await resume('bot-1')
  })
})

describe('a decoy path for every agent', () => {
  test('suspends the agent that touches it, and names it in the hit and the event', async () => {
    const id = await plant('/srv/everywhere/passwords.kdbx')
    expect(await touch('/srv/everywhere/passwords.kdbx', another)).toBe(true)
    const { instanceId, hits } = await detail(id)
    expect({ instanceId, hits }).toMatchObject({ instanceId: null, hits: [{ reporter: 'bot-2' }] })
    const events = await service.rows<{ instance_id: string; metadata: string }>(
      `select instance_id, metadata from events where id = '${hits[0]!.event_id}'`,
    )
    expect(events.map(({ instance_id }) => instance_id)).toEqual(['bot-2'])
    expect(JSON.parse(events[0]!.metadata)).toMatchObject({ honeypot_id: id, planted_at: null })
    expect(await statusOf('bot-2')).toBe('suspended')
    expect(await statusOf('bot-1')).toBe('active')
    await resume('bot-2')
  })

  test('touched by a caller that names no agent, is a breach of none', async () => {
    const id = await plant('/srv/nobody/passwords.kdbx')
    expect(await touch('/srv/nobody/passwords.kdbx')).toBe(true)
    const { hits } = await detail(id)
    expect(hits).toMatchObject([{ reporter: null, outside: false }])
    const events = await service.rows(`select instance_id from events where id = '${hits[0]!.event_id}'`)
    expect(events).toEqual([{ instance_id: null }])
    expect([await statusOf('bot-1'), await statusOf('bot-2')]).toEqual(['active', 'active'])
  })

  test('gives way to the decoy of the agent itself', async () => {
    const [all, own, other] = [
      await plant('/srv/both/a'),
      await plant('/srv/both/a', 'bot-1'),
      await plant('/srv/both/a', 'bot-2'),
    ]
    expect(await touch('/srv/both/a', bound)).toBe(true)
    expect(await touch('/srv/both/a', undefined, { instance_id: 'bot-3' })).toBe(true)
    const counts = await Promise.all([all, own, other].map(async (id) => (await detail(id)).hits.length))
    expect(counts).toEqual([1, 1, 0])
    await resume('bot-1')
  })

  test('is in the inventory, in the list for scanners and in the audit log without an instance', async () => {
    const id = await plant('/srv/listed/passwords.kdbx')
    interface Listed {
      id: string
      details?: { instanceId: string | null }
    }
    const list = async (query: string) =>
      (await service.call<{ honeypots: Listed[] }>('GET', `/api/honeypots?include=details${query}`)).body.honeypots
    expect((await list('')).find((one) => one.id === id)?.details).toMatchObject({ instanceId: null, state: 'issued' })
    // Who removes the decoys of an agent must not remove those of all.
    expect((await list('&instance_id=bot-1')).map((one) => one.id)).not.toContain(id)
    const { body } = await service.call<{ paths: object[] }>('GET', '/api/honeypots/allow-list')
    expect(body.paths).toContainEqual({ id, instanceId: null, path: '/srv/listed/passwords.kdbx' })
    const { body: audit } = await service.call<{ entries: { action: string; target: string; after: object }[] }>(
      'GET',
      `/api/audit?target=${id}`,
    )
    expect(audit.entries).toMatchObject([{ action: 'honeypot.create', after: { instance_id: null } }])
    expect(JSON.stringify(audit)).not.toContain('"*"')
  })

  test('a decoy key needs an instance, and no id can name all', async () => {
    const create = (body: object) => service.call('POST', '/api/honeypots', { body })
    const key = await create({ type: 'api_key', keyType: 'aws' })
    expect([key.status, key.body]).toEqual([400, { error: 'instanceId is required for type api_key.' }])
    expect((await create({ instanceId: '*', type: 'file_path', path: '/srv/x' })).status).toBe(400)
  })
})
