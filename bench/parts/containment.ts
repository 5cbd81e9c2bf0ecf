import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { type AgentsReply, type AgentsTask, agentId } from '../agents.ts'
import { temporaryFolder } from '../cleanup.ts'
import { fillInstances } from '../fill-instances.ts'
import type { ListenersReply, ListenersTask } from '../fleet-listeners.ts'
import { startHelper } from '../helper.ts'
import type { Figure } from '../report.ts'
import { type Service, startService } from '../service.ts'
import { median, quantile } from '../statistics.ts'

export const fleets = [1, 200, 1_000, 2_000]
/** Number of single suspensions per fleet, at most its size. */
const singles = 20
const listeners = 10_000
const acknowledging = 1_000
const acknowledgedRounds = 3
const acknowledgedMaxMs = 250
const deliveredMaxMs = 2_000
const singleMaxMs = 50
/** Heartbeats and events per second during the measurement. */
const backgroundEveryMs = 10
const waitMs = 60_000

const wallMs = () => performance.timeOrigin + performance.now()
const sortedOf = (times: readonly number[]) => Float64Array.from(times).sort()

const stages = ['stored_at', 'published_at', 'delivered_at', 'acknowledged_at'] as const
type Facts = Record<(typeof stages)[number], number | null> & { requested: number }

/** Processes of agents and of suspension requests, and access to the stored stages. */
export interface Fleet {
  service: Service
  /** Process with their control streams. */
  agentsAt: Service
  /** Returns rows of a query without parameters; integers may be text. */
  rows(sql: string): Promise<unknown[]>
}

const onSqlite = (service: Service): Fleet => ({
  service,
  agentsAt: service,
  async rows(sql) {
    const database = new DatabaseSync(join(service.dataDir, 'wardline.db'), { readOnly: true })
    try {
      return database.prepare(sql).all()
    } finally {
      database.close()
    }
  },
})

/** Waits until all suspensions have their last stage, and returns the stages. */
async function readFacts(fleet: Fleet, containment: string | undefined, count: number): Promise<Facts[]> {
  const of = containment ? `= '${containment}'` : 'is null'
  const deadline = performance.now() + waitMs
  for (;;) {
    const read = (await fleet.rows(`select stored_at, published_at, delivered_at, acknowledged_at,
      coalesce(containments.requested_at, suspensions.requested_at) as requested
      from suspensions left join containments on containments.id = suspensions.containment_id
      where suspensions.containment_id ${of}`)) as Record<string, unknown>[]
    const rows = read.map(
      (row) =>
        Object.fromEntries(
          Object.entries(row).map(([name, at]) => [name, at === null ? null : Number(at)]),
        ) as unknown as Facts,
    )
    const isWhole = rows.length >= count && rows.every((row) => stages.every((stage) => row[stage] !== null))
    if (isWhole || performance.now() > deadline) return rows
    await sleep(200)
  }
}

/** `stored 2/3/4 ms`: p50, p95 and p99 of each stage from the request. */
function stageNote(facts: readonly Facts[]): string {
  const texts = stages.map((stage) => {
    const times = sortedOf(facts.flatMap((row) => (row[stage] === null ? [] : [row[stage] - row.requested])))
    const marks = [0.5, 0.95, 0.99].map((p) => quantile(times, p))
    const known = times.length === facts.length ? '' : ` (${times.length} of ${facts.length})`
    return `${stage.replace('_at', '')} ${marks.join('/')}${known}`
  })
  return `p50/p95/p99 in ms: ${texts.join(', ')}`
}

/** Sends heartbeats and events of another agent until stopped. */
function background(service: Service): { stop(): Promise<void>; count(): number } {
  let isOver = false
  let count = 0
  const work = (async () => {
    const id = 'bench-bystander'
    while (!isOver) {
      await service.call('POST', '/api/heartbeat', [200], { instance_id: id, name: id })
      const event = { severity: 'info', source: id, event_type: 'tool_call', description: 'x', instance_id: id }
      await service.call('POST', '/api/events', [201], event)
      count += 1
      await sleep(backgroundEveryMs)
    }
  })()
  return {
    count: () => count,
    stop: async () => {
      isOver = true
      await work
    },
  }
}

async function contain(service: Service, instances: string[] | undefined, count: number): Promise<string> {
  const { text } = await service.call('POST', '/api/containments', [201], {
    action: 'suspend',
    selector: instances ? { instances } : { all: true },
    reason: 'benchmark',
    confirm: `suspend ${count} agents`,
  })
  return JSON.parse(text).id
}

