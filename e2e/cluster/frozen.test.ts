import { setTimeout as pause } from 'node:timers/promises'
import { Client } from 'pg'
import { expect, test } from 'vitest'
import { effort } from '../../test-servers/effort.ts'
import { seededDraws } from '../../test-servers/seeded-draws.ts'
import { type SharedSettings, sharedSettings, startProcesses, useServers } from '../cluster.ts'
import { startCommand } from '../command.ts'
import { newInstance, postEvent, unique } from '../fleet.ts'
import { newDataDir, type Service, until } from '../service.ts'

let settings: SharedSettings
let services: Service[]
const servers = useServers({
  async open() {
    // Alerts are stored with each kill, but not delivered.
    const alerts = { SLACK_WEBHOOK_URL: 'http://127.0.0.1:9/none', WARDLINE_ALERT_ALLOW_CIDRS: '127.0.0.0/8' }
    settings = { ...(await sharedSettings(servers)), ...alerts, WARDLINE_LOG_LEVEL: 'silent' }
    services = await startProcesses(settings, 2)
  },
  async close() {
    for (const service of services ?? []) signal(service, 'SIGCONT')
    await Promise.all(services?.map((service) => service.stop()) ?? [])
  },
})

/** SIGSTOP freezes a process, like a paused machine; SIGCONT continues it. */
function signal(service: Service, name: 'SIGSTOP' | 'SIGCONT'): void {
  const pid = service.pid()
  if (pid !== undefined) process.kill(pid, name)
}

const kill = (service: Service, id: string) =>
  service.call<{ error?: string }>('POST', `/api/kill/${id}`, { body: { reason: 'now' } })
const resume = (service: Service, id: string) => service.call('POST', `/api/resume/${id}`)

/** Starts work of every kind that takes the locks which a kill needs, until it is stopped. */
function keepBusy(service: Service, ids: string[]) {
  let stopped = false
  const loop = async (work: (round: number) => Promise<unknown>) => {
    // Requests in progress during the freeze may fail.
    for (let round = 0; !stopped; round++) await work(round).catch(() => {})
  }
  const decoy = { instanceId: 'planter', type: 'api_key', keyType: 'openai' }
  const loops = [
    ...ids.map((id) => loop((round) => (round % 2 === 0 ? kill(service, id) : resume(service, id)))),
    loop(() => service.call('POST', '/api/honeypots', { body: decoy })),
    loop(async () => {
      const body = {
        name: unique('route'),
        match: { severities: ['warning', 'critical', 'breach'] },
        channels: ['env-slack'],
      }
      const created = await service.call<{ id: string }>('POST', '/api/alert-routes', { body })
      await service.call('DELETE', `/api/alert-routes/${created.body.id}`)
    }),
    // Too large for the buffer of the connection.
    loop(() => {
      const metadata = { filler: 'x'.repeat(15_000) }
      const one = { severity: 'critical', source: 'busy', event_type: 'note', description: 'y'.repeat(900), metadata }
      return service.call('POST', '/api/events/batch', { body: Array.from({ length: 60 }, () => one) })
    }),
  ]
  return async () => {
    stopped = true
    await Promise.all(loops)
  }
}

/** Only at night: a busy machine exceeds the documented limits. */
const withinMs = effort(Infinity, 2_000)

// Otherwise a machine that is paused during a kill would disable the kill switch of the whole fleet.
test('kills succeed in time while another process is frozen at any moment of its work', async () => {
  const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
  const random = seededDraws(seed)
  const [frozen, alive] = services as [Service, Service]
  const own = await Promise.all(Array.from({ length: 6 }, () => newInstance(frozen)))
  const id = await newInstance(alive)
  const stop = keepBusy(frozen, own)
  let slowest = 0
  let late = 0
  const rounds = effort(12, 400)
  for (let round = 0; round < rounds; round++) {
    // The moment of the freeze is the point of this test, not something to wait for.
    await pause(20 + random() * 120)
    signal(frozen, 'SIGSTOP')
    const started = performance.now()
    const answer = await kill(alive, id)
    slowest = Math.max(slowest, performance.now() - started)
    signal(frozen, 'SIGCONT')
    if (answer.status !== 200) late += 1
    expect([200, ...effort([500, 503], [])], `round ${round} with seed ${seed}: ${answer.text}`).toContain(
      answer.status,
    )
    // A kill with a late response may have been stored.
    await until(
      'the resume',
      () => resume(alive, id),
      ({ status }) => status === 200 || status === 400,
    )
  }
  await stop()
  console.log(`seed ${seed}: the slowest kill beside a frozen process took ${Math.round(slowest)} ms`)
  expect(slowest).toBeLessThan(withinMs)
  // A database server on a busy machine is sometimes late; behind the locks of a frozen process it always would be.
  expect(late, 'kills that were answered too late').toBeLessThanOrEqual(effort(rounds / 2, 0))

  const verified = await startCommand(['audit', 'verify'], { ...settings, WARDLINE_DATA_DIR: newDataDir() }).ended
  expect(verified.output).toMatch(/^The audit log is intact: \d+ entries/m)
}, 600_000)

test('a kill that something else blocks for longer answers 503 with Retry-After, and is not made later', async () => {
  const [service] = services as [Service]
  const id = await newInstance(service)
  const outside = new Client({ connectionString: settings.DATABASE_URL })
  await outside.connect()
  try {
    await outside.query('begin')
    await outside.query('select * from audit_head for update')
    const refused = await kill(service, id)
    // Only a server that is late itself says less.
    if (refused.headers['x-error-code'] !== 'database' || effort(false, true)) {
      expect(refused, refused.text).toMatchObject({ status: 503, headers: { 'retry-after': '1' } })
    }
    await outside.query('rollback')
  } finally {
    await outside.end()
  }
  const { body } = await service.call<{ suspended: boolean }>('GET', `/api/instances/${id}/status`)
  expect(body.suspended).toBe(false)
  expect((await kill(service, id)).status).toBe(200)
  await postEvent(service)
})
