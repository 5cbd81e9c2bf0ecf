import { setTimeout as sleep } from 'node:timers/promises'
import type { BareReply, BareTask } from '../bare-server.ts'
import { eventBody } from '../events.ts'
import { startHelper } from '../helper.ts'
import { openFileLimit } from '../machine.ts'
import type { Figure, Side } from '../report.ts'
import { requestText } from '../request.ts'
import { pairedRounds } from '../rounds.ts'
import { residentKiB, startService } from '../service.ts'
import { median } from '../statistics.ts'
import type { StreamReply, StreamTask } from '../stream-clients.ts'

const clientCount = 5_000
const spareFiles = 200
const warmEventCount = 3
const eventCount = 15
const settleMs = 3_000

/** From the POST of an event until the last of 5,000 clients has it, compared with a write loop; memory per client. */
export async function measureStream(): Promise<Figure[]> {
  const clients = Math.min(clientCount, openFileLimit() - spareFiles)
  const notes = clients < clientCount ? [`only ${clients} clients: raise the limit of open files (ulimit -n)`] : []
  const service = await startService()
  const bare = startHelper<BareTask, BareReply>('./bare-server.ts')
  const { port } = await bare.ask({ kind: 'stream' })

  const serviceClients = await openClients(service.pid, service.port, clients)
  const bareClients = await openClients(bare.pid, port, clients)
  const faults = [...serviceClients.faults, ...bareClients.faults]

  let event = 0
  async function fire(side: typeof serviceClients, prepare: (body: unknown) => string): Promise<StreamReply> {
    // One lost event invalidates the figure, so the others need not be awaited.
    if (faults.length > 0) return { p50Ms: Number.NaN, p99Ms: Number.NaN, lastMs: Number.NaN, faults: [] }
    const marker = `marker-${String(event++).padStart(6, '0')}-end`
    const body = { ...eventBody(0, 322), description: `An event on its way to every client: ${marker}` }
    const reply = await side.helper.ask({ kind: 'fire', port: side.port, request: prepare(body), marker })
    faults.push(...reply.faults.map((fault) => `${side === bareClients ? 'bare' : 'service'}: ${fault}`))
    return reply
  }
  const fireService = () => fire(serviceClients, (body) => service.prepare('POST', '/api/events', body))
  const fireBare = () => fire(bareClients, (body) => requestText(port, 'POST', '/api/events', {}, body))

  await pairedRounds(warmEventCount, fireService, fireBare)
  const pairs = await pairedRounds(eventCount, fireService, fireBare)
  const rounds = pairs.map((pair) => pair.a.lastMs / pair.b.lastMs)
  serviceClients.helper.stop()
  bareClients.helper.stop()
  bare.stop()
  await service.stop()
  return [
    {
      name: `POST to the last of ${clients} clients`,
      value: median(rounds),
      unit: '× bare',
      max: 1.5,
      sides: [
        ...arrival(
          'service',
          pairs.map((pair) => pair.a),
        ),
        ...arrival(
          'bare',
          pairs.map((pair) => pair.b),
        ),
      ],
      rounds,
      notes,
      faults,
    },
    {
      name: 'memory per client',
      value: serviceClients.KiB,
      unit: 'KiB',
      max: 15,
      sides: [{ name: 'bare node:http', KiB: bareClients.KiB }],
      notes,
      faults: [...serviceClients.faults],
    },
  ]
}

/** Opens the clients of a server and measures its memory before and after, in KiB per client. */
async function openClients(pid: number, port: number, clients: number) {
  const helper = startHelper<StreamTask, StreamReply>('./stream-clients.ts')
  await sleep(settleMs)
  const before = residentKiB(pid)
  const request = requestText(port, 'GET', '/api/stream', { Accept: 'text/event-stream' })
  const opened = await helper.ask({ kind: 'open', port, request, clients })
  await sleep(settleMs)
  return { helper, port, KiB: (residentKiB(pid) - before) / clients, faults: opened.faults }
}

/** Median client and last client: medians over the events. */
function arrival(name: string, replies: StreamReply[]): Side[] {
  const last = replies.map((reply) => reply.lastMs)
  return [
    {
      name: `${name}, client`,
      p50Ms: median(replies.map((reply) => reply.p50Ms)),
      p99Ms: median(replies.map((reply) => reply.p99Ms)),
    },
    { name: `${name}, last`, p50Ms: median(last), p99Ms: Math.max(...last) },
  ]
}
