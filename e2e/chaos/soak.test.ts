import { readdirSync, readFileSync } from 'node:fs'
import { get } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { effort } from '../../test-servers/effort.ts'
import { seededChoices } from '../../test-servers/seeded-draws.ts'
import type { Answer } from '../call.ts'
import { anEvent, beat } from '../fleet.ts'
import { type Inspector, openInspector } from '../inspector.ts'
import { freePort, isExternal, needsOwnProcess, type Service, startService } from '../service.ts'

/** At night an hour, of which the first ten minutes fill the caches. An ordinary run only tests descriptors. */
const minutes = Number(process.env.SOAK_MINUTES ?? effort(0.25, 60))
const minute = 60_000
const warmMs = Math.min(10, minutes / 3) * minute
const maxSlopeMib = 1
/** Below it the samples are too few for a slope of memory. */
const minMinutesForMemory = 20
const sampleEveryMs = minutes < minMinutesForMemory ? 1_000 : 10_000
/** On a busy machine a collection takes seconds. */
const minSamples = 3
const agents = 200
const lanes = 20
/** Agents that keep a control stream open, as the SDK does. */
const listening = 20
const decoyPath = '/srv/soak/.aws/credentials'

/**
 * Taken after a collection in all threads. The young generation of V8 alone grows to 128 MiB and shrinks again with the
 * moments of its collections, which hides a slope, and looks like one.
 */
interface Sample {
  minute: number
  residentMib: number
  heapMib: number
  descriptors: number
}

/** Units a minute, by least squares. */
function slope(samples: readonly Sample[], read: (sample: Sample) => number): number {
  const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
  const [x, y] = [mean(samples.map((sample) => sample.minute)), mean(samples.map(read))]
  const product = samples.reduce((sum, sample) => sum + (sample.minute - x) * (read(sample) - y), 0)
  return product / samples.reduce((sum, sample) => sum + (sample.minute - x) ** 2, 0)
}

async function read(pid: number, inspector: Inspector, atMinute: number): Promise<Sample> {
  const heapMib = (await inspector.collect()) / 2 ** 20
  const residentKib = Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1])
  const descriptors = readdirSync(`/proc/${pid}/fd`).length
  return { minute: atMinute, residentMib: residentKib / 1024, heapMib, descriptors }
}

/** The load of a small fleet whose operators look on: some 130 requests a second. */
function startLoad(service: Service, seed: number) {
  const { between, chance, pick } = seededChoices(seed)
  const end = new AbortController()
  const { signal } = end
  const answers: Record<string, number> = {}
  const count = (what: string) => {
    answers[what] = (answers[what] ?? 0) + 1
  }
  const id = (n: number) => `soak-${n}`
  async function ask(method: string, path: string, body?: unknown): Promise<Answer> {
    const answer = await service.call(method, path, body === undefined ? {} : { body })
    // The disk of a busy machine is slow.
    if (answer.status === 503 || answer.headers['x-error-code'] === 'database') {
      count('busy')
      if (signal.aborted) return answer
      await pause(1_000)
      return ask(method, path, body)
    }
    count(answer.status < 300 ? 'answered' : `${method} ${path}: ${answer.status} ${answer.text.slice(0, 200)}`)
    return answer
  }

  async function every(ms: number, act: () => Promise<unknown>): Promise<void> {
    while (!signal.aborted) {
      const startedAt = performance.now()
      await act()
      await pause(Math.max(0, ms - (performance.now() - startedAt)), undefined, { signal }).catch(() => {})
    }
  }

  /** An event of an agent; sessions end, and every tenth event is a report of measured values. */
  function eventOf(n: number, turn: number) {
    const about = { instance_id: id(n), session_id: `${id(n)}-${Math.floor(turn / 30)}`, source: id(n) }
    if (turn % 10 === 0) {
      const description = JSON.stringify({ tool_calls_per_5min: between(3, 30), shell_exec_count: between(0, 4) })
      return anEvent({ ...about, event_type: 'session_metrics', description })
    }
    const toolName = pick(['web-search', 'file-read', 'http-request', 'shell-exec'])
    const severity = chance(0.02) ? 'critical' : chance(0.1) ? 'warning' : 'info'
    const metadata = { toolName, path: `/srv/${between(1, 5_000)}`, host: `${between(1, 500)}.example.com` }
    return anEvent({ ...about, severity, event_type: 'tool_call', metadata })
  }

  async function lane(first: number): Promise<void> {
    let turn = 0
    await every(500, async () => {
      const n = first + lanes * (turn % (agents / lanes))
      turn += 1
      await ask('POST', '/api/heartbeat', { instance_id: id(n), name: id(n), version: '1.0.0', boot_id: `boot-${n}` })
      await ask('GET', `/api/instances/${id(n)}/status`)
      await ask('POST', '/api/events', eventOf(n, turn))
      if (turn % 5 === 0)
        await ask('POST', '/api/honeypots/check/path', { path: `/srv/${between(1, 5_000)}`, meta: {} })
    })
  }

  /** Reads a stream to no end; now and then the connection is lost and the stream is resumed. */
  async function follow(path: string, lostAfterMs: number): Promise<void> {
    let lastId: string | undefined
    while (!signal.aborted) {
      await new Promise<void>((resolve) => {
        const headers = { 'x-monitor-key': service.key, ...(lastId === undefined ? {} : { 'last-event-id': lastId }) }
        const request = get(`${service.baseUrl}${path}`, { headers, agent: false }, (response) => {
          count(`stream ${response.statusCode}`)
          response.setEncoding('utf8')
          response.on('data', (text: string) => {
            lastId = /^id: ?(.+)$/m.exec(text)?.[1] ?? lastId
          })
        })
        const lose = () => request.destroy()
        const timer = setTimeout(lose, lostAfterMs)
        signal.addEventListener('abort', lose)
        request.on('error', () => {})
        request.on('close', () => {
          clearTimeout(timer)
          signal.removeEventListener('abort', lose)
          resolve()
        })
      })
    }
  }

  async function operate(): Promise<void> {
    await every(2_000, async () => {
      const target = id(between(0, agents - 1))
      await ask('POST', `/api/kill/${target}`, { reason: 'Soak' })
      const { headers } = await ask('GET', `/api/instances/${target}/status`)
      const version = Number(/version=(\d+)/.exec(String(headers['x-wardline-control']))?.[1])
      await ask('POST', `/api/instances/${target}/ack`, { version })
      await ask('POST', `/api/resume/${target}`)
    })
  }

  async function look(): Promise<void> {
    const places = ['status', 'fleet', 'alerts', 'events?limit=100', 'problems', 'suspension-counts', 'events/facets']
    let turn = 0
    await every(1_000, () => ask('GET', `/api/${places[turn++ % places.length]}`))
  }

  const running = Promise.all([
    ...Array.from({ length: lanes }, (_, n) => lane(n)),
    ...Array.from({ length: listening }, (_, n) => follow(`/api/instances/${id(n)}/control`, 60_000 + n * 5_000)),
    follow('/api/stream', 600_000),
    follow('/api/stream?include=control', 45_000),
    operate(),
    look(),
  ])
  return {
    answers,
    running,
    async stop() {
      end.abort()
      await running
    },
  }
}