/** Suspends single agents and then all of `count` SDK agents; measures each stage. */
export async function measureFleet(fleet: Fleet, count: number, singleMaxMs?: number): Promise<Figure[]> {
  const { service } = fleet
  const agents = startHelper<AgentsTask, AgentsReply>('./agents.ts')
  const url = `http://127.0.0.1:${fleet.agentsAt.port}`
  await agents.ask({ kind: 'connect', url, key: service.key, agents: count })
  const bystander = background(service)
  const single = Math.min(singles, Math.max(1, Math.floor(count / 10)))
  for (let agent = 0; agent < single; agent++) {
    const aborted = agents.ask({ kind: 'await', agent })
    await service.call('POST', `/api/kill/${agentId(agent)}`, [200], { reason: 'benchmark' })
    await aborted
  }
  const one = await readFacts(fleet, undefined, single)
  const acknowledged = (facts: readonly Facts[]) =>
    sortedOf(facts.flatMap((row) => (row.acknowledged_at === null ? [] : [row.acknowledged_at - row.requested])))
  const figures: Figure[] = [
    {
      name: `one stop among ${count}, acknowledged p99`,
      value: quantile(acknowledged(one), 0.99),
      unit: 'ms',
      ...(singleMaxMs === undefined ? {} : { max: singleMaxMs }),
      sides: [],
      notes: [stageNote(one)],
      faults: one.length === single ? [] : [`${one.length} of ${single} stops were written`],
    },
  ]
  const left = Array.from({ length: count }, (_, n) => agentId(n)).slice(single)
  if (left.length > 0) {
    await service.call('POST', '/api/heartbeat', [200], { instance_id: 'bench-other', name: 'Other' })
    const aborted = agents.ask({ kind: 'await all' })
    const startedAt = wallMs()
    const begun = bystander.count()
    const id = await contain(service, left, left.length)
    const killedAt = performance.now()
    await service.call('POST', '/api/kill/bench-other', [200], { reason: 'meanwhile' })
    const otherMs = performance.now() - killedAt
    const { times } = await aborted
    const facts = await readFacts(fleet, id, left.length)
    const all = acknowledged(facts)
    const aborts = sortedOf(times.slice(single).map((at) => at - startedAt))
    figures.push({
      name: `fleet stop of ${left.length}, all acknowledged`,
      value: all.length === left.length ? all.at(-1)! : Number.NaN,
      unit: 'ms',
      sides: [{ name: 'request to abort', p50Ms: quantile(aborts, 0.5), p99Ms: quantile(aborts, 0.99) }],
      notes: [
        stageNote(facts),
        `a kill of another agent meanwhile was answered after ${otherMs.toFixed(1)} ms; ${bystander.count() - begun} heartbeats and events`,
      ],
      faults: all.length === left.length ? [] : [`${all.length} of ${left.length} acknowledged`],
    })
  }
  await bystander.stop()
  agents.stop()
  return figures
}

/** Starts a service with `count` plain clients on their control streams. */
async function startListeners(count: number, doAcknowledge: boolean) {
  const dataDir = temporaryFolder()
  await (await startService(dataDir)).stop(false)
  fillInstances(dataDir, count)
  const service = await startService(dataDir)
  const clients = startHelper<ListenersTask, ListenersReply>('./fleet-listeners.ts')
  const ids = Array.from({ length: count }, (_, n) => `agent-instance-${n + 1}`)
  const requests = ids.map((id) => service.prepare('GET', `/api/instances/${id}/control`))
  const acks = ids.map((id) => service.prepare('POST', `/api/instances/${id}/ack`, { version: 1 }))
  await clients.ask({ kind: 'listen', port: service.port, requests, ...(doAcknowledge ? { acks } : {}) })
  return { service, clients, ids }
}

/**
 * Time of the service until a fleet has acknowledged, with plain clients: SDK agents take a millisecond each, in a real
 * fleet on other machines, but here on the cores of the service.
 */
async function measureAcknowledged(): Promise<Figure> {
  const rounds: number[] = []
  const notes: string[] = []
  for (let round = 0; round < acknowledgedRounds; round++) {
    const { service, clients, ids } = await startListeners(acknowledging, true)
    // What connecting left behind is written by then.
    await sleep(3_000)
    const facts = await readFacts(onSqlite(service), await contain(service, ids, ids.length), ids.length)
    const all = facts.flatMap((row) => (row.acknowledged_at === null ? [] : [row.acknowledged_at - row.requested]))
    rounds.push(all.length === ids.length ? Math.max(...all) : Number.NaN)
    notes.push(stageNote(facts))
    clients.stop()
    await service.stop()
  }
  return {
    name: `fleet stop, ${acknowledging} plain clients, all acknowledged`,
    value: median(rounds),
    unit: 'ms',
    max: acknowledgedMaxMs,
    sides: [],
    rounds,
    notes,
    faults: rounds.some(Number.isNaN) ? ['not every client acknowledged'] : [],
  }
}

/** Delay until the last of 10,000 plain clients has its message. */
async function measureDelivery(): Promise<Figure> {
  const { service, clients } = await startListeners(listeners, false)
  // What connecting left behind is written by then.
  await sleep(5_000)
  await service.call('POST', '/api/heartbeat', [200], { instance_id: 'bench-other', name: 'Other' })
  const bystander = background(service)
  const delivered = clients.ask({ kind: 'await' })
  const ids = listeners + 2
  await sleep(500)
  const startedAt = wallMs()
  await contain(service, undefined, ids)
  const { times } = await delivered
  const sorted = sortedOf(times.map((at) => at - startedAt))
  await bystander.stop()
  clients.stop()
  await service.stop()
  return {
    name: `fleet stop, ${listeners} streams, all delivered`,
    value: sorted.at(-1)!,
    unit: 'ms',
    max: deliveredMaxMs,
    sides: [{ name: 'request to message', p50Ms: quantile(sorted, 0.5), p99Ms: quantile(sorted, 0.99) }],
    notes: [`${bystander.count()} heartbeats and events meanwhile`],
    faults: [],
  }
}

/** Time until agents have stopped, by stage: one agent of a fleet, and all of it. */
export async function measureContainment(): Promise<Figure[]> {
  const figures: Figure[] = []
  for (const count of fleets) {
    const service = await startService()
    figures.push(...(await measureFleet(onSqlite(service), count, singleMaxMs)))
    await service.stop()
  }
  return [...figures, await measureAcknowledged(), await measureDelivery()]
}
