import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { effort } from '../test-servers/effort.ts'

/** Ids of a message and of its event. */
export interface Taken {
  id: string
  event: string
}

/** Starts a receiver that fails 30 % of the requests, lets 10 % hang, and records the accepted ones. */
export async function startFlakyReceiver(random: () => number) {
  const taken: Taken[] = []
  const counts = { requests: 0, failed: 0, hung: 0 }
  let isHealthy = false
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = await request.toArray().catch(() => [])
    const text = Buffer.concat(chunks).toString()
    if (text === '') return
    const body = JSON.parse(text)
    if (body.type.startsWith('channel.')) return response.end()
    counts.requests += 1
    const luck = isHealthy ? 1 : random()
    if (luck < 0.1) {
      counts.hung += 1
      return
    }
    if (luck < 0.4) {
      counts.failed += 1
      return response.writeHead(500).end('out of luck')
    }
    taken.push({ id: String(request.headers['webhook-id']), event: body.data.id })
    return response.end('ok')
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    taken,
    counts,
    recover: () => {
      isHealthy = true
    },
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

/** Messages that a process sends concurrently; those delivered but not recorded when it is killed are sent again. */
const sentAtOnce = 8

/** Maximum number of alerts that may arrive twice. On a quiet machine most are recorded before the next kill. */
export const maxDoubles = (kills: number, alerts: number) => effort(sentAtOnce * kills, alerts * 0.05)

/** Returns acknowledged events that did not arrive, that arrived more than once, and that did so with another id. */
export function judge(acknowledged: readonly string[], taken: readonly Taken[]) {
  const ids = new Map<string, string>()
  const strangers: Taken[] = []
  for (const { event, id } of taken) {
    if (!ids.has(event)) ids.set(event, id)
    else if (ids.get(event) !== id) strangers.push({ event, id })
  }
  return { lost: acknowledged.filter((id) => !ids.has(id)), strangers, doubles: taken.length - ids.size }
}
