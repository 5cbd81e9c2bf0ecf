import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { seededDraws } from '../../test-servers/seeded-draws.ts'
import { sharedSettings, startProcesses, useServers } from '../cluster.ts'
import { allEvents, anEvent, unique } from '../fleet.ts'
import { type Service, until } from '../service.ts'
import type { Created, EventRow, Severity, StatusView } from '../shapes.ts'
import { followStream } from '../stream-follower.ts'

// With synchronous commits, a SIGKILL of all database processes loses no confirmed transaction.
const servers = useServers({ postgres: { durable: true } })

const severities: Severity[] = ['info', 'warning', 'critical', 'breach']
/** Pause of a client after a refusal, long enough to leave the CPU to a server that starts. */
const pauseBeforeRetryMs = 25

interface Ledger {
  /** Acknowledged ids by description. */
  acknowledged: Map<string, string>
  failures: Map<string, number>
  longestOutageMs: number
  lastAnswerAt: number
  stopped: boolean
}

function note(ledger: Ledger, failure: string): void {
  ledger.failures.set(failure, (ledger.failures.get(failure) ?? 0) + 1)
}

/** Sends an event until it is accepted, each time to the next process, like a load balancer. */
async function report(services: Service[], first: number, body: { description: string }, ledger: Ledger) {
  const headers = { 'idempotency-key': body.description }
  for (let attempt = first; ; attempt++) {
    const service = services[attempt % services.length]!
    const answer = await service
      .call<Created>('POST', '/api/events', { body, headers })
      .catch((fault) => fault as Error)
    if (answer instanceof Error) note(ledger, 'no answer')
    else if (answer.status === 201) return answer.body.id
    else if (answer.status >= 500) note(ledger, String(answer.status))
    else throw new Error(`an event was refused: ${answer.status} ${answer.text}`)
    await pause(pauseBeforeRetryMs)
  }
}

/** Sends the next event when the last one was accepted. */
async function write(services: Service[], writer: number, ledger: Ledger): Promise<void> {
  for (let count = 0; !ledger.stopped; count++) {
    const severity = severities[count % severities.length]!
    const tool = count % 5 === 0 ? { event_type: 'tool_call', metadata: { toolName: 'shell-exec' } } : {}
    const body = anEvent({ description: unique('survivor'), source: 'cluster-writer', severity, ...tool })
    const id = await report(services, writer, body, ledger)
    ledger.acknowledged.set(body.description, id)
    const now = performance.now()
    ledger.longestOutageMs = Math.max(ledger.longestOutageMs, now - ledger.lastAnswerAt)
    ledger.lastAnswerAt = now
  }
}

function countBy<Key>(rows: EventRow[], keyOf: (row: EventRow) => Key): Map<Key, number> {
  const counts = new Map<Key, number>()
  for (const row of rows) counts.set(keyOf(row), (counts.get(keyOf(row)) ?? 0) + 1)
  return counts
}

test('100 writers lose nothing and double nothing while PostgreSQL and Redis are killed three times each', async () => {
  const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
  const random = seededDraws(seed)
  const services = await startProcesses(await sharedSettings(servers), 2)
  const followers = await Promise.all(services.map(followStream))
  const ledger: Ledger = {
    acknowledged: new Map(),
    failures: new Map(),
    longestOutageMs: 0,
    lastAnswerAt: performance.now(),
    stopped: false,
  }
  const writers = Array.from({ length: 100 }, (_, writer) => write(services, writer, ledger))
  const writing = Promise.all(writers)
  const moreAreTaken = async (count: number) => {
    const enough = ledger.acknowledged.size + count
    const taken = until(
      `${count} more events taken (seed ${seed})`,
      () => ledger.acknowledged.size,
      (size) => size >= enough,
      300_000,
    )
    await Promise.race([taken, writing.then(() => taken)])
  }

  const faults = [
    [servers.postgres],
    [servers.redis],
    [servers.postgres],
    [servers.redis],
    [servers.postgres, servers.redis],
  ]
  for (const struck of faults) {
    await moreAreTaken(200 + Math.floor(random() * 400))
    await Promise.all(struck.map((server) => server.kill()))
    // A client that reconnects while the servers are down still resumes at its position.
    for (const follower of followers) if (random() < 0.7) follower.cut()
    await pause(random() * 300)
    await Promise.all(struck.map((server) => server.start()))
    for (const follower of followers) if (random() < 0.7) follower.cut()
  }
  await moreAreTaken(500)
  ledger.stopped = true
  await writing

  const rows = (await allEvents(services[0]!)).toReversed()
  const head = rows.at(-1)!.seq
  const failures = [...ledger.failures].map(([kind, count]) => `${count} × ${kind}`).join(', ')
  console.log(
    `seed ${seed}: ${rows.length} events of 100 writers, 3 restarts of PostgreSQL, 3 of Redis; failed attempts: ${failures}; ` +
      `longest time without an acknowledgement ${Math.round(ledger.longestOutageMs)} ms; ` +
      `streams came back ${followers.map((follower) => follower.returns()).join(' and ')} times`,
  )

  const stored = rows.map(({ description, id }) => [description, id] as const)
  expect(new Map(stored)).toEqual(ledger.acknowledged)
  expect(stored.length, 'each event once').toBe(ledger.acknowledged.size)
  const gapless = Array.from({ length: head }, (_, index) => index + 1)
  expect(rows.map(({ seq }) => seq)).toEqual(gapless)
  expect(ledger.failures.size, 'the servers were missed').toBeGreaterThan(0)

  for (const follower of followers) {
    await follower.reaches(head)
    expect(follower.rows.map(({ seq }) => seq)).toEqual(gapless)
    expect(follower.rows).toEqual(rows)
    await follower.stop()
  }
  const bySeverity = Object.fromEntries(countBy(rows, ({ severity }) => severity))
  const toolCalls = countBy(rows, ({ event_type }) => event_type).get('tool_call')
  for (const service of services) {
    const { body } = await service.call<StatusView>('GET', '/api/status')
    expect(body.stats).toEqual(bySeverity)
    expect(body.toolCalls['shell-exec']).toBe(toolCalls)
    await service.stop()
  }
}, 900_000)
