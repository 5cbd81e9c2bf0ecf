import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { openTestService, type TestService } from '../../testing/service.ts'

let service: TestService
let bound: string
let shared: string
beforeAll(async () => {
  service = await openTestService({
    env: {
      WARDLINE_AUTO_SUSPEND: 'decoy',
      WARDLINE_AUTO_SUSPEND_PER_MINUTE: '100',
      WARDLINE_AUTO_SUSPEND_FLEET_MIN: '100',
    },
  })
  for (const id of ['bot-1', 'bot-2']) {
    expect((await service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id } })).status).toBe(200)
  }
  bound = (await service.createKey('agent', ['bot-1'])).key
  shared = (await service.createKey('agent', ['bot-*'])).key
})
afterAll(() => service[Symbol.asyncDispose]())
afterEach(async () => {
  for (const id of ['bot-1', 'bot-2']) await service.call('POST', `/api/resume/${id}`, { body: {} })
  // Beyond the time within which a check counts for a report.
  service.clock.advance(120_000)
})

async function plant(path: string, instanceId: string | undefined = 'bot-1'): Promise<string> {
  const scope = instanceId === '*' ? {} : { instanceId }
  const body = { ...scope, type: 'file_path', path }
  const { status, text, body: created } = await service.call<{ id: string }>('POST', '/api/honeypots', { body })
  expect(status, text).toBe(201)
  return created.id
}

interface Detail {
  state: string
  hits: { reporter: string | null; form: string; tool: string | null; event_id: string; ignored: boolean }[]
}
/** Oldest first. */
const hitsOf = async (id: string) => (await service.call<Detail>('GET', `/api/honeypots/${id}`)).body.hits.toReversed()
const statusOf = async (id: string) =>
  (await service.call<{ status: string }>('GET', `/api/instances/${id}`)).body.status

const callOf = (paths: unknown, { id = 'bot-1', type = 'tool_call', ...metadata }: Record<string, unknown> = {}) => ({
  severity: 'info',
  source: 'bot',
  event_type: type,
  description: 'file-read',
  ...(id === null ? {} : { instance_id: id }),
  metadata: { toolName: 'file-read', action: 'read', paths, ...metadata },
})
async function report(event: object, options: { key?: string; once?: string } = {}): Promise<string> {
  const { status, text, body } = await service.call<{ id: string }>('POST', '/api/events', {
    key: options.key ?? shared,
    body: event,
    ...(options.once === undefined ? {} : { headers: { 'idempotency-key': options.once } }),
  })
  expect(status, text).toBe(201)
  return body.id
}
async function reportAll(events: object[], options: { once?: string } = {}): Promise<void> {
  const { status, text } = await service.call('POST', '/api/events/batch', {
    key: shared,
    body: events,
    ...(options.once === undefined ? {} : { headers: { 'idempotency-key': options.once } }),
  })
  expect(status, text).toBeLessThan(300)
}
async function check(path: string, meta: object = {}): Promise<boolean> {
  const body = { path, meta: { tool: 'file-read', instance_id: 'bot-1', ...meta } }
  return (await service.call<{ matched: boolean }>('POST', '/api/honeypots/check/path', { key: shared, body })).body
    .matched
}

let count = 0
const newPath = () => `/srv/app-${++count}/.env`

