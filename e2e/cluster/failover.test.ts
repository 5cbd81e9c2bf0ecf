import { setTimeout as pause } from 'node:timers/promises'
import { expect, onTestFailed, test } from 'vitest'
import { effort } from '../../test-servers/effort.ts'
import { seededDraws } from '../../test-servers/seeded-draws.ts'
import { balance } from '../balanced.ts'
import { query, readMetric, settingsOn, startProcesses, useReplicatedServers } from '../cluster.ts'
import { allEvents, anEvent, newInstance, unique } from '../fleet.ts'
import { type Service, until } from '../service.ts'
import type { Created, EventPage, EventRow, Severity, StatusView } from '../shapes.ts'
import { followControl, followStream } from '../stream-follower.ts'
import { startTcpProxy } from '../tcp-proxy.ts'
import { startWatchedPairs, startWatchReceiver } from '../watched-pairs.ts'

const servers = useReplicatedServers()

/** With each of three seeds eight found what docs/adr/0060-a-place-is-moved-before-it-is-read.md describes. */
const failovers = effort(8, 20)
const writers = 32
const severities: Severity[] = ['info', 'warning', 'critical', 'breach']
const types = ['failover_a', 'failover_b', 'failover_c']
const instances = ['agent-a', 'agent-b', 'agent-c', 'agent-d', 'agent-e']
/** Pause of a client after a refusal, long enough to leave the CPU to a server that is promoted. */
const pauseBeforeRetryMs = 25

/** Sends each request to the next process, and again while no server accepts writes. */
const clientOf = (services: Service[]) => balance(services, { isRefused: ({ status }) => status >= 500 })

/** The answer to a failed request does not say why. */
async function startLogged(settings: Record<string, string>, count: number): Promise<Service[]> {
  const services = await startProcesses(settings, count)
  const faults = () =>
    services.flatMap((service) => service.logs().split('\n')).filter((line) => /request failed/.test(line))
  onTestFailed(() => console.log(faults().join('\n')))
  return services
}

/** Returns the seqs of all events that a filtered list has, in order. */
async function listed(service: Service, filter: string): Promise<number[]> {
  const seqs: number[] = []
  for (let before = ''; ; ) {
    const page = await service.call<EventPage>('GET', `/api/events?limit=1000&${filter}${before}`)
    expect(page, page.text).toMatchObject({ status: 200 })
    seqs.push(...page.body.events.map(({ seq }) => seq))
    if (page.body.next === null) return seqs.reverse()
    before = `&before=${encodeURIComponent(page.body.next)}`
  }
}

// Lists by agent and type, the stream and the counts trail the log. An event that one of them passes over is stored and
// acknowledged, but a search for the agent that reported it does not find it.
/** Writes without a pause until `stop`, to all processes in turn. */
function startWriters(services: Service[], count = writers) {
  const client = clientOf(services)
  const acknowledged = new Map<string, string>()
  let stopped = false
  /** Pending while a standby is copied, which takes longer beside writers. */
  let mayWrite = Promise.resolve()
  const write = async (writer: number) => {
    for (let number = writer; !stopped; number++) {
      const body = anEvent({
        description: unique('kept'),
        severity: severities[number % severities.length]!,
        event_type: types[number % types.length]!,
        instance_id: instances[number % instances.length]!,
      })
      const headers = { 'idempotency-key': body.description }
      const answer = await client.call<Created>('POST', '/api/events', { body, headers })
      expect(answer.status, answer.text).toBe(201)
      acknowledged.set(body.description, answer.body.id)
      await mayWrite
    }
  }
  const writing = Promise.all(Array.from({ length: count }, (_, writer) => write(writer)))
  return {
    acknowledged,
    async moreAreTaken(more: number) {
      const enough = acknowledged.size + more
      const taken = until(
        `${more} more events taken`,
        () => acknowledged.size,
        (size) => size >= enough,
        300_000,
      )
      await Promise.race([taken, writing.then(() => taken)])
    },
    waitFor(work: Promise<void>) {
      mayWrite = work
      return work
    },
    async stop() {
      stopped = true
      await writing
    },
  }
}

