import { execFileSync } from 'node:child_process'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as pause } from 'node:timers/promises'
import { Client } from 'pg'
import { afterEach, describe, expect, test } from 'vitest'
import { effort } from '../../test-servers/effort.ts'
import { readMetric, sharedSettings, startProcesses, useServers } from '../cluster.ts'
import { allEvents, anEvent, beat, newInstance, postEvent, unique } from '../fleet.ts'
import { patienceMs, type Service, until } from '../service.ts'
import type { ControlMessage } from '../shapes.ts'
import { followStream } from '../stream-follower.ts'
import { startTcpProxy, type TcpProxy } from '../tcp-proxy.ts'

/** Documented limits of each outage. Ordinary runs share the machine and only check that each state is reached. */
const promised = {
  /** Maximum delay until events of another process are known without the backplane. */
  deliveredWithinMs: effort(patienceMs, 2_000),
  /** Maximum response time without the database. */
  refusedWithinMs: effort(patienceMs, 2_000),
  /** Maximum time until normal operation after a server has returned. */
  recoveredWithinMs: effort(patienceMs, 5_000),
}

/** Proxies in front of the servers. */
let database: TcpProxy
let backplane: TcpProxy
let services: Service[]
let first: Service
let second: Service
const servers = useServers({
  async open() {
    const settings = await sharedSettings(servers)
    database = await startTcpProxy(settings.DATABASE_URL)
    backplane = await startTcpProxy(settings.BACKPLANE_URL)
    services = await startProcesses(
      {
        ...settings,
        DATABASE_URL: database.through(settings.DATABASE_URL),
        BACKPLANE_URL: backplane.through(settings.BACKPLANE_URL),
      },
      2,
    )
    ;[first, second] = services as [Service, Service]
  },
  async close() {
    await Promise.all(services?.map((service) => service.stop()) ?? []).finally(() =>
      Promise.all([database?.close(), backplane?.close()]),
    )
  },
})

interface Readiness {
  ok: boolean
  database: string
  backplane: string
}

/** Waits until every process reports this state. */
async function expectReadiness(readiness: Readiness, withinMs: number): Promise<void> {
  for (const service of services) {
    const answer = await until(
      `readiness ${JSON.stringify(readiness)}`,
      () => service.call<Readiness>('GET', '/readyz'),
      ({ body: { ok, database, backplane } }) =>
        JSON.stringify({ ok, database, backplane }) === JSON.stringify(readiness),
      withinMs,
    )
    expect(answer.status).toBe(readiness.ok ? 200 : 503)
  }
}

const kill = (service: Service, id: string) =>
  service.call('POST', `/api/kill/${id}`, { body: { reason: 'in the dark' } })
const resume = (service: Service, id: string) => service.call('POST', `/api/resume/${id}`)
const poll = async (service: Service, id: string) =>
  (await service.call<{ suspended: boolean }>('GET', `/api/instances/${id}/status`)).body.suspended