describe('a reported call whose paths contain a decoy', () => {
  test('is a hit, a breach and a suspension before the answer, as a check would be', async () => {
    const path = newPath()
    const id = await plant(path)
    await report(callOf(['/srv/notes.txt', path]), { key: bound })
    const [hit] = await hitsOf(id)
    expect(hit).toMatchObject({ reporter: 'bot-1', tool: 'file-read', form: 'reported', ignored: false })
    const [event] = await service.rows<{ metadata: string }>(`select * from events where id = '${hit!.event_id}'`)
    expect(event).toMatchObject({ severity: 'breach', event_type: 'honeypot_triggered', instance_id: 'bot-1' })
    expect(JSON.parse(event!.metadata)).toMatchObject({ honeypot_id: id, type: 'file_path', tool: 'file-read' })
    expect(JSON.stringify(event)).not.toContain(path)
    expect(await statusOf('bot-1')).toBe('suspended')
  })

  test.each<[string, (path: string) => object[], decoyOf: string | undefined, isHit: boolean]>([
    ['another spelling', (path) => [callOf([path.replace('/srv/', '/srv/x/..//')])], 'bot-1', true],
    ['for every agent', (path) => [callOf([path], { id: 'bot-2' })], '*', true],
    // After a decoy that reaches bot-2, or its calls would not be looked at.
    ['of another agent', (path) => [callOf([path], { id: 'bot-2' })], 'bot-1', false],
    ['in a batch', (path) => [callOf(['/a']), callOf(['/b']), callOf([path])], 'bot-1', true],
    [
      'relative to the folder of the call',
      (path) => [callOf(['./.env'], { cwd: path.replace('/.env', '') })],
      'bot-1',
      true,
    ],
    ['relative to an unknown folder', (path) => [callOf([path.replace('/srv/', '')])], 'bot-1', false],
    [
      'relative to a folder that is relative',
      (path) => [callOf([path.replace('/srv/', '')], { cwd: 'x' })],
      'bot-1',
      false,
    ],
    ['climbing from an unknown folder', (path) => [callOf([`../../..${path}`])], 'bot-1', false],
    ['a glob', (path) => [callOf([path.replace('.env', '.e*')])], 'bot-1', true],
    ['another type of event', (path) => [callOf([path], { type: 'file_opened' })], 'bot-1', false],
    ['paths that are no list', (path) => [callOf(path)], 'bot-1', false],
    ['elements that are no texts', (path) => [callOf([7, null, { path }, [path]])], 'bot-1', false],
    ['too long a path', (path) => [callOf([`${path}${'/.'.repeat(2_100)}`])], 'bot-1', false],
  ])('is found: %s', async (_, events, decoyOf, isHit) => {
    const path = newPath()
    const id = await plant(path, decoyOf)
    await reportAll(events(path))
    expect(await hitsOf(id)).toHaveLength(isHit ? 1 : 0)
  })

  test('matches decoys without a root in any folder, and patterns', async () => {
    const relative = await plant('vault-of-ann.kdbx')
    const pattern = await plant('/srv/ledger/**/*.pem')
    await report(callOf(['docs/vault-of-ann.kdbx']))
    await report(callOf(['/srv/ledger/a/b/tls.pem']))
    await report(callOf(['ledger/a/b/tls.pem']))
    expect([await hitsOf(relative), await hitsOf(pattern)].map(({ length }) => length)).toEqual([1, 1])
  })

  test('of nobody is a hit of nobody', async () => {
    const path = newPath()
    const id = await plant(path, '*')
    const { status } = await service.call('POST', '/api/events', { body: callOf([path], { id: null }) })
    expect(status).toBe(201)
    expect(await hitsOf(id)).toMatchObject([{ reporter: null }])
    expect(await statusOf('bot-1')).not.toBe('suspended')
  })

  test('of a tool that is ignored is no breach', async () => {
    const path = newPath()
    const id = await plant(path)
    const until = new Date(service.clock.now() + 3_600_000).toISOString()
    await service.call('POST', '/api/honeypots/ignores', { body: { tool: 'indexer', reason: 'reads all', until } })
    await report(callOf([path], { toolName: 'indexer' }))
    expect(await hitsOf(id)).toMatchObject([{ tool: 'indexer', ignored: true }])
    expect(await statusOf('bot-1')).not.toBe('suspended')
  })

  test('is found among a thousand calls, and every agent of them once', async () => {
    const path = newPath()
    const id = await plant(path, '*')
    const harmless = Array.from({ length: 996 }, (_, at) => callOf([`/srv/data/${at}.txt`, `src/${at}.ts`]))
    const touching = ['bot-1', 'bot-2', 'bot-1', 'bot-2'].map((agent) => callOf([path], { id: agent }))
    await reportAll(harmless.flatMap((event, at) => (at % 249 === 0 ? [touching[at / 249]!, event] : [event])))
    expect((await hitsOf(id)).map(({ reporter }) => reporter).sort()).toEqual(['bot-1', 'bot-2'])
    expect(await statusOf('bot-2')).toBe('suspended')
  })
})

