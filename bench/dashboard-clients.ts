import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { answerTasks } from './helper.ts'

/** Simulates open dashboards without a browser: each has a stream and sends the requests of an open overview. */
export type DashboardsTask =
  | { kind: 'open'; port: number; key: string; count: number; asks: { path: string; everyMs: number }[] }
  | { kind: 'close' }

export type DashboardsReply = { answers: number; streamedBytes: number; faults: string[] }

/** Several local addresses, because a server may limit streams per address. On Linux all of 127.0.0.0/8 is local. */
const perAddress = 50

const faults = new Map<string, number>()
let answers = 0
let streamedBytes = 0
let end = new AbortController()

const note = (fault: string) => faults.set(fault, (faults.get(fault) ?? 0) + 1)

interface Dashboard {
  port: number
  key: string
  localAddress: string
}

function get({ port, key, localAddress }: Dashboard, agent: Agent | false, path: string): Promise<void> {
  const headers = { 'X-Monitor-Key': key, 'Accept-Encoding': 'gzip, br' }
  const { signal } = end
  return new Promise((resolve) => {
    const call = request({ port, host: '127.0.0.1', localAddress, agent, path, headers }, (response) => {
      if (response.statusCode !== 200) note(`${path}: ${response.statusCode}`)
      response.on('data', (chunk: Buffer) => {
        if (agent === false) streamedBytes += chunk.length
      })
      response.on('close', resolve)
      if (agent !== false) answers += 1
    })
    call.on('error', (fault) => {
      if (!signal.aborted) note(`${path}: ${fault.message}`)
      resolve()
    })
    signal.addEventListener('abort', () => call.destroy(), { once: true })
    call.end()
  })
}

async function ask(dashboard: Dashboard, agent: Agent, path: string, everyMs: number, share: number): Promise<void> {
  const { signal } = end
  const pause = (ms: number) => sleep(ms, undefined, { signal }).catch(() => {})
  // Dashboards were opened at different times.
  await pause(everyMs * share)
  while (!signal.aborted) {
    const startedAt = performance.now()
    await get(dashboard, agent, path)
    await pause(Math.max(0, everyMs - (performance.now() - startedAt)))
  }
}

answerTasks<DashboardsTask, DashboardsReply>((task) => {
  if (task.kind === 'close') {
    end.abort()
    const reply = { answers, streamedBytes, faults: [...faults].map(([text, count]) => `${count} × ${text}`) }
    end = new AbortController()
    answers = 0
    streamedBytes = 0
    faults.clear()
    return reply
  }
  const { port, key, count, asks } = task
  for (let index = 0; index < count; index++) {
    const dashboard = { port, key, localAddress: `127.0.1.${1 + Math.floor(index / perAddress)}` }
    const agent = new Agent({ keepAlive: true, maxSockets: 5 })
    end.signal.addEventListener('abort', () => agent.destroy(), { once: true })
    void get(dashboard, false, '/api/stream?include=control')
    for (const { path, everyMs } of asks) void ask(dashboard, agent, path, everyMs, index / count)
  }
  return { answers: 0, streamedBytes: 0, faults: [] }
})