test('failovers to a synchronous standby lose no acknowledged event, in any list, count or stream', async () => {
  const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
  const random = seededDraws(seed)
  const { postgres, redis } = servers
  const proxy = await startTcpProxy(postgres.url)
  const services = await startLogged(settingsOn(proxy.through(postgres.url), redis), 2)
  const followers = await Promise.all(services.map(followStream))
  const { acknowledged, moreAreTaken, waitFor, stop } = startWriters(services)

  for (let round = 1; round <= failovers; round++) {
    await moreAreTaken(100 + Math.floor(random() * 300))
    // The index is extended once a second: the kill comes at any point of that second.
    await pause(random() * 500)
    proxy.aim(await postgres.failOver())
    await moreAreTaken(100)
    await waitFor(postgres.addStandby())
  }
  await stop()

  const rows = (await allEvents(services[0]!)).toReversed()
  console.log(`seed ${seed}: ${rows.length} events, ${failovers} failovers`)
  expect(new Map(rows.map(({ description, id }) => [description, id]))).toEqual(acknowledged)
  expect(rows.map(({ seq }) => seq)).toEqual(rows.map((_, index) => index + 1))
  for (const service of services) {
    for (const type of types) {
      const own = rows.filter(({ event_type }) => event_type === type)
      expect(await listed(service, `event_type=${type}`), type).toEqual(own.map(({ seq }) => seq))
    }
    for (const instance of instances) {
      const own = rows.filter(({ instance_id }) => instance_id === instance)
      expect(await listed(service, `instance_id=${instance}`), instance).toEqual(own.map(({ seq }) => seq))
    }
    // The lists are complete because the index passed over nothing, not because the check mended it.
    expect(await readMetric(service, 'wardline_event_index_repairs_total')).toBe(0)
    const { body } = await service.call<StatusView>('GET', '/api/status')
    const counts = severities.map((severity) => [severity, rows.filter((row) => row.severity === severity).length])
    expect(body.stats).toEqual(Object.fromEntries(counts))
  }
  for (const follower of followers) {
    await follower.reaches(rows.length)
    expect(follower.rows).toEqual(rows)
    await follower.stop()
  }
  for (const service of services) await service.stop()
  await proxy.close()
}, 900_000)

/** Resolves with the URL of a new database on the primary, because the first one belongs to the first test. */
async function databaseOf(name: string): Promise<(url: string) => string> {
  const { postgres } = servers
  await query(postgres.url, `drop database if exists ${name} with (force)`)
  await query(postgres.url, `create database ${name}`)
  return (url) => url.replace(/postgres$/, name)
}