describe('a call that a check has recorded', () => {
  type Step = (path: string) => Promise<unknown>
  const checked: Step = (path) => check(path)
  const called: Step = (path) => report(callOf([path]))
  const once: Step = (path) => report(callOf([path]), { once: path })
  const later: Step = async () => service.clock.advance(61_000)
  const resumed: Step = () => service.call('POST', '/api/resume/bot-1', { body: {} })
  test.each<[string, Step[], hits: string[]]>([
    ['and then reported as a call', [checked, called], ['path']],
    ['and then reported as blocked', [checked, (path) => report(callOf([path], { type: 'tool_blocked' }))], ['path']],
    [
      'and then reported as a call that was blocked',
      [checked, (path) => report(callOf([path], { blocked: true }))],
      ['path'],
    ],
    ['and then reported in a batch', [checked, (path) => reportAll([callOf(['/a']), callOf([path])])], ['path']],
    ['by a command', [(path) => check(`cat ${path}`), called], ['path']],
    ['by a glob', [(path) => check(path.replace('.env', '.e*')), called], ['glob']],
    ['under the name of another tool', [(path) => check(path, { tool: 'shell' }), called], ['path']],
    ['long before', [checked, later, called], ['path', 'reported']],
    ['of another agent', [(path) => check(path, { instance_id: 'bot-2' }), called], ['path', 'reported']],
    ['twice', [checked, checked, called], ['path', 'path']],
    ['not at all', [called], ['reported']],
    ['not at all, twice', [called, called], ['reported', 'reported']],
    ['not at all, and sent again', [once, once], ['reported']],
    ['not at all, and sent again after a resume', [once, resumed, later, once], ['reported']],
    ['and sent again', [checked, once, once], ['path']],
    ['only after it was reported', [called, checked], ['reported', 'path']],
  ])('%s', async (_, steps, forms) => {
    const path = newPath()
    const id = await plant(path, '*')
    for (const step of steps) await step(path)
    // Hits of the same millisecond are in no order.
    expect((await hitsOf(id)).map(({ form }) => form).toSorted()).toEqual(forms.toSorted())
  })

  test('is compared again when its hit could not be stored', async () => {
    const path = newPath()
    const id = await plant(path)
    await service.rows(`alter table honeypot_hits rename to lost`)
    const options = { key: shared, body: callOf([path]), headers: { 'idempotency-key': 'lost' } }
    expect((await service.call('POST', '/api/events', options)).status).toBeGreaterThanOrEqual(500)
    await service.rows(`alter table lost rename to honeypot_hits`)
    service.clock.advance(120_000)
    expect((await service.call('POST', '/api/events', options)).status).toBe(201)
    expect(await hitsOf(id)).toHaveLength(1)
    const stored = await service.rows<{ count: number }>(
      `select count(*) as count from events where metadata like '%${path}%'`,
    )
    expect(Number(stored[0]!.count)).toBe(1)
    expect(await statusOf('bot-1')).toBe('suspended')
  })
})

test('calls that cost more than a request may are reported as not compared', async () => {
  await plant('/srv/costly/*/?*?.pem', '*')
  const words = Array.from({ length: 500 }, (_, at) => `{a,b,c,d}{e,f,g}${at}%2e%2e/..`).join(' ')
  const costly = callOf([words.slice(0, 4_000), words.slice(-4_000), words.slice(2_000, 6_000)])
  await reportAll(Array.from({ length: 60 }, () => costly))
  await service.services.countedReports.flush()
  const events = await service.rows<{ event_type: string }>(
    `select * from events where event_type = 'decoy_check_exhausted'`,
  )
  expect(events.length).toBeGreaterThan(0)
})
