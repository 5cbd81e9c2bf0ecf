import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { AttackReply, AttackTask } from '../attacker.ts'
import { eventBody, instanceId } from '../events.ts'
import { fillEvents } from '../fill-events.ts'
import { startHelper } from '../helper.ts'
import type { Figure } from '../report.ts'
import { requestText } from '../request.ts'
import { residentKiB, type Service, startService } from '../service.ts'
import { quantile } from '../statistics.ts'

const eventCount = 1_000_000
const instanceCount = 5_000
const seconds = 6
const warmSeconds = 1
/** Pause between two rounds of requests of an operator and an agent. */
const pauseMs = 10

interface Attack {
  name: string
  task: Omit<AttackTask, 'port' | 'seconds'>
  /** Targets in milliseconds of p99. */
  killMs: number
  agentMs?: number
}

type Kind = 'kill' | 'poll' | 'check' | 'report'

/** Latency of a kill and of an honest agent's requests while a caller with few or no permissions floods the service. */
export async function measureAttacks(): Promise<Figure[]> {
  const service = await filledService()
  const attacker = startHelper<AttackTask, AttackReply>('./attacker.ts')
  const figures: Figure[] = []
  for (const attack of await listAttacks(service)) {
    const before = residentKiB(service.pid)
    const attacking = attacker.ask({ ...attack.task, port: service.port, seconds: seconds + warmSeconds })
    await sleep(warmSeconds * 1000)
    const { times, faults } = await liveOn(service)
    const { statuses } = await attacking
    const grownMiB = (residentKiB(service.pid) - before) / 1024
    const answers = Object.entries(statuses).map(([status, count]) => `${count} × ${status}`)
    const notes = [`the attack was answered ${answers.join(', ')}; memory grew by ${grownMiB.toFixed(0)} MiB`]
    for (const [kind, max] of [
      ['kill', attack.killMs],
      ['poll', attack.agentMs],
      ['check', attack.agentMs],
      ['report', attack.agentMs],
    ] as const) {
      const sorted = Float64Array.from(times[kind]).sort()
      figures.push({
        name: `${kind} p99, ${attack.name}`,
        value: quantile(sorted, 0.99),
        unit: 'ms',
        ...(max === undefined ? {} : { max }),
        sides: [{ name: `${sorted.length} requests`, p50Ms: quantile(sorted, 0.5), p99Ms: quantile(sorted, 0.99) }],
        notes: kind === 'kill' ? notes : [],
        faults: kind === 'kill' ? faults : [],
      })
    }
    await sleep(1_000)
  }
  attacker.stop()
  await service.stop()
  return figures
}

async function filledService(): Promise<Service> {
  const empty = await startService()
  await empty.stop(false)
  fillEvents(empty.dataDir, eventCount)
  const service = await startService(empty.dataDir)
  for (let n = 0; n < instanceCount; n++) {
    await service.call('POST', '/api/heartbeat', [200], { instance_id: instanceId(n), name: `Bench agent ${n}` })
  }
  await service.call('POST', '/api/honeypots', [201], {
    instanceId: instanceId(0),
    type: 'api_key',
    keyType: 'generic',
  })
  await service.call('POST', '/api/honeypots', [201], {
    instanceId: instanceId(0),
    type: 'file_path',
    path: '/home/*/.aws/credentials',
  })
  return service
}

async function createKey(service: Service, body: { scope: string; instances?: string[] }): Promise<string> {
  const { text } = await service.call('POST', '/api/keys', [201], { ...body, name: 'of the attacker' })
  return (JSON.parse(text) as { key: string }).key
}

