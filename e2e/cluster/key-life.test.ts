import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { effort } from '../../test-servers/effort.ts'
import { query, sharedSettings, useServers } from '../cluster.ts'
import { allEvents, createKey, createKeyDecoy, newInstance, unique } from '../fleet.ts'
import { isExternal, patienceMs, type Service, startService, until } from '../service.ts'
import type { CreatedKey, Decoy } from '../shapes.ts'

const clients = 100

/** Forms in which a secret could have been stored or logged. */
function traces(secret: string): string[] {
  const bytes = Buffer.from(secret)
  return [secret, bytes.toString('hex'), bytes.toString('base64').slice(0, -4), encodeURIComponent(secret)]
}

const found = (secrets: string[], place: string): string[] =>
  secrets.flatMap(traces).filter((trace) => place.includes(trace))

/** Returns the secret of a key without its id, which is public. */
const secretOf = (key: string): string => key.split('_')[3]!

describe.skipIf(isExternal)('keys in use', () => {
  let service: Service
  beforeAll(async () => {
    service = await startService({ env: { WARDLINE_LOG_LEVEL: 'debug' } })
  })
  afterAll(() => service?.stop())

  test(`are rotated under ${clients} clients without one refusal, and end after the overlap`, {
    timeout: 600_000,
  }, async () => {
    const id = await newInstance(service, 'rotated')
    const { body: first } = await service.call<CreatedKey>('POST', '/api/keys', {
      body: { scope: 'agent', name: unique('key'), instances: [id] },
    })
    const newest = { ...first }
    const secrets = [secretOf(first.key)]
    let isOver = false
    const statuses: Record<number, number> = {}
    const work = Promise.all(
      Array.from({ length: clients }, async (_, client) => {
        // Each client adopts the new key at a different time, like processes that read a file periodically.
        for (let turn = client, { key } = newest; !isOver; turn += 1) {
          if (turn % 7 === 0) key = newest.key
          const { status } = await service.call('GET', `/api/instances/${id}/status`, { key })
          statuses[status] = (statuses[status] ?? 0) + 1
        }
      }),
    )
    const answered = () => statuses[200] ?? 0
    const rotations = effort(5, 100)
    for (let round = 0; round < rotations; round++) {
      const before = answered()
      await until('requests of all clients', answered, (count) => count > before + 3 * clients)
      const { body } = await service.call<CreatedKey>('POST', `/api/keys/${newest.id}/rotate`, {
        body: { overlap_seconds: 3_600 },
      })
      Object.assign(newest, body)
      secrets.push(secretOf(body.key))
    }
    const before = answered()
    await until('requests with the last key', answered, (count) => count > before + 10 * clients)
    isOver = true
    await work
    expect(Object.keys(statuses)).toEqual(['200'])

    const { body: last } = await service.call<CreatedKey>('POST', `/api/keys/${newest.id}/rotate`, {
      body: { overlap_seconds: 0 },
    })
    const use = async (key: string) => (await service.call('GET', `/api/instances/${id}/status`, { key })).status
    expect([await use(newest.key), await use(last.key)]).toEqual([401, 200])
    expect(found([...secrets, secretOf(last.key)], service.storedBytes().toString('latin1'))).toEqual([])
    expect(found(secrets, service.logs())).toEqual([])
  })

  test('and decoys stand nowhere in clear: not in the database, its log, the events or the log', async () => {
    const id = await newInstance(service, 'dumped')
    const secrets: string[] = []
    for (const scope of ['agent', 'viewer', 'operator', 'admin'] as const) {
      const key = await createKey(service, { scope, ...(scope === 'agent' ? { instances: [id] } : {}) })
      secrets.push(secretOf(key))
      await service.call('GET', '/api/status', { key })
      // An invalid key is secret too: it may be a valid one with a typo.
      const wrong = `${key.slice(0, -1)}${key.endsWith('x') ? 'y' : 'x'}`
      await service.call('GET', '/api/status', { key: wrong })
    }
    for (const keyType of ['openai', 'aws', 'github']) {
      const { key } = await createKeyDecoy(service, id, keyType)
      secrets.push(key)
      const hit = { key: `export TOKEN=${key}`, meta: { tool: 'shell-exec', instance_id: id } }
      const { body } = await service.call<Decoy & { matched: boolean }>('POST', '/api/honeypots/check/key', {
        body: hit,
      })
      expect(body.matched).toBe(true)
    }
    await service.terminate()
    await service.start()
    const stored = service.storedBytes().toString('latin1')
    expect(stored).toContain(id)
    expect(found(secrets, stored)).toEqual([])
    expect(found(secrets, service.logs())).toEqual([])
    expect(found(secrets, JSON.stringify(await allEvents(service)))).toEqual([])
  })
})

describe('two processes without a backplane', () => {
  const servers = useServers()

  /** The requirement is 5 seconds; processes read the keys twice a second. A busy machine takes longer. */
  const refusedWithinMs = effort(patienceMs, 5_000)

  test('both accept a new key at once, refuse a revoked one within seconds, and hold no key in clear', async () => {
    const { BACKPLANE_URL: _backplane, ...env } = await sharedSettings(servers)
    const [first, second] = await Promise.all([startService({ env }), startService({ env })])
    try {
      const secrets: string[] = []
      for (let round = 0; round < effort(3, 20); round++) {
        const { body } = await first.call<CreatedKey>('POST', '/api/keys', {
          body: { scope: 'viewer', name: 'leaked' },
        })
        secrets.push(secretOf(body.key))
        const use = async () => (await second.call('GET', '/api/status', { key: body.key })).status
        expect(await use(), 'a new key works at once').toBe(200)
        await first.call('DELETE', `/api/keys/${body.id}`)
        expect((await first.call('GET', '/api/status', { key: body.key })).status).toBe(401)
        await until('the refusal', use, (status) => status === 401, refusedWithinMs)
      }
      const tables = await query<{ name: string }>(
        env.DATABASE_URL,
        `select relname as name from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace`,
      )
      expect(tables.map(({ name }) => name)).toContain('api_keys')
      for (const { name } of tables) {
        const rows = JSON.stringify(await query(env.DATABASE_URL, `select * from ${name}`))
        expect(found(secrets, rows), name).toEqual([])
      }
      expect(found(secrets, first.logs() + second.logs())).toEqual([])
    } finally {
      await Promise.all([first.stop(), second.stop()])
    }
  })
})
