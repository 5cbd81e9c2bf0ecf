import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { effort } from '../../test-servers/effort.ts'
import { query, useServers } from '../cluster.ts'
import { type Command, runCommand, startCommand } from '../command.ts'
import { allEvents, anEvent, createKey, createKeyDecoy, createPathDecoy, newInstance, postEvent } from '../fleet.ts'
import { databaseTooSlow, newApiKey, newDataDir, type Service, startService, startToExit, until } from '../service.ts'
import type { BatchAnswer, EventRow, Severity, StatusView } from '../shapes.ts'
import { startTcpProxy, type TcpProxy } from '../tcp-proxy.ts'

/** Data of a fleet, and what clients read before the migration. */
interface Source {
  settings: Record<'WARDLINE_SECRET' | 'WARDLINE_API_KEY' | 'WARDLINE_SUSPENSION_ACK_SECONDS', string>
  url: string
  instanceId: string
  agentKey: string
  decoyKey: string
  seen: Seen
}

interface Seen {
  status: Pick<StatusView, 'stats' | 'toolCalls'>
  suspended: unknown
  events: EventRow[]
  ofInstance: string
  decoys: unknown
  keys: unknown
  audit: unknown
}

let proxy: TcpProxy
let source: Source
const servers = useServers({
  async open() {
    proxy = await startTcpProxy(servers.postgres.url)
    source = await makeSource()
  },
  close: async () => proxy?.close(),
})

const severities: Severity[] = ['info', 'warning', 'critical', 'breach']
/** Texts that an engine could reject or change. */
const awkward = [
  `it's "quoted" \\ {and} [braced], $1 ? %`,
  'zeilen\numbruch\ttab',
  '🦊 ﷽ ñ \u2028',
  'NULL',
  '{}',
  'null',
]

async function makeSource(): Promise<Source> {
  const settings = {
    WARDLINE_SECRET: newApiKey(),
    WARDLINE_API_KEY: newApiKey(),
    // No agent confirms the kill, because its event would appear at an arbitrary time.
    WARDLINE_SUSPENSION_ACK_SECONDS: '3600',
  }
  const url = `sqlite:${join(newDataDir(), 'fleet.db')}`
  const service = await startService({ env: { ...settings, DATABASE_URL: url } })
  const instanceId = await newInstance(service)
  for (let batch = 0; batch < effort(2, 4); batch++) {
    const events = Array.from({ length: 1_000 }, (_, index) => ({
      ...anEvent({ description: awkward[index % awkward.length]!, severity: severities[index % 4]! }),
      ...(index % 3 === 0 ? { instance_id: instanceId, session_id: `session-${index % 7}` } : {}),
      ...(index % 5 === 0 ? { event_type: 'tool_call', metadata: { toolName: 'file-read', text: awkward } } : {}),
    }))
    const answer = await service.call<BatchAnswer>('POST', '/api/events/batch', { body: events })
    expect(answer.body.errors).toEqual([])
  }
  // The largest events: a page of them must not exceed the statement timeout.
  const metadata = { filler: 'é"\\'.repeat(2_500) }
  for (let batch = 0; batch < 6; batch++) {
    const body = Array.from({ length: 40 }, () => anEvent({ description: '\\"'.repeat(500), metadata }))
    const answer = await service.call<BatchAnswer>('POST', '/api/events/batch', { body })
    expect(answer.body.errors).toEqual([])
  }
  for (let minute = 0; minute < 12; minute++) {
    const description = JSON.stringify({ shell_exec_count: 3 + (minute % 3) / 7 })
    await postEvent(service, { event_type: 'session_metrics', description, instance_id: instanceId })
  }
  const agentKey = await createKey(service, { scope: 'agent', instances: [instanceId] })
  const { key: decoyKey } = await createKeyDecoy(service, instanceId)
  await createPathDecoy(service, instanceId, '/srv/**/credentials*')
  for (let count = 0; count < 5; count++) {
    await service.call('POST', `/api/kill/${instanceId}`, { body: { reason: awkward[count] } })
    if (count < 4) await service.call('POST', `/api/resume/${instanceId}`)
  }
  const seen = await look(service, instanceId)
  await service.stop()
  return { settings, url, instanceId, agentKey, decoyKey, seen }
}