test.skipIf(isExternal || process.platform !== 'linux')(
  isExternal ? needsOwnProcess : 'a steady load takes no more memory and descriptors as time passes',
  async () => {
    const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
    const inspectorPort = await freePort()
    const service = await startService({ env: { NODE_OPTIONS: `--inspect=127.0.0.1:${inspectorPort}` } })
    try {
      const pid = service.pid()!
      const inspector = await openInspector(inspectorPort)
      for (let n = 0; n < agents; n++) await beat(service, `soak-${n}`)
      const decoy = { instanceId: 'soak-0', type: 'file_path', path: decoyPath }
      expect((await service.call('POST', '/api/honeypots', { body: decoy })).status).toBe(201)
      const load = startLoad(service, seed)
      const startedAt = performance.now()
      const elapsed = () => performance.now() - startedAt
      const samples: Sample[] = []
      const sampleUntil = async (ms: number, atLeast: number) => {
        while (elapsed() < ms || samples.length < atLeast) {
          await Promise.race([pause(sampleEveryMs), load.running])
          samples.push(await read(pid, inspector, elapsed() / minute))
          if (process.env.SOAK_MINUTES) console.log(JSON.stringify(samples.at(-1)))
        }
      }
      await sampleUntil(warmMs, minSamples)
      const warmSamples = samples.length
      await sampleUntil(minutes * minute, warmSamples + minSamples)
      await load.stop()
      inspector.close()

      const steady = samples.slice(warmSamples)
      const resident = slope(steady, ({ residentMib }) => residentMib)
      const heap = slope(steady, ({ heapMib }) => heapMib)
      const open = steady.map(({ descriptors }) => descriptors)
      const [first, last] = [steady[0]!, steady.at(-1)!]
      console.log(
        [
          `seed ${seed}: ${minutes} minutes, ${JSON.stringify(load.answers)}`,
          `resident ${first.residentMib.toFixed(0)} to ${last.residentMib.toFixed(0)} MiB, ${resident.toFixed(2)} a minute`,
          `heap ${first.heapMib.toFixed(1)} to ${last.heapMib.toFixed(1)} MiB, ${heap.toFixed(2)} a minute`,
          `descriptors ${Math.min(...open)} to ${Math.max(...open)}`,
        ].join('; '),
      )
      expect(Object.keys(load.answers).filter((what) => !['answered', 'busy', 'stream 200'].includes(what))).toEqual([])
      const third = Math.floor(open.length / 3)
      expect(Math.max(...open.slice(-third))).toBeLessThanOrEqual(Math.max(...open.slice(0, third)) + 2)
      if (minutes >= minMinutesForMemory) {
        expect(resident).toBeLessThanOrEqual(maxSlopeMib)
        expect(heap).toBeLessThanOrEqual(maxSlopeMib)
      }
      expect(service.pid()).toBe(pid)
      const faults = service
        .logs()
        .split('\n')
        .filter((line) => /unhandled|"level":(?:50|60)/.test(line))
      expect(faults.filter((line) => !line.includes('the database failed'))).toEqual([])
    } finally {
      await service.stop()
    }
  },
  (minutes + 10) * minute,
)
