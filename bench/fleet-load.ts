import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { seededDraws } from '../test-servers/seeded-draws.ts'
import { eventBody } from './events.ts'
import { answerTasks } from './helper.ts'
import { requestText } from './request.ts'
import { quantile } from './statistics.ts'

/**
 * A fleet that keeps its pace whatever the answers take: each agent sends a heartbeat a minute, a poll every 30 seconds
 * and an event a minute, at random moments. Requests go over as many kept connections as are needed.
 */
export type FleetTask = { port: number; key: string; agents: number; seconds: number }

/** Latencies in milliseconds from the moment at which a request was due. `statuses` counts the answers. */
export type FleetReply = {
  perSecond: number
  p50Ms: number
  p99Ms: number
  maxMs: number
  connections: number
  generatorCpu: number
  statuses: Record<string, number>
}

export const fleetAgentId = (n: number): string => `agent-instance-${n + 1}`

const minuteMs = 60_000
const tickMs = 2
/** Beyond it requests wait, as they would with a load balancer. */
const maxConnections = 4_000
const drainMs = 10_000

/** Agents in the order of their moments within the period. */
class Cycle {
  readonly periodMs: number
  readonly #moments: Float64Array
  readonly #agents: Uint32Array
  #next = 0
  #turn = 0

  constructor(agents: number, periodMs: number, random: () => number) {
    this.periodMs = periodMs
    const moments = Float64Array.from({ length: agents }, () => random() * periodMs)
    this.#agents = Uint32Array.from({ length: agents }, (_, n) => n).sort((a, b) => moments[a]! - moments[b]!)
    this.#moments = moments
  }

  *due(now: number): Generator<[agent: number, at: number]> {
    for (;;) {
      const agent = this.#agents[this.#next]!
      const at = this.#turn * this.periodMs + this.#moments[agent]!
      if (at > now) return
      this.#next += 1
      if (this.#next === this.#agents.length) {
        this.#next = 0
        this.#turn += 1
      }
      yield [agent, at]
    }
  }
}

async function runFleet({ port, key, agents, seconds }: FleetTask): Promise<FleetReply> {
  // The same moments in each run.
  const random = seededDraws(agents)
  const headers = { 'X-Monitor-Key': key }
  const kinds = [
    {
      cycle: new Cycle(agents, minuteMs, random),
      text: (agent: number) =>
        requestText(port, 'POST', '/api/heartbeat', headers, {
          instance_id: fleetAgentId(agent),
          name: `Bench agent ${agent + 1}`,
          agent_type: 'researcher',
          version: '1.2.3',
        }),
    },
    {
      cycle: new Cycle(agents, minuteMs / 2, random),
      text: (agent: number) => requestText(port, 'GET', `/api/instances/${fleetAgentId(agent)}/status`, headers),
    },
    {
      cycle: new Cycle(agents, minuteMs, random),
      text: (agent: number) =>
        requestText(port, 'POST', '/api/events', headers, {
          ...eventBody(agent * 64, 322),
          instance_id: fleetAgentId(agent),
        }),
    },
  ]
  const statuses: Record<string, number> = {}
  const count = (status: string) => {
    statuses[status] = (statuses[status] ?? 0) + 1
  }
  let latencies = new Float64Array(1 << 20)
  let answers = 0
  let under = 0
  let opened = 0
  const idle: { socket: Socket; dueAt: number }[] = []
  const waiting: { text: string; dueAt: number }[] = []
  const startedAt = performance.now()
  const sinceStart = () => performance.now() - startedAt

  function open(): { socket: Socket; dueAt: number } {
    opened += 1
    const connection = { socket: connect({ port, host: '127.0.0.1', noDelay: true }), dueAt: 0 }
    connection.socket.on('data', (chunk) => {
      // Answers of this fleet are short: each arrives whole.
      count(chunk.toString('latin1', 9, 12))
      if (answers === latencies.length) {
        const larger = new Float64Array(2 * latencies.length)
        larger.set(latencies)
        latencies = larger
      }
      latencies[answers++] = sinceStart() - connection.dueAt
      under -= 1
      const next = waiting.shift()
      if (next) send(connection, next.text, next.dueAt)
      else idle.push(connection)
    })
    connection.socket.on('error', (error) => count(`connection: ${error.message}`))
    return connection
  }

  function send(connection: { socket: Socket; dueAt: number }, text: string, dueAt: number): void {
    under += 1
    connection.dueAt = dueAt
    connection.socket.write(text)
  }

  const cpuBefore = process.cpuUsage()
  while (sinceStart() < seconds * 1000) {
    for (const { cycle, text } of kinds) {
      for (const [agent, dueAt] of cycle.due(sinceStart())) {
        const connection = idle.pop() ?? (opened < maxConnections ? open() : undefined)
        if (connection) send(connection, text(agent), dueAt)
        else waiting.push({ text: text(agent), dueAt })
      }
    }
    await sleep(tickMs)
  }
  const wallMs = sinceStart()
  const cpu = process.cpuUsage(cpuBefore)
  while (under + waiting.length > 0 && sinceStart() < wallMs + drainMs) await sleep(10)
  if (under + waiting.length > 0) statuses['no answer'] = under + waiting.length
  for (const { socket } of idle) socket.destroy()
  const sorted = latencies.subarray(0, answers).sort()
  return {
    perSecond: (answers * 1000) / wallMs,
    p50Ms: quantile(sorted, 0.5),
    p99Ms: quantile(sorted, 0.99),
    maxMs: quantile(sorted, 1),
    connections: opened,
    generatorCpu: (cpu.user + cpu.system) / 1000 / wallMs,
    statuses,
  }
}

answerTasks(runFleet)
