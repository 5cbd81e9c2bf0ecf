import { expect, test } from 'vitest'
import { effort } from '../../test-servers/effort.ts'
import { seededDraws } from '../../test-servers/seeded-draws.ts'
import { type SharedSettings, sharedSettings, startProcesses, useServers } from '../cluster.ts'
import { startCommand } from '../command.ts'
import type { Stream } from '../event-stream.ts'
import { newInstance, postEvent, unique } from '../fleet.ts'
import { newDataDir, patienceMs, type Service, until } from '../service.ts'
import type { ControlMessage, CreatedKey, StreamBody } from '../shapes.ts'

let settings: SharedSettings
let services: Service[]
const servers = useServers({
  async open() {
    settings = { ...(await sharedSettings(servers)), WARDLINE_STREAM_AUTH: 'session', WARDLINE_LOG_LEVEL: 'warn' }
    services = await startProcesses(settings, 2)
  },
  async close() {
    await Promise.all(services?.map((service) => service.stop()) ?? [])
  },
})

interface AuditEntry {
  seq: number
  action: string
  target: string | null
  after: { suspended: boolean; version: number }
}

async function readAudit(service: Service): Promise<AuditEntry[]> {
  const entries: AuditEntry[] = []
  for (let after = '0'; ; ) {
    const page = await service.call<{ entries: AuditEntry[]; next: string | null }>(
      'GET',
      `/api/audit?limit=1000&after=${after}`,
    )
    entries.push(...page.body.entries)
    if (page.body.next === null) return entries
    after = page.body.next
  }
}

const versionsOf = (stream: Stream) => stream.messages.map(({ json }) => (json as ControlMessage).version)
const isRising = (versions: number[]) => versions.every((version, index) => version > (versions[index - 1] ?? -1))

const changes = effort(1_000, 10_000)

test(`${changes} kills and resumes by two processes give each instance one gapless history`, async () => {
  const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
  const random = seededDraws(seed)
  const ids = await Promise.all(Array.from({ length: 10 }, () => newInstance(services[0]!)))
  const listeners = await Promise.all(
    services.flatMap((service) =>
      ids.map(async (id) => {
        const stream = await service.openStream(`/api/instances/${id}/control`, { key: service.key })
        return { id, service, stream }
      }),
    ),
  )
  const successes = new Map(ids.map((id) => [id, 0]))
  const statuses = new Map<number, number>()
  let left = changes

  async function operate(service: Service): Promise<void> {
    while (left-- > 0) {
      const id = ids[Math.floor(random() * ids.length)]!
      const isKill = random() < 0.5
      const answer = isKill
        ? await service.call('POST', `/api/kill/${id}`, { body: { reason: 'contested' } })
        : await service.call('POST', `/api/resume/${id}`)
      statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
      if (answer.status === 200) successes.set(id, successes.get(id)! + 1)
    }
  }
  const startedAt = performance.now()
  await Promise.all(services.flatMap((service) => Array.from({ length: 20 }, () => operate(service))))
  const seconds = (performance.now() - startedAt) / 1000
  const total = [...successes.values()].reduce((sum, count) => sum + count, 0)
  console.log(`seed ${seed}: ${total} of ${changes} succeeded, ${[...statuses].join(' · ')} in ${seconds.toFixed(1)} s`)

  // A database server on a busy machine may respond too late: 503 means not done, 500 means perhaps done.
  const allowed = [200, 400, ...effort([500, 503], [])]
  expect(
    [...statuses.keys()].filter((status) => !allowed.includes(status)),
    'every other answer is a plain refusal',
  ).toEqual([])
  expect(total).toBeGreaterThan(changes / 10)
  const entries = (await readAudit(services[1]!)).filter(({ action }) => /^instance\.(suspend|resume)$/.test(action))
  expect(entries.length).toBeGreaterThanOrEqual(total)
  expect(entries.length).toBeLessThanOrEqual(total + (statuses.get(500) ?? 0))
  const made = new Map<string, number>()
  for (const id of ids) {
    const history = entries.filter(({ target }) => target === id).map(({ after }) => after)
    const count = history.length
    made.set(id, count)
    expect(count).toBeGreaterThanOrEqual(successes.get(id)!)
    expect(history.map(({ version }) => version)).toEqual(Array.from({ length: count }, (_, index) => index + 1))
    expect(
      history.every(({ suspended }, index) => suspended === (index % 2 === 0)),
      'kill and resume take turns',
    ).toBe(true)
    for (const service of services) {
      const { body } = await service.call<{ control: { version: number } }>('GET', `/api/instances/${id}`)
      expect(body.control.version).toBe(count)
      const poll = await service.call<{ suspended: boolean }>('GET', `/api/instances/${id}/status`)
      expect(poll.body.suspended).toBe(count % 2 === 1)
    }
  }
  for (const { id, stream } of listeners) {
    await until(
      'the last version on each control stream',
      () => versionsOf(stream).at(-1),
      (version) => version === made.get(id),
    )
    expect(isRising(versionsOf(stream)), `versions fall: ${versionsOf(stream)}`).toBe(true)
    stream.close()
  }

  const verified = await startCommand(['audit', 'verify'], { ...settings, WARDLINE_DATA_DIR: newDataDir() }).ended
  expect(verified.output).toMatch(/^The audit log is intact: \d+ entries/m)
  expect(verified.code).toBe(0)
})