describe.each([
  {
    outage: 'Redis is killed',
    begin: () => servers.redis.kill(),
    end: () => servers.redis.start(),
  },
  {
    outage: 'Redis is there but silent',
    begin: async () => backplane.swallow(),
    end: async () => backplane.heal(),
  },
])('while $outage', ({ begin, end }) => {
  test('without the backplane, events are stored and streamed, polls are right, and alerts are sent; then all converge', async () => {
    const id = await newInstance(first)
    const other = await newInstance(second)
    const followers = await Promise.all(services.map(followStream))
    const control = await second.openStream(`/api/instances/${id}/control`, { key: second.key })
    await expectReadiness({ ok: true, database: 'ok', backplane: 'ok' }, promised.recoveredWithinMs)
    // Both processes know it, so their caches must not be trusted any more.
    expect(await Promise.all(services.map((service) => poll(service, id)))).toEqual([false, false])

    await begin()
    // Also before any process has noticed that the backplane is down.
    expect((await kill(first, id)).status).toBe(200)
    expect(await poll(second, id), 'the very next poll').toBe(true)
    await control.next<ControlMessage>(({ version }) => version === 1, promised.deliveredWithinMs)
    await expectReadiness({ ok: true, database: 'ok', backplane: 'unavailable' }, promised.recoveredWithinMs)
    for (const service of services) expect(await readMetric(service, 'wardline_backplane_up')).toBe(0)

    for (let round = 0; round < 20; round++) {
      expect((await resume(first, id)).status).toBe(200)
      expect(await poll(second, id), 'the very next poll').toBe(false)
      expect((await kill(second, id)).status).toBe(200)
      expect(await poll(first, id), 'the very next poll').toBe(true)
    }
    await control.next<ControlMessage>(({ version }) => version === 41, promised.deliveredWithinMs)

    for (let round = 0; round < 3; round++) {
      const description = unique('unheard')
      await postEvent(first, { description })
      await until(
        'the event on the stream of the other process',
        () => followers[1]!.rows.at(-1)?.description,
        (last) => last === description,
        promised.deliveredWithinMs,
      )
    }
    await beat(second, other)
    expect((await second.call('GET', '/api/status')).status).toBe(200)

    await end()
    await expectReadiness({ ok: true, database: 'ok', backplane: 'ok' }, promised.recoveredWithinMs)
    for (const service of services) expect(await readMetric(service, 'wardline_backplane_up')).toBe(1)
    const stored = (await allEvents(first)).map(({ seq }) => seq).toReversed()
    for (const follower of followers) {
      await follower.reaches(stored.at(-1)!, promised.recoveredWithinMs)
      const seqs = follower.rows.map(({ seq }) => seq)
      expect(seqs).toEqual(stored.slice(stored.indexOf(seqs[0]!)))
      await follower.stop()
    }
    await resume(second, id)
    await until(
      'the resume in polls',
      () => poll(first, id),
      (suspended) => !suspended,
      promised.deliveredWithinMs,
    )
    const last = await control.next<ControlMessage>(({ version }) => version === 42, promised.deliveredWithinMs)
    expect(last.json.action).toBe('resume')
    control.close()
  })
})

/** Occupies all connections of a process. Resolves with the instances that were killed for it. */
async function openEveryConnection(): Promise<string[]> {
  const ids = await Promise.all(Array.from({ length: 12 }, () => newInstance(first)))
  for (const service of services) {
    // A server on a busy machine may refuse some at first.
    const isTaken = ({ status }: { status: number }) => status < 500
    await Promise.all(ids.map((id) => until('a kill', () => kill(service, id), isTaken)))
    await Promise.all(ids.map(() => service.call('GET', '/api/status')))
  }
  return ids
}

/** Returns the ids of the main process of the server and of its children. */
async function postgresProcesses(): Promise<number[]> {
  const client = new Client({ connectionString: servers.postgres.url })
  await client.connect()
  const { rows } = await client.query('select pg_backend_pid() as pid')
  const lines = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' }).trim().split('\n')
  const processes = lines.map((line) => line.trim().split(/\s+/).map(Number) as [pid: number, parent: number])
  const first = processes.find(([pid]) => pid === rows[0].pid)![1]
  await client.end()
  return [first, ...processes.filter(([pid, parent]) => parent === first && pid !== rows[0].pid).map(([pid]) => pid)]
}

/** A child may have exited in the meantime. */
function signal(pid: number, name: 'SIGSTOP' | 'SIGCONT'): void {
  try {
    process.kill(pid, name)
  } catch (fault) {
    if ((fault as NodeJS.ErrnoException).code !== 'ESRCH') throw fault
  }
}

let stopped: number[] = []
function resumePostgres(): void {
  for (const pid of stopped.toReversed()) signal(pid, 'SIGCONT')
  stopped = []
}
// A failure of the previous test must not affect this one.
afterEach(() => {
  resumePostgres()
  database?.heal()
  backplane?.heal()
})

