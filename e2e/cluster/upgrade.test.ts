import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { commitBeforeSchema } from '../../test-servers/earlier-commit.ts'
import { balance } from '../balanced.ts'
import { query, sharedSettings, useServers } from '../cluster.ts'
import { commandOf } from '../earlier-version.ts'
import { judge, startFlakyReceiver } from '../flaky-receiver.ts'
import { allEvents, anEvent, beat, unique } from '../fleet.ts'
import { type Service, startService, startToExit, until } from '../service.ts'
import type { Created } from '../shapes.ts'
import { followControl, followStream } from '../stream-follower.ts'

const servers = useServers()

/** Pause of a client after each answer: load on the processes, and CPU left for one that starts. */
const betweenRequestsMs = 10
/** Answers of each kind that every process gives between two replacements. */
const enough = 10
/** The requests that the load consists of. */
const kinds = ['POST events', 'POST heartbeat', 'POST kill', 'POST resume', 'GET status']
const kindOf = (method: string, path: string) => `${method} ${path.endsWith('/status') ? 'status' : path.split('/')[2]}`

// What an old process does beside a newer schema cannot be corrected any more once it runs somewhere
// (docs/adr/0101-migrations-beside-old-processes.md).
test('processes of an earlier version are replaced one by one, and no request fails', async ({ skip }) => {
  const commit = commitBeforeSchema()
  if (commit === undefined) {
    console.warn('NOT TESTED: upgrades, because this checkout has no history of Git')
    return skip('no history of Git: clone without --depth')
  }
  const program = await commandOf(commit)
  const receiver = await startFlakyReceiver(Math.random)
  receiver.recover()
  const settings = {
    ...(await sharedSettings(servers)),
    WARDLINE_LOG_LEVEL: 'warn',
    ALERT_WEBHOOK_URL: `${receiver.url}/alerts`,
  }
  const versionOf = async () =>
    (await query<{ version: number }>(settings.DATABASE_URL, 'select max(version) as version from schema_version'))[0]!
      .version
  const services = await Promise.all([1, 2, 3].map(() => startService({ env: settings, program })))
  const oldVersion = await versionOf()

  const answers = new Map<string, number>()
  const countOf = ({ port }: Service, kind: string) => answers.get(`${port} ${kind}`) ?? 0
  const balanced = balance(services, {
    onAnswer({ port }, method, path) {
      const name = `${port} ${kindOf(method, path)}`
      answers.set(name, (answers.get(name) ?? 0) + 1)
    },
  })
  const client: Service = { ...services[0]!, ...balanced }
  const agents = Array.from({ length: 6 }, () => unique('agent'))
  for (const agent of agents) await beat(client, agent)
  const followers = await Promise.all([followStream(client), followStream(client)])
  const controls = await Promise.all(agents.map((agent) => followControl(client, client.key, agent)))

  let stopped = false
  const failed: string[] = []
  const acknowledged = new Map<string, string>()
  const alerted: string[] = []
  const versions = new Map(agents.map((agent) => [agent, 0]))

  /** Repeats a request until the end; what it rejects with is a failure. */
  async function repeat(request: (count: number) => Promise<void>): Promise<void> {
    for (let count = 0; !stopped; count++) {
      await request(count).catch((fault) => failed.push(fault.message))
      await pause(betweenRequestsMs)
    }
  }
  async function call<Body>(...parameters: Parameters<Service['call']>) {
    const answer = await client.call<Body>(...parameters)
    if (answer.status < 300) return answer.body
    throw new Error(`${parameters.slice(0, 2).join(' ')}: ${answer.status} ${answer.text}`)
  }
  async function report(count: number): Promise<void> {
    const severity = count % 50 ? 'info' : 'critical'
    const body = anEvent({ instance_id: agents[count % agents.length]!, severity })
    const headers = { 'idempotency-key': body.description }
    const { id } = await call<Created>('POST', '/api/events', { body, headers })
    acknowledged.set(body.description, id)
    if (severity === 'critical') alerted.push(id)
  }
  /** Suspends or resumes an agent that no other client does, and asks each process after it. */
  async function operate(agent: string, count: number): Promise<void> {
    const suspended = count % 2 === 0
    const path = `/api/${suspended ? 'kill' : 'resume'}/${agent}`
    // A request whose connection broke may have been carried out: the second one is then refused with 400.
    const answer = await client.call('POST', path, suspended ? { body: { reason: 'rolling upgrade' } } : {})
    if (answer.status !== 200 && answer.status !== 400) throw new Error(`${path}: ${answer.status} ${answer.text}`)
    versions.set(agent, count + 1)
    for (const _ of services) {
      const polled = await call<{ suspended: boolean }>('GET', `/api/instances/${agent}/status`)
      if (polled.suspended !== suspended) throw new Error(`${path}: the poll afterwards says ${polled.suspended}`)
    }
  }
  const load = Promise.all([
    ...Array.from({ length: 6 }, () => repeat(report)),
    ...agents.flatMap((agent) => [
      repeat(() => call('POST', '/api/heartbeat', { body: { instance_id: agent, name: agent } }).then(() => {})),
      repeat((count) => operate(agent, count)),
    ]),
  ])
  /** Each process has answered more requests of each kind. */
  async function allAnswer(): Promise<void> {
    const before = new Map(answers)
    const fewest = () =>
      Math.min(
        ...services.flatMap((service) =>
          kinds.map((kind) => countOf(service, kind) - (before.get(`${service.port} ${kind}`) ?? 0)),
        ),
      )
    await until('answers of each process', fewest, (count) => count >= enough || failed.length > 0)
  }

  await allAnswer()
  const old = [...services]
  for (const [at, service] of old.entries()) {
    await service.stop()
    services[at] = await startService({ env: settings })
    const ready = () => services[at]!.call('GET', '/readyz')
    await until('/readyz of the new process', ready, ({ status }) => status === 200)
    await allAnswer()
    if (at === 0) expect(await versionOf()).toBeGreaterThan(oldVersion)
  }
  // The current version also says when to send a request again.
  const again = new Map(balanced.again)
  balanced.again.clear()
  await services[0]!.restart()
  await allAnswer()
  stopped = true
  await load

  console.log(`${commit.slice(0, 8)}, schema ${oldVersion}: ${acknowledged.size} events, sent again:`, again)
  expect(failed).toEqual([])
  expect([...balanced.again.keys()]).not.toContain('503, retry-after undefined')
  const rows = (await allEvents(client)).toReversed()
  const reported = rows.filter(({ description }) => acknowledged.has(description))
  expect(reported, 'none is stored twice').toHaveLength(acknowledged.size)
  expect(new Map(reported.map(({ description, id }) => [description, id]))).toEqual(acknowledged)
  expect(rows.map(({ seq }) => seq)).toEqual(rows.map((_, index) => index + 1))
  for (const follower of followers) {
    await follower.reaches(rows.length)
    const first = follower.rows[0]!.seq
    expect(follower.rows).toEqual(rows.slice(first - 1))
    expect(follower.returns()).toBeGreaterThan(0)
    await follower.stop()
  }
  for (const [at, control] of controls.entries()) {
    const last = versions.get(agents[at]!)!
    await control.reaches(last)
    expect(control.versions.at(-1), 'one version for each kill and resume').toBe(last)
    expect(control.versions).toEqual(control.versions.toSorted((a, b) => a - b))
    await control.stop()
  }
  const alerts = () => judge(alerted, receiver.taken)
  await until('all alerts', alerts, ({ lost }) => lost.length === 0)
  expect(alerts().doubles).toBe(0)
  receiver.close()
  for (const service of old) expect(service.logs()).not.toMatch(/"level":"(error|fatal)"/)
  const { code, output } = await startToExit({ ...settings }, { program })
  expect(output).toContain('install a newer version')
  expect(code).toBe(1)
  await Promise.all(services.map((service) => service.stop()))
}, 300_000)