async function listAttacks(service: Service): Promise<Attack[]> {
  const viewer = { 'X-Monitor-Key': await createKey(service, { scope: 'viewer' }) }
  const agent = { 'X-Monitor-Key': await createKey(service, { scope: 'agent', instances: ['attacker'] }) }
  const text = (method: string, path: string, headers: Record<string, string>, body?: unknown) =>
    requestText(service.port, method, path, headers, body)
  const path = {
    path: 'cd a;'.repeat(819),
    meta: { cwd: `/home/x/${'y/'.repeat(1900)}`, realPath: `/r/${'z/'.repeat(1900)}` },
  }
  const breaches = Array.from({ length: 64 }, (_, n) => ({
    ...eventBody(n, 322),
    severity: 'breach',
    event_type: `invented_${n}`,
    instance_id: 'attacker',
  }))
  return [
    { name: 'quiet', killMs: 50, agentMs: 50, task: { connections: 0, requests: [] } },
    {
      name: '40 searches by a viewer',
      killMs: 50,
      agentMs: 50,
      task: { connections: 40, requests: [text('GET', '/api/events?q=zzzz&limit=1000', viewer)] },
    },
    {
      name: '40 × status by a viewer',
      killMs: 100,
      task: { connections: 40, requests: [text('GET', '/api/status', viewer)] },
    },
    {
      name: '60 replays without a key',
      killMs: 50,
      task: { connections: 60, streams: true, requests: [text('GET', '/api/stream', { 'Last-Event-ID': '1' })] },
    },
    {
      name: '20 heavy path checks by an agent',
      killMs: 100,
      task: { connections: 20, requests: [text('POST', '/api/honeypots/check/path', agent, path)] },
    },
    {
      name: '64 × breaches by an agent',
      killMs: 250,
      task: { connections: 64, requests: breaches.map((body) => text('POST', '/api/events', agent, body)) },
    },
    {
      name: '64 × bad keys',
      killMs: 100,
      task: {
        connections: 64,
        requests: Array.from({ length: 64 }, (_, n) =>
          text('GET', '/api/status', { 'X-Monitor-Key': `wl_admin_${String(n).padStart(8, '0')}_no` }),
        ),
      },
    },
  ]
}

/** Sends kills, resumes and requests of honest agents for some seconds. */
async function liveOn(service: Service): Promise<{ times: Record<Kind, number[]>; faults: string[] }> {
  const agent = new Agent({ keepAlive: true })
  const times: Record<Kind, number[]> = { kill: [], poll: [], check: [], report: [] }
  const faults = new Map<string, number>()
  const call = async (kind: Kind, status: number, method: string, path: string, body?: unknown) => {
    const startedAt = performance.now()
    const answered = await ask(service, agent, method, path, body)
    times[kind].push(performance.now() - startedAt)
    if (answered === status) return
    const fault = `${method} ${path.split('/').slice(0, 4).join('/')} was answered ${answered}`
    faults.set(fault, (faults.get(fault) ?? 0) + 1)
  }
  const until = performance.now() + seconds * 1000
  for (let n = 0; performance.now() < until; n++) {
    const id = instanceId(n % 100)
    await Promise.all([
      call('kill', 200, 'POST', `/api/kill/${id}`, { reason: 'benchmark' }),
      call('poll', 200, 'GET', `/api/instances/${instanceId((n % 100) + 100)}/status`),
      call('check', 200, 'POST', '/api/honeypots/check/key', { key: `no decoy ${n}` }),
      call('report', 201, 'POST', '/api/events', eventBody(n, 322)),
    ])
    await call('kill', 200, 'POST', `/api/resume/${id}`)
    await sleep(pauseMs)
  }
  agent.destroy()
  return { times, faults: [...faults].map(([fault, count]) => `${count} × ${fault}`) }
}

function ask(service: Service, agent: Agent, method: string, path: string, body?: unknown): Promise<number> {
  return new Promise((resolve, reject) => {
    const text = body === undefined ? undefined : JSON.stringify(body)
    const headers = {
      'X-Monitor-Key': service.key,
      ...(text === undefined ? {} : { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) }),
    }
    const asked = request({ port: service.port, host: '127.0.0.1', method, path, headers, agent }, (response) => {
      response.resume()
      response.on('end', () => resolve(response.statusCode ?? 0))
    })
    asked.on('error', reject)
    asked.end(text)
  })
}