async function look(service: Service, instanceId: string): Promise<Seen> {
  const read = async <Body>(path: string) => {
    const answer = await service.call<Body>('GET', path)
    expect(answer.status, answer.text).toBe(200)
    return answer.body
  }
  const { stats, toolCalls } = await read<StatusView>('/api/status')
  return {
    status: { stats, toolCalls },
    suspended: await read(`/api/instances/${instanceId}/status`),
    // In small pages, because on a busy machine a thousand of the largest events exceed the read timeout.
    events: await allEvents(service, 100),
    ofInstance: JSON.stringify(await read(`/api/events?instance_id=${instanceId}&session_id=session-3&limit=1000`)),
    decoys: await read(`/api/honeypots?instance_id=${instanceId}`),
    keys: (await read<{ keys: Record<string, unknown>[] }>('/api/keys')).keys,
    audit: await read('/api/audit?limit=1000'),
  }
}

const migration = (from: string, to: string) => ['migrate', '--from', from, '--to', to]

/** Starts a migration that is killed. */
const migrate = (from: string, to: string) => startCommand(migration(from, to), {})

/** Migrates the source; resolves with the result. Repeats if a server on a busy machine responds too late. */
async function finish(from: string, to: string) {
  for (let retries = 5; ; retries--) {
    const run = await runCommand(migration(from, to), {})
    if (retries === 0 || !databaseTooSlow.test(run.output)) return run
  }
}

/** Bytes of an uninterrupted copy, in both directions. */
let copiedBytes: number | undefined

async function copyWhole(target: string) {
  const before = proxy.bytes()
  const run = await finish(source.url, proxy.through(target))
  copiedBytes = proxy.bytes() - before
  return run
}

/** Asserts that clients see the same fleet on the new database, and that it continues from there. */
async function expectSameFleet(databaseUrl: string): Promise<void> {
  const { settings, instanceId, agentKey, decoyKey, seen } = source
  const service = await startService({ env: { ...settings, DATABASE_URL: databaseUrl } })
  expect(await look(service, instanceId)).toEqual(seen)

  const poll = await service.call('GET', `/api/instances/${instanceId}/status`, { key: agentKey })
  expect(poll.body).toEqual({ suspended: true, reason: awkward[4] })
  const check = (body: unknown, of: 'key' | 'path') =>
    service.call(`POST`, `/api/honeypots/check/${of}`, { key: agentKey, body })
  expect((await check({ key: `Bearer ${decoyKey}` }, 'key')).body).toEqual({ matched: true })
  expect((await check({ path: '/srv/app/credentials.json' }, 'path')).body).toEqual({ matched: true })
  expect((await service.call('POST', `/api/resume/${instanceId}`)).status).toBe(200)
  const head = seen.events[0]!.seq
  await postEvent(service, { event_type: 'first_after_the_move' })
  const events = await allEvents(service)
  const later = events.slice(0, events.length - seen.events.length).reverse()
  expect(later.map(({ seq }) => seq)).toEqual(later.map((_, index) => head + 1 + index))
  // The watch of suspensions may see the checks before the resume.
  const types = later.map(({ event_type }) => event_type).filter((type) => type !== 'activity_while_suspended')
  expect(types).toEqual(['honeypot_triggered', 'honeypot_triggered', 'first_after_the_move'])
  await service.stop()
  const env = { ...settings, DATABASE_URL: databaseUrl, WARDLINE_DATA_DIR: newDataDir() }
  const verified = await runCommand(['audit', 'verify'], env)
  expect(verified.output).toMatch(/^The audit log is intact: \d+ entries/)
}

const rowsOf = (output: string, table: string) => Number(new RegExp(`^${table} +(\\d+)$`, 'm').exec(output)?.[1])