// Every process remembers what is gone: one that went on would skip new events in streams and rules, and believe agents
// suspended that are not.
test('a failover that loses events is reported once, every process ends, and the next ones serve', async () => {
  const { postgres, redis } = servers
  const named = await databaseOf('lost_events')
  const proxy = await startTcpProxy(postgres.url)
  const services = await startLogged(settingsOn(proxy.through(named(postgres.url)), redis), 3)
  const [kept, lost] = [await newInstance(services[0]!), await newInstance(services[0]!)]
  const kill = (id: string) => services[0]!.call('POST', `/api/kill/${id}`, { body: { reason: 'stop' } })
  const { acknowledged, moreAreTaken, stop } = startWriters(services, 8)
  expect((await kill(kept)).status).toBe(200)
  await moreAreTaken(100)
  const before = new Map(acknowledged)
  await postgres.leaveStandbyBehind()
  expect((await kill(lost)).status).toBe(200)
  await moreAreTaken(50)
  const url = await postgres.failOver()
  const after = acknowledged.size
  // New events take the numbers of lost ones before any process looks.
  proxy.aim(url)
  const pids = () => services.map((service) => service.pid()).filter((pid) => pid !== undefined)
  await until('the end of every process', pids, (running) => running.length === 0)
  for (const service of services) expect(await service.terminate()).toEqual({ code: 70, signal: null })
  await Promise.all(services.map((service) => service.start()))
  await moreAreTaken(100)
  await stop()

  const rows = (await allEvents(services[1]!)).toReversed()
  expect(rows.map(({ seq }) => seq)).toEqual(rows.map((_, index) => index + 1))
  expect(rows.filter(({ event_type }) => event_type === 'events_lost')).toHaveLength(1)
  const stored = new Map(rows.map(({ description, id }) => [description, id]))
  const missing = [...acknowledged].filter(([description, id]) => stored.get(description) !== id)
  expect(missing.length).toBeGreaterThanOrEqual(50)
  const [notLost, notYet] = [[...before.keys()], [...acknowledged.keys()].slice(after + 8)]
  for (const [name] of missing) expect([...notLost, ...notYet]).not.toContain(name)
  const view = async (id: string) =>
    (await services[2]!.call<{ control: object; status: string }>('GET', `/api/instances/${id}`)).body
  for (const id of [kept, lost]) {
    const body = { instance_id: id, name: id, control_version: 1 }
    expect((await services[1]!.call('POST', '/api/heartbeat', { body })).status).toBe(200)
  }
  expect(await view(kept)).toMatchObject({ status: 'suspended', control: { version: 1, mismatch: false } })
  expect(await view(lost)).toMatchObject({ status: 'active', control: { version: 0, mismatch: true } })
  expect(await listed(services[0]!, `event_type=control_version_mismatch`)).toHaveLength(1)
  expect((await kill(lost)).status).toBe(200)
  expect(await view(lost)).toMatchObject({ status: 'suspended', control: { version: 2 } })
  console.log(`${missing.length} events lost by the failover, reported once`)
  for (const service of services) await service.stop()
  await proxy.close()
  await postgres.addStandby()
}, 300_000)

const faults = ['killed', 'frozen', 'cut off'] as const
/** Of each fault. */
const times = effort(1, 7)
const manyWriters = effort(writers, 100)
/** Agents that listen on a control stream and are suspended and resumed all the time. */
const listeners = effort(0, 200)
const operators = 10
/** Of watched events: before, across, during, until after and after each failover. */
const pairs = 2

/** Suspends and resumes agents in turn until `stop`, also while no server accepts writes. */
async function startOperators(services: Service[]) {
  const client = clientOf(services)
  const agents = await Promise.all(Array.from({ length: listeners }, () => newInstance(services[0]!)))
  const controls = await Promise.all(agents.map((agent) => followControl(client, services[0]!.key, agent)))
  const versions = new Map(agents.map((agent) => [agent, 0]))
  let stopped = false
  const operating = Promise.all(
    Array.from({ length: operators }, async (_, operator) => {
      const own = agents.filter((_, index) => index % operators === operator)
      for (let count = 0; own.length > 0 && !stopped; count++) {
        const agent = own[count % own.length]!
        const version = versions.get(agent)! + 1
        const path = `/api/${version % 2 === 1 ? 'kill' : 'resume'}/${agent}`
        // A request whose answer was lost may have been carried out: the second one is then refused with 400.
        const answer = await client.call('POST', path, version % 2 === 1 ? { body: { reason: 'failover' } } : {})
        expect([200, 400], answer.text).toContain(answer.status)
        versions.set(agent, version)
        await pause(pauseBeforeRetryMs)
      }
    }),
  )
  return async () => {
    stopped = true
    await operating
    for (const [at, control] of controls.entries()) {
      await control.reaches(versions.get(agents[at]!)!)
      await control.stop()
      // A version above the number of kills and resumes is one that was carried out twice.
      const steps = control.versions.map((version, index) => version - (control.versions[index - 1] ?? version))
      expect(control.versions.at(-1)).toBe(versions.get(agents[at]!))
      expect(steps.filter((step) => step !== 0 && step !== 1)).toEqual([])
    }
    return [...versions.values()].reduce((sum, count) => sum + count, 0)
  }
}

