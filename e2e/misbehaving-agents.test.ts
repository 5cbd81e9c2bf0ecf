import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createKey, unique } from './fleet.ts'
import { endWithTests } from './left-behind.ts'
import { type Service, startService, until } from './service.ts'
import type { EventRow } from './shapes.ts'

/** Number of agents that behave well; the other five misbehave. */
const obedient = 195
/** Time for every agent to report something on a busy machine. */
const patienceMs = 120_000

interface Containment {
  id: string
  state: string
  requested: number
  confirmed: number
  proven: number
  missing: string[]
}

let service: Service
const stops: (() => void)[] = []
beforeAll(async () => {
  service = await startService({
    env: {
      WARDLINE_QUOTA_STREAMS: 'none',
      WARDLINE_SUSPENSION_ACK_SECONDS: '10',
      WARDLINE_SUSPENSION_SILENCE_SECONDS: '5',
    },
  })
})
afterAll(async () => {
  for (const stop of stops) stop()
  await service?.stop()
})

async function startFleet(prefix: string): Promise<ChildProcess> {
  const key = await createKey(service, { scope: 'agent', instances: [`${prefix}-*`] })
  const program = fileURLToPath(new URL('./sdk-fleet.js', import.meta.url))
  const child = spawn(
    process.execPath,
    ['--conditions=wardline-source', program, service.baseUrl, prefix, `${obedient}`],
    {
      env: { PATH: process.env.PATH ?? '', WARDLINE_KEY: key },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  endWithTests(child)
  let output = ''
  child.stdout!.on('data', (chunk) => {
    output += chunk
  })
  await until(
    'a fleet that is ready',
    () => output,
    (text) => text.includes('ready'),
    patienceMs,
  )
  return child
}

/** Starts an attacker's agent with a key for one instance. */
async function rogue(prefix: string, name: string) {
  const id = `${prefix}-${name}`
  const key = await createKey(service, { scope: 'agent', instances: [id] })
  const beat = (more: object = {}) =>
    service.call('POST', '/api/heartbeat', {
      key,
      body: { instance_id: id, name: id, control_version: 0, tags: [`fleet:${prefix}`], ...more },
    })
  expect((await beat()).status).toBe(200)
  return {
    id,
    beat,
    acknowledge: () => service.call('POST', `/api/instances/${id}/ack`, { key, body: { version: 1 } }),
    work: (more: object = {}) =>
      service.call('POST', '/api/events', {
        key,
        body: { severity: 'info', source: id, event_type: 'tool_call', description: 'A call', ...more },
      }),
    poll: () => service.call('GET', `/api/instances/${id}/status`, { key }),
  }
}

const repeat = (work: () => Promise<unknown>) => {
  const timer = setInterval(() => void work().catch(() => {}), 500)
  stops.push(() => clearInterval(timer))
}

test('of 200 agents that are suspended together, exactly the five that misbehave are named', async () => {
  const prefix = unique('fleet').slice(0, 14)
  const child = await startFleet(prefix)
  stops.push(() => child.kill('SIGKILL'))
  const [ignoring, working, hiding, cloned, silent] = await Promise.all(
    ['ignoring', 'working', 'hiding', 'cloned', 'silent'].map((name) => rogue(prefix, name)),
  )
  repeat(() => ignoring!.poll())
  let boots = 0
  repeat(() => cloned!.beat({ boot_id: boots++ % 2 === 0 ? 'one' : 'other', control_version: 1 }))

  const requestedAt = performance.now()
  const { status, body, text } = await service.call<Containment>('POST', '/api/containments', {
    body: {
      action: 'suspend',
      selector: { tags: [`fleet:${prefix}`] },
      reason: 'The whole fleet behaves strangely',
      confirm: `suspend ${obedient + 5} agents`,
    },
  })
  expect(status, text).toBe(201)
  for (const agent of [working, hiding]) {
    await until('the suspension', agent!.poll, (answer) => (answer.body as { suspended: boolean }).suspended)
    await agent!.acknowledge()
  }
  repeat(() => working!.work({ instance_id: working!.id }))
  // Its key is bound, so a report without its instance id is rejected.
  expect((await hiding!.work()).status).toBe(403)
  repeat(() => hiding!.work({ instance_id: hiding!.id, session_id: randomUUID() }))

  const named = new Map<string, string>()
  const name = (id: string, what: string) => {
    if (!named.has(id)) named.set(id, `${what} after ${Math.round(performance.now() - requestedAt)} ms`)
  }
  const look = async () => {
    for (const type of ['activity_while_suspended', 'instance_clone']) {
      const { body: page } = await service.call<{ events: EventRow[] }>('GET', `/api/events?event_type=${type}`)
      for (const { instance_id } of page.events) name(instance_id ?? 'nobody', type)
    }
    const { body: containment } = await service.call<Containment>('GET', `/api/containments/${body.id}`)
    if (containment.state === 'partial') for (const id of containment.missing) name(id, 'missing')
    return containment
  }
  await until('all five', look, () => named.size >= 5, patienceMs)
  process.stdout.write(`misbehaving agents: ${JSON.stringify(Object.fromEntries(named))}\n`)
  expect([...named.keys()].sort()).toEqual([cloned, hiding, ignoring, silent, working].map((agent) => agent!.id).sort())

  // The suspension of an agent that continues is not proven, even if it was acknowledged.
  const containment = await until('the proof of all others', look, ({ proven }) => proven >= obedient, patienceMs)
  expect(containment).toMatchObject({ state: 'partial', requested: obedient + 5, confirmed: obedient + 3 })
  expect(containment.proven).toBe(obedient + 1)
  expect(containment.missing.sort()).toEqual([ignoring!.id, silent!.id])
})