describe('wardline migrate', () => {
  test('copies everything from SQLite to PostgreSQL and back, and says how much', async () => {
    const target = await servers.postgres.createDatabase()
    const moved = await copyWhole(target)
    expect(moved, moved.output).toMatchObject({ code: 0 })
    expect(rowsOf(moved.output, 'events')).toBe(source.seen.events.length)
    expect(rowsOf(moved.output, 'audit_log')).toBe((source.seen.audit as { entries: unknown[] }).entries.length)
    expect(moved.output).toContain('Every row was compared, and the audit log is intact.')
    expect(moved.output).not.toContain(new URL(target).password)

    const back = `sqlite:${join(newDataDir(), 'back.db')}`
    const returned = await finish(target, back)
    expect(returned, returned.output).toMatchObject({ code: 0 })
    await expectSameFleet(target)
    await expectSameFleet(back)
  })

  // A migration that fails must not leave a partial copy that looks complete.
  test('is resumed after a SIGKILL at any point, and no service starts on an unfinished copy', async () => {
    if (copiedBytes === undefined) await copyWhole(await servers.postgres.createDatabase())
    const bytes = copiedBytes!
    const target = await servers.postgres.createDatabase()
    async function expectUnfinished(): Promise<void> {
      const refused = await startToExit({ ...source.settings, DATABASE_URL: target })
      expect(refused.code, refused.output).toBe(1)
      expect(refused.output).toContain('The copy into this database was interrupted: run the same "wardline migrate"')
    }
    async function killNow(run: Command): Promise<void> {
      run.kill('SIGKILL')
      const { signal, output } = await run.ended
      expect(signal, output).toBe('SIGKILL')
      proxy.heal()
      const marks = await query(target, `select 1 from facts where name = 'copying_from'`)
      expect(marks, 'marked as unfinished').toHaveLength(1)
    }
    // About one half of the bytes is copied, the other half is read back.
    for (const share of [0.02, 0.3, 0.4]) {
      const run = migrate(source.url, proxy.through(target))
      await Promise.race([proxy.swallowAfter(share * bytes), run.ended])
      await killNow(run)
    }
    const run = migrate(source.url, target)
    await until('the small tables', run.output, (output) => output.includes('Copying instances'))
    await killNow(run)
    await expectUnfinished()
    const finished = await finish(source.url, target)
    expect(finished, finished.output).toMatchObject({ code: 0 })

    // As if it was killed just before its last statement.
    await query(target, `insert into facts select 'copying_from', value from facts where name = 'secret_check'`)
    await expectUnfinished()
    expect((await finish(source.url, target)).code).toBe(0)
    await expectSameFleet(target)
  })

  test('refuses a target that is in use', async () => {
    const target = await servers.postgres.createDatabase()
    const service = await startService({ env: { DATABASE_URL: target } })
    const id = await postEvent(service)
    const refused = await finish(source.url, target)
    expect(refused.code).toBe(1)
    expect(refused.output).toContain('The target is not empty: give an empty database.')
    expect((await allEvents(service)).map((row) => row.id)).toEqual([id])
    await service.stop()
  })

  test('refuses the unfinished copy of another database', async () => {
    const other = `sqlite:${join(newDataDir(), 'other.db')}`
    await (await startService({ env: { DATABASE_URL: other } })).stop()
    const target = await servers.postgres.createDatabase()
    const run = migrate(source.url, proxy.through(target))
    await Promise.race([proxy.swallowAfter(400_000), run.ended])
    run.kill('SIGKILL')
    await run.ended
    proxy.heal()
    const refused = await finish(other, target)
    expect(refused.code).toBe(1)
    expect(refused.output).toContain('The target holds an unfinished copy of another database')
  })

  test('refuses a source that is not there, and makes no file in its place', async () => {
    const target = await servers.postgres.createDatabase()
    const refused = await finish('sqlite:/nonexistent/fleet.db', target)
    expect(refused.code).toBe(1)
    expect(refused.output).toContain('There is no database file /nonexistent/fleet.db.')
  })

  // Rows written during the copy would be lost with the old database.
  test('finds out that the source is still written, and completes once it is left alone', async () => {
    const settings = { WARDLINE_SECRET: newApiKey(), WARDLINE_API_KEY: newApiKey() }
    const url = `sqlite:${join(newDataDir(), 'busy.db')}`
    const service = await startService({ env: { ...settings, DATABASE_URL: url } })
    const target = await servers.postgres.createDatabase()
    let moving = true
    const acknowledged: string[] = []
    const writing = (async () => {
      while (moving) {
        acknowledged.push(await postEvent(service))
        // Leaves the CPU to the migration.
        await pause(5)
      }
    })()
    await until(
      'some events',
      () => acknowledged.length,
      (count) => count > 50,
    )
    const refused = await finish(url, target)
    moving = false
    await writing
    await service.stop()
    expect(refused.code, refused.output).toBe(1)
    expect(refused.output).toContain('stop every service that uses it')

    const moved = await finish(url, target)
    expect(moved, moved.output).toMatchObject({ code: 0 })
    const after = await startService({ env: { ...settings, DATABASE_URL: target } })
    expect((await allEvents(after)).map(({ id }) => id).toReversed()).toEqual(acknowledged)
    await after.stop()
  })
})