describe.each([
  {
    outage: 'PostgreSQL is killed',
    begin: () => servers.postgres.kill(),
    end: () => servers.postgres.start(),
  },
  {
    outage: 'PostgreSQL is stopped in the middle of its work',
    begin: async () => {
      stopped = await postgresProcesses()
      for (const pid of stopped) signal(pid, 'SIGSTOP')
    },
    end: async () => resumePostgres(),
  },
  {
    outage: 'PostgreSQL is there but silent',
    begin: async () => database.swallow(),
    end: async () => database.heal(),
  },
])('while $outage', ({ begin, end }) => {
  test('requests are refused in time, the processes live, and all works again without a restart', async () => {
    const ids = await openEveryConnection()
    const followers = await Promise.all(services.map(followStream))
    const pollAll = () => Promise.all(services.flatMap((service) => ids.map((id) => poll(service, id))))
    const allSuspended = [...ids, ...ids].map(() => true)
    expect(await pollAll()).toEqual(allSuspended)

    await begin()
    const delay = monitorEventLoopDelay({ resolution: 10 })
    delay.enable()
    const ask = async (service: Service, method: string, path: string, body?: unknown) => {
      const startedAt = performance.now()
      const { status, headers } = await service.call(method, path, { body })
      return { path, answer: `${status} ${headers['x-error-code']}`, ms: performance.now() - startedAt }
    }
    const answers: ReturnType<typeof ask>[] = []
    for (let round = 0; round < 40; round++) {
      for (const service of services) {
        answers.push(ask(service, 'POST', '/api/events', anEvent({ source: 'outage' })))
        answers.push(ask(service, 'GET', '/api/status'))
      }
      await pause(50)
    }
    const slowest = new Map<string, number>()
    for (const { path, answer, ms } of await Promise.all(answers)) {
      // On a busy machine requests that wait for a connection fill the queues.
      expect(['500 database', ...effort(['503 overloaded'], [])], path).toContain(answer)
      slowest.set(path, Math.max(slowest.get(path) ?? 0, ms))
    }
    delay.disable()
    // On a busy machine the test itself may look too late by this much.
    const ownDelayMs = delay.max / 1_000_000
    console.log([...slowest].map(([path, ms]) => `${path} was refused after at most ${Math.round(ms)} ms`).join(', '))
    for (const ms of slowest.values()) expect(ms - ownDelayMs).toBeLessThan(promised.refusedWithinMs)
    for (const service of services) expect((await service.call('GET', '/healthz')).status).toBe(200)
    // A suspended agent stays suspended: without a response it could assume a resume.
    expect(await pollAll()).toEqual(allSuspended)
    await expectReadiness({ ok: false, database: 'unavailable', backplane: 'ok' }, promised.refusedWithinMs)

    await end()
    for (const service of services) {
      const works = async () => {
        const attempts = [
          await service.call('POST', '/api/events', { body: anEvent() }),
          await service.call('GET', '/api/status'),
        ]
        return attempts.map(({ status }) => status).join()
      }
      await until('requests work again', works, (statuses) => statuses === '201,200', promised.recoveredWithinMs)
    }
    await expectReadiness({ ok: true, database: 'ok', backplane: 'ok' }, promised.recoveredWithinMs)
    const stored = (await allEvents(first)).map(({ seq }) => seq).toReversed()
    for (const follower of followers) {
      await follower.reaches(stored.at(-1)!)
      const seqs = follower.rows.map(({ seq }) => seq)
      expect(seqs).toEqual(stored.slice(stored.indexOf(seqs[0]!)))
      await follower.stop()
    }
    expect(await pollAll()).toEqual(allSuspended)
  })
})

// Like a restarting firewall: the server accepts new connections, but open ones are dead.
test('connections that went dead unnoticed are all given up within the time of a recovery', async () => {
  await openEveryConnection()
  database.swallow()
  database.heal()
  const fiveInARow = async (service: Service) => {
    let taken = 0
    const post = () => service.call('POST', '/api/events', { body: anEvent() })
    await until(
      'five events taken one after the other',
      async () => {
        taken = (await post()).status === 201 ? taken + 1 : 0
        return taken
      },
      (count) => count === 5,
      promised.recoveredWithinMs,
    )
  }
  await Promise.all(services.map(fiveInARow))
})

// If a process does not exit on SIGTERM, an orchestrator waits half a minute before it sends SIGKILL.
test('SIGTERM ends a process although its database is silent', async () => {
  await openEveryConnection()
  database.swallow()
  const exits = await Promise.all(services.map((service) => service.terminate()))
  expect(exits.map(({ signal }) => signal)).toEqual([null, null])
})
