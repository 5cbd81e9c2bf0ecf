import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { findPgBouncer, startPgBouncer } from '../../test-servers/pgbouncer.ts'
import { query, settingsOn, startProcesses, useServers } from '../cluster.ts'
import { allEvents, anEvent, newInstance } from '../fleet.ts'
import { until } from '../service.ts'
import type { BatchAnswer, Created } from '../shapes.ts'
import { followControl, followStream } from '../stream-follower.ts'

const servers = useServers()

const guide = readFileSync(fileURLToPath(new URL('../../docs/guide/scaling.md', import.meta.url)), 'utf8')
const settingsOfGuide = /### PgBouncer\n.*?```ini\n(.*?)```/s.exec(guide)![1]!
/** Each time, every connection to PostgreSQL is replaced, and with it go the prepared statements. */
const recycles = 5
const inBatch = 20

test('two processes work through PgBouncer with the settings of the guide', async ({ skip }) => {
  const found = findPgBouncer()
  if ('missing' in found) {
    console.warn(`NOT TESTED: PgBouncer, because ${found.missing}`)
    return skip(found.missing)
  }
  const { postgres, redis } = servers
  const database = await postgres.createDatabase()
  await using bouncer = await startPgBouncer(found.program, postgres, settingsOfGuide)
  const settings = { ...settingsOn(bouncer.through(database), redis), WARDLINE_LOG_LEVEL: 'warn' }
  const services = await startProcesses(settings, 2)
  const agents = [await newInstance(services[0]!), await newInstance(services[1]!)]
  const followers = await Promise.all(services.map(followStream))
  const controls = await Promise.all(
    agents.map((agent, at) => followControl(services[1 - at]!, services[0]!.key, agent)),
  )

  let stopped = false
  const acknowledged = new Map<string, string>()
  const failed: string[] = []
  const versions = [0, 0]
  async function repeat(request: () => Promise<{ status: number; text: string }>): Promise<void> {
    while (!stopped) {
      const { status, text } = await request()
      if (status >= 300) failed.push(`${status} ${text}`)
    }
  }
  const load = Promise.all(
    services.flatMap((service, at) => [
      ...Array.from({ length: 4 }, () =>
        repeat(async () => {
          const body = anEvent({ instance_id: agents[at]! })
          const answer = await service.call<Created>('POST', '/api/events', { body })
          acknowledged.set(body.description, answer.body.id)
          return answer
        }),
      ),
      repeat(async () => {
        const body = Array.from({ length: inBatch }, () => anEvent({ severity: 'warning' }))
        const answer = await service.call<BatchAnswer>('POST', '/api/events/batch', { body })
        for (const [index, { description }] of body.entries()) acknowledged.set(description, answer.body.ids[index]!)
        return answer
      }),
      repeat(async () => {
        const suspended = versions[at]! % 2 === 0
        const path = `/api/${suspended ? 'kill' : 'resume'}/${agents[at]}`
        const answer = await service.call('POST', path, suspended ? { body: { reason: 'pooled' } } : {})
        versions[at]! += 1
        const polled = await services[1 - at]!.call<{ suspended: boolean }>(
          'GET',
          `/api/instances/${agents[at]}/status`,
        )
        return polled.body.suspended === suspended ? answer : polled
      }),
      repeat(() => service.call('GET', `/api/events?instance_id=${agents[at]}`)),
    ]),
  )
  const serversOfPool = async () =>
    (
      await query<{ pid: number }>(
        database,
        `select pid from pg_stat_activity where application_name like 'wardline %'`,
      )
    ).map(({ pid }) => pid)
  for (let round = 0; round < recycles; round++) {
    const before = await serversOfPool()
    const taken = acknowledged.size
    await bouncer.recycle()
    await until(
      'events over new connections',
      () => acknowledged.size,
      (size) => size > taken + 200,
    )
    const isReplaced = (pids: number[]) => pids.length > 0 && !pids.some((pid) => before.includes(pid))
    await until('the end of the former connections', serversOfPool, isReplaced)
    await pause(50)
  }
  stopped = true
  await load

  expect(failed).toEqual([])
  const rows = (await allEvents(services[0]!)).toReversed()
  const reported = rows.filter(({ by_service }) => !by_service)
  expect(reported).toHaveLength(acknowledged.size)
  expect(new Map(reported.map(({ description, id }) => [description, id]))).toEqual(acknowledged)
  expect(rows.map(({ seq }) => seq)).toEqual(rows.map((_, index) => index + 1))
  for (const follower of followers) {
    await follower.reaches(rows.length)
    expect(follower.rows).toEqual(rows.slice(-follower.rows.length))
    await follower.stop()
  }
  for (const [at, control] of controls.entries()) {
    await control.reaches(versions[at]!)
    expect(control.versions.at(-1), 'one version for each kill and resume').toBe(versions[at])
    await control.stop()
  }
  for (const service of services) expect(service.logs()).not.toMatch(/"level":"(error|fatal)"/)
  console.log(`${rows.length} events, ${versions.join(' and ')} kills and resumes through PgBouncer`)
  for (const service of services) await service.stop()
}, 300_000)