// The address of each server stays the same, as that of machines does. The former primary comes back where it was, and
// accepts writes: what is stored there is lost.
test('with several hosts the promoted standby is found, and a former primary that comes back gets nothing', async () => {
  const { postgres, redis } = servers
  const named = await databaseOf('several_hosts')
  const first = await startTcpProxy(postgres.url)
  const second = await startTcpProxy(postgres.standbyUrl)
  const { host } = new URL(second.through(postgres.url))
  const hosts = named(first.through(postgres.url)).replace(/@([^/]+)/, `@${host},$1`)
  const receiver = await startWatchReceiver()
  const settings = settingsOn(`${hosts}?target_session_attrs=read-write`, redis)
  const services = await startLogged({ ...settings, ALERT_WEBHOOK_URL: `${receiver.url}/alerts` }, 2)
  const watched = await startWatchedPairs(services, receiver)
  const { acknowledged, moreAreTaken, waitFor, stop } = startWriters(services, manyWriters)
  const stopOperators = await startOperators(services)
  let [primaryProxy, standbyProxy] = [first, second]
  const rounds: { fault: string; firstWriteS: number; until: number }[] = []
  for (let round = 0; round < faults.length * times; round++) {
    const fault = faults[round % faults.length]!
    await moreAreTaken(200)
    await watched.complete(await watched.begin(pairs))
    const across = await watched.begin(pairs)
    if (fault === 'killed') await postgres.primary.kill()
    else if (fault === 'frozen') postgres.primary.freeze()
    else primaryProxy.swallow()
    // Sent while no server accepts writes.
    const meanwhile = Promise.all([
      watched.complete(across),
      watched.begin(pairs).then(watched.complete),
      watched.begin(pairs),
    ])
    const former = await postgres.promote()
    const promotedAt = performance.now()
    await moreAreTaken(manyWriters + 1)
    const firstWriteS = Number(((performance.now() - promotedAt) / 1_000).toFixed(1))
    rounds.push({ fault, firstWriteS, until: acknowledged.size })
    const [, , late] = await meanwhile
    await watched.complete(late)
    await watched.complete(await watched.begin(pairs))
    if (fault !== 'killed') {
      if (fault === 'frozen') former.thaw()
      primaryProxy.heal()
      const count = async () =>
        (await query<{ count: string }>(named(former.url), 'select count(*) from events'))[0]!.count
      const before = await count()
      // The only one that answers accepts writes, but was replaced.
      const logged = services.map((service) => service.logs().length)
      standbyProxy.swallow()
      for (const [at, service] of services.entries()) {
        const since = () => service.logs().slice(logged[at])
        await until('each process refuses it', since, (text) => text.includes('replaced by another primary'), 30_000)
      }
      expect(await count()).toBe(before)
      standbyProxy.heal()
      await moreAreTaken(manyWriters + 1)
    }
    await former.end()
    await waitFor(postgres.addStandby())
    primaryProxy.aim(postgres.standbyUrl)
    ;[primaryProxy, standbyProxy] = [standbyProxy, primaryProxy]
  }
  await stop()
  const said = await watched.end()
  const isWritten = ({ event_type }: EventRow) => types.includes(event_type)
  const rows = (await allEvents(services[0]!)).toReversed().filter(isWritten)
  const changes = await stopOperators()
  const ids = Map.groupBy(rows, ({ description }) => description)
  const table = rounds.map(({ fault, firstWriteS, until }, round) => {
    const names = [...acknowledged.keys()].slice(rounds[round - 1]?.until ?? 0, until)
    const count = (holds: (copies: number) => boolean) =>
      names.filter((name) => holds(ids.get(name)?.length ?? 0)).length
    return { fault, lost: count((copies) => copies === 0), doubled: count((copies) => copies > 1), firstWriteS }
  })
  console.log(`${rows.length} events, ${changes} kills and resumes; ${said}`)
  console.table(table)
  expect(new Map(rows.map(({ description, id }) => [description, id]))).toEqual(acknowledged)
  expect(rows).toHaveLength(acknowledged.size)
  for (const service of services) await service.stop()
  for (const proxy of [first, second]) await proxy.close()
}, 900_000)
