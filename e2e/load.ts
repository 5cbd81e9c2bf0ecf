import { Agent, request } from 'node:http'
import type { Service } from './service.ts'

export interface LoadOptions {
  path: string
  key: string
  body: string | Buffer
  connections: number
  /** Whether to send another request. */
  goesOn(sent: number): boolean
}

export interface LoadResult {
  /** Number of responses by status; 0: the connection failed. */
  statuses: Record<number, number>
  /** Number of 429 and 503 responses without a Retry-After of at least one second. */
  withoutRetry: number
}

/** Repeats a request over several connections; each sends the next one when it has the response. */
export async function load({ baseUrl }: Service, options: LoadOptions): Promise<LoadResult> {
  const { path, key, body, connections, goesOn } = options
  const { hostname, port } = new URL(baseUrl)
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  const headers = {
    'x-monitor-key': key,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  }
  const result: LoadResult = { statuses: {}, withoutRetry: 0 }
  let sent = 0

  const once = () =>
    new Promise<void>((resolve) => {
      const count = (status: number) => {
        result.statuses[status] = (result.statuses[status] ?? 0) + 1
        resolve()
      }
      const outgoing = request({ hostname, port, method: 'POST', path, headers, agent }, (response) => {
        const status = response.statusCode ?? 0
        const isRefusal = status === 429 || status === 503
        if (isRefusal && !(Number(response.headers['retry-after']) >= 1)) result.withoutRetry += 1
        response.resume()
        response.once('end', () => count(status))
        response.once('error', () => count(0))
      })
      outgoing.once('error', () => count(0))
      outgoing.end(body)
    })

  await Promise.all(
    Array.from({ length: connections }, async () => {
      while (goesOn(sent)) {
        sent += 1
        await once()
      }
    }),
  )
  agent.destroy()
  return result
}

/** Sums the results of several loads. */
export function totalStatuses(results: readonly LoadResult[]): Record<number, number> {
  const total: Record<number, number> = {}
  for (const { statuses } of results) {
    for (const [status, count] of Object.entries(statuses)) total[Number(status)] = (total[Number(status)] ?? 0) + count
  }
  return total
}
