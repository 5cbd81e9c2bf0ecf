import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, expect, test } from 'vitest'
import { query, sharedSettings, startProcesses, useServers } from '../cluster.ts'
import { allEvents, anEvent, unique } from '../fleet.ts'
import { newApiKey, type Service, startService, startToExit, until } from '../service.ts'
import type { Created } from '../shapes.ts'

const servers = useServers()

async function expectRefusedStart(env: Record<string, string>, sentence: RegExp, exitCode = 1): Promise<void> {
  const { code, output } = await startToExit(env)
  expect(code, output).toBe(exitCode)
  expect(output).toMatch(sentence)
  expect(output, 'a sentence for the operator, not a stack').not.toMatch(/^\s+at .+:\d+:\d+/m)
  for (const secret of [env.DATABASE_URL, env.BACKPLANE_URL, env.WARDLINE_SECRET, env.WARDLINE_API_KEY]) {
    if (secret !== undefined) expect(output).not.toContain(secret)
  }
  expect(output).not.toContain(new URL(servers.postgres.url).password)
}

/** Starts what several tests look at when the first of them asks for it. */
function sharedStart<Started extends { services: Service[] }>(start: () => Promise<Started>): () => Promise<Started> {
  let started: Promise<Started> | undefined
  afterAll(async () => {
    const all = await started?.catch(() => undefined)
    await Promise.all(all?.services.map((service) => service.stop()) ?? [])
  })
  return () => {
    started ??= start()
    return started
  }
}

/** Four processes that started together on an empty database, without a key. */
const fourTogether = sharedStart(async () => {
  const { WARDLINE_API_KEY: _, ...env } = await sharedSettings(servers)
  const started = await Promise.all(Array.from({ length: 4 }, () => startService({ withoutKey: true, env })))
  const files = started.map(({ dataDir }) => join(dataDir, 'admin-key')).filter((file) => existsSync(file))
  return { url: env.DATABASE_URL, services: started, files }
})

// Each additional admin key would be one more credential to leak, and it would be unclear which of the four to use.
test('processes that start together without a key create one admin key between them', async () => {
  const { url, services, files } = await fourTogether()
  expect(files).toHaveLength(1)
  const key = readFileSync(files[0]!, 'utf8').trim()
  for (const service of services) {
    // A process that started before the key was created learns of it like of any other key.
    const answer = await until(
      'the key opens every process',
      () => service.call<{ keys: unknown[] }>('GET', '/api/keys', { key }),
      ({ status }) => status === 200,
    )
    expect(answer.body.keys).toHaveLength(1)
  }
  expect(await query(url, `select action from audit_log`)).toEqual([{ action: 'key.create' }])
})

test('four processes that start together on an empty database all come up, on one schema', async () => {
  const { url, services, files } = await fourTogether()
  const versions = await query<{ version: number }>(url, 'select version from schema_version order by version')
  expect(versions.map(({ version }) => version)).toEqual(versions.map((_, index) => index + 1))
  const [counts] = await query(
    url,
    `select (select count(*) from counters) as counters,
    (select count(*) from audit_head) as heads, (select count(*) from facts where name <> 'event_index') as facts,
    (select count(*) from pg_inherits where inhparent = 'events'::regclass) as partitions`,
  )
  // The index is checked, and the fact written, some time after the start. Partitions for yesterday, today and the next seven days, and the default one.
  expect(counts).toEqual({ counters: '7', heads: '1', facts: '2', partitions: '10' })
  const key = readFileSync(files[0]!, 'utf8').trim()
  await Promise.all(
    services.flatMap((service) =>
      Array.from({ length: 10 }, async () => {
        // A server on a busy machine may be too slow for a first connection; the idempotency key stores the event once.
        const headers = { 'idempotency-key': unique('first') }
        const body = anEvent()
        const post = () => service.call('POST', '/api/events', { key, body, headers })
        await until('an event', post, ({ status }) => status === 201)
      }),
    ),
  )
  const last = services[3]!
  const rows = await allEvents({ ...last, call: (method, path) => last.call(method, path, { key }) })
  expect(rows.map(({ seq }) => seq)).toEqual(Array.from({ length: 40 }, (_, index) => 40 - index))
})

/** A process that started without its backplane. */
const alone = sharedStart(async () => {
  const own = await sharedSettings(servers)
  return { own, services: await startProcesses({ ...own, BACKPLANE_URL: 'redis://127.0.0.1:1' }, 1) }
})

test('a process starts without its backplane, and says so', async () => {
  const { services } = await alone()
  const answer = await services[0]!.call('GET', '/readyz')
  expect(answer.status).toBe(200)
  expect(answer.body).toMatchObject({ ok: true, database: 'ok', backplane: 'unavailable' })
})

// With another secret no decoy would match, and agents would reject every kill.
test('a process with another master secret refuses to start', async () => {
  const { own } = await alone()
  await expectRefusedStart(
    { ...own, WARDLINE_SECRET: newApiKey() },
    /The master secret does not belong to this database: set WARDLINE_SECRET/,
    // A supervisor must not restart it: see docs/guide/terminal.md.
    78,
  )
})

// An older version would write rows that the newer one cannot read, unnoticed for weeks.
test('a process refuses a database whose schema is newer than it knows', async () => {
  const { own } = await alone()
  await query(
    own.DATABASE_URL,
    `insert into schema_version (version, name, applied_at) values (999, 'from the future', 0)
     on conflict do nothing`,
  )
  await expectRefusedStart(
    own,
    /The database has schema 999, this version supports up to \d+: install a newer version\./,
  )
})

test('a process refuses to start without its database and names what is wrong', async () => {
  const settings = await sharedSettings(servers)
  const url = new URL(settings.DATABASE_URL)
  url.port = '1'
  await expectRefusedStart({ ...settings, DATABASE_URL: url.href }, /The database cannot be used: /)
  const wrong = new URL(settings.DATABASE_URL)
  wrong.password = 'not-the-password'
  await expectRefusedStart({ ...settings, DATABASE_URL: wrong.href }, /The database cannot be used: .*password/)
})

test('SIGTERM of one of two processes under load loses nothing that was acknowledged', async () => {
  const services = await startProcesses(await sharedSettings(servers), 2)
  const [leaving, staying] = services as [Service, Service]
  const acknowledged = new Map<string, string>()
  let hasLeft = false
  let stopped = false

  async function write(): Promise<void> {
    while (!stopped) {
      const description = unique('deploy')
      const headers = { 'idempotency-key': description }
      const post = (service: Service) =>
        service.call<Created>('POST', '/api/events', { body: anEvent({ description }), headers }).catch(() => undefined)
      // A load balancer retries requests that the stopping process did not answer.
      let answer = hasLeft ? undefined : await post(leaving)
      while (answer?.status !== 201) {
        answer = await post(staying)
        if (answer?.status !== 201) await pause(20)
      }
      acknowledged.set(description, answer.body.id)
    }
  }
  const writing = Promise.all(Array.from({ length: 32 }, write))
  await until(
    'events under way',
    () => acknowledged.size,
    (size) => size > 200,
  )
  const exit = await leaving.terminate()
  hasLeft = true
  expect(exit).toEqual({ code: 0, signal: null })
  const later = acknowledged.size + 100
  await until(
    'events at the process that stays',
    () => acknowledged.size,
    (size) => size > later,
  )
  stopped = true
  await writing
  const stored = (await allEvents(staying)).map(({ description, id }) => [description, id] as const)
  expect(new Map(stored)).toEqual(acknowledged)
  expect(stored).toHaveLength(acknowledged.size)
  await staying.stop()
})