// After one process has confirmed a suspension, no other process may report another state.
test('a kill that one process has answered is seen by the very next poll of the other', async () => {
  const [first, second] = services as [Service, Service]
  const id = await newInstance(first)
  const poll = async (service: Service) =>
    (await service.call<{ suspended: boolean }>('GET', `/api/instances/${id}/status`)).body.suspended
  for (let round = 0; round < effort(40, 100); round++) {
    await first.call('POST', `/api/kill/${id}`, { body: { reason: 'now' } })
    expect(await poll(second)).toBe(true)
    await second.call('POST', `/api/resume/${id}`)
    expect(await poll(first)).toBe(false)
  }
})

/** The documented limit is one second; a busy machine takes longer. */
const revokedWithinMs = effort(patienceMs, 1_000)

// A leaked key remains usable while one process behind the load balancer still accepts it.
test('a stream shows the kills of every process once, in the order of the list, with who made them', async () => {
  const ids = await Promise.all(Array.from({ length: 4 }, () => newInstance(services[0]!)))
  const { body: operator } = await services[0]!.call<CreatedKey>('POST', '/api/keys', {
    body: { scope: 'operator', name: 'one of two operators' },
  })
  const isKnown = async () => (await services[1]!.call('GET', '/api/status', { key: operator.key })).status === 200
  await until('the key at the other process', isKnown, Boolean)
  const streams = await Promise.all(
    services.map((service) => service.openStream('/api/stream?include=control', { key: service.key })),
  )
  for (const stream of streams) await stream.next<StreamBody>(({ type }) => type === 'heartbeat')
  const work = ids.flatMap((id, index) =>
    services.map(async (service) => {
      for (let round = 0; round < 10; round++) {
        const options = { key: operator.key }
        await service.call('POST', `/api/kill/${id}`, { ...options, body: { reason: `round ${round} of ${index}` } })
        await service.call('POST', `/api/resume/${id}`, options)
      }
    }),
  )
  await Promise.all(work)
  const { body } = await services[0]!.call<{ changes: { seq: number; instance_id: string; actor_name: string }[] }>(
    'GET',
    '/api/control-changes?limit=1000',
  )
  const expected = body.changes.filter(({ instance_id }) => ids.includes(instance_id)).toReversed()
  expect(expected.length).toBeGreaterThanOrEqual(40)
  expect(new Set(expected.map(({ actor_name }) => actor_name))).toEqual(new Set(['one of two operators']))
  for (const stream of streams) {
    const shown = () =>
      stream.messages.flatMap(({ event, json }) =>
        event === 'control' ? [(json as { data: (typeof expected)[number] }).data] : [],
      )
    await until(
      'the last change',
      () => shown().at(-1)?.seq,
      (seq) => seq === expected.at(-1)!.seq,
    )
    // Changes of the last second before the stream was opened may come first.
    expect(shown().filter(({ instance_id }) => ids.includes(instance_id))).toEqual(expected)
    stream.close()
  }
})

test('a key that is revoked at one process is refused by the other in time, and its streams end', async () => {
  const [first, second] = services as [Service, Service]
  const id = await newInstance(first)
  const bystander = await second.openStream('/api/stream', { key: second.key })
  for (let round = 0; round < 5; round++) {
    const body = { scope: 'admin', name: unique('leaked') }
    const { body: created } = await first.call<CreatedKey>('POST', '/api/keys', { body })
    const use = () => second.call('GET', `/api/instances/${id}/status`, { key: created.key })
    await until('the new key opens the other process', use, ({ status }) => status === 200, revokedWithinMs)
    const paths = ['/api/stream', `/api/instances/${id}/control`]
    const streams = await Promise.all(
      services.flatMap((service) => paths.map((path) => service.openStream(path, { key: created.key }))),
    )
    expect(streams.map(({ status }) => status)).toEqual([200, 200, 200, 200])
    let open = streams.length
    for (const stream of streams) void stream.ended.then(() => open--)

    expect((await first.call('DELETE', `/api/keys/${created.id}`)).status).toBe(200)
    const refused = until('the refusal', use, ({ status }) => [401, 429].includes(status), revokedWithinMs)
    const ended = until(
      'the end of its streams',
      () => open,
      (count) => count === 0,
      revokedWithinMs,
    )
    await Promise.all([refused, ended])
  }
  const description = unique('still-here')
  await postEvent(first, { description })
  await bystander.next<StreamBody>((body) => body.type === 'event' && body.data.description === description)
  bystander.close()
})
