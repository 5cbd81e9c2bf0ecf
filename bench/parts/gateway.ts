import { readFileSync, writeFileSync } from 'node:fs'
import { Agent, type IncomingMessage, request as startRequest } from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { temporaryFolder } from '../cleanup.ts'
import { startHelper } from '../helper.ts'
import type { ModelServerTask } from '../model-server.ts'
import type { Figure } from '../report.ts'
import { freePort, type Service, startService } from '../service.ts'
import { median, preciseNow, quantile } from '../statistics.ts'

const parallel = 500
const eventCount = 20
const eventEveryMs = 100
const rounds = 3
const idle = 5_000
const instance = 'bench-model-agent'

const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY })

/** Opens a stream; resolves with its answer once the head has arrived. */
function open(port: number, headers: Record<string, string>, query: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const path = `/openai/v1/chat/completions?${query}`
    const call = startRequest({ agent, port, host: '127.0.0.1', method: 'POST', path, headers }, resolve)
    call.on('error', reject)
    call.end('{"model":"bench","stream":true}')
  })
}

/** Returns milliseconds from the provider to the client for each event of 500 parallel streams. */
async function delaysOf(
  port: number,
  headers: Record<string, string>,
): Promise<{ delays: number[]; faults: string[] }> {
  const delays: number[] = []
  const faults: string[] = []
  const streams = Array.from({ length: parallel }, async () => {
    const answer = await open(port, headers, `events=${eventCount}&everyMs=${eventEveryMs}`)
    if (answer.statusCode !== 200) faults.push(`a call was answered with ${answer.statusCode}`)
    answer.on('data', (chunk: Buffer) => {
      const now = preciseNow()
      for (const [, at] of chunk.toString().matchAll(/^data: (\d+\.?\d*)$/gm)) delays.push(now - Number(at))
    })
    await new Promise((resolve) => answer.on('close', resolve))
  })
  await Promise.all(streams)
  return { delays, faults }
}

/** What the gateway adds to each event, against a proxy that does nothing else; cuts after a kill; memory. */
export async function measureGateway(): Promise<Figure[]> {
  const provider = startHelper<ModelServerTask, { port: number }>('model-server.ts')
  const proxy = startHelper<ModelServerTask, { port: number }>('model-server.ts')
  const { port: providerPort } = await provider.ask({ kind: 'provider' })
  const { port: barePort } = await proxy.ask({ kind: 'proxy', port: providerPort })
  const port = await freePort()
  const file = join(temporaryFolder(), 'gateway.yaml')
  const url = `http://127.0.0.1:${providerPort}/v1`
  writeFileSync(file, JSON.stringify({ upstreams: { openai: { kind: 'openai', url, key_env: 'BENCH_MODEL_KEY' } } }))
  const service = await startService(undefined, {
    WARDLINE_GATEWAY_PORT: String(port),
    WARDLINE_GATEWAY_FILE: file,
    BENCH_MODEL_KEY: 'bench',
  })
  const created = await service.call('POST', '/api/keys', [201], {
    scope: 'agent',
    name: 'Bench model agent',
    instances: [instance],
  })
  const headers = { authorization: `Bearer ${JSON.parse(created.text).key}` }
  try {
    return [
      ...(await overhead(barePort, port, headers)),
      await cuts(service, port, headers),
      await memory(service, port, headers),
    ]
  } finally {
    provider.stop()
    proxy.stop()
    await service.stop()
  }
}

async function overhead(barePort: number, port: number, headers: Record<string, string>): Promise<Figure[]> {
  const faults: string[] = []
  const sides: { bare: Float64Array; gateway: Float64Array }[] = []
  for (let round = 0; round <= rounds; round++) {
    const bare = await delaysOf(barePort, headers)
    const gateway = await delaysOf(port, headers)
    faults.push(...bare.faults, ...gateway.faults)
    // The first round opens the connections.
    if (round > 0)
      sides.push({ bare: Float64Array.from(bare.delays).sort(), gateway: Float64Array.from(gateway.delays).sort() })
  }
  const at = (side: 'bare' | 'gateway', p: number) => median(sides.map((round) => quantile(round[side], p)))
  return [
    [0.5, 2],
    [0.99, 10],
  ].map(([p, max]) => ({
    name: `overhead of an event, p${p! * 100}`,
    value: Math.max(0, at('gateway', p!) - at('bare', p!)),
    unit: 'ms',
    max: max!,
    sides: (['gateway', 'bare'] as const).map((side) => ({
      name: side === 'bare' ? 'bare proxy' : side,
      p50Ms: at(side, 0.5),
      p99Ms: at(side, 0.99),
    })),
    rounds: sides.map(({ bare, gateway }) => quantile(gateway, p!) - quantile(bare, p!)),
    notes: [`${parallel} parallel streams, an event each ${eventEveryMs} ms`],
    faults,
  }))
}

/**
 * From the request of a kill until the error that ends it arrives at each of 500 open streams of the agent, and until
 * their connections are closed, which includes what this process does with 500 broken connections.
 */
async function cuts(service: Service, port: number, headers: Record<string, string>): Promise<Figure> {
  const faults: string[] = []
  const answers = await Promise.all(Array.from({ length: parallel }, () => open(port, headers, 'events=0')))
  let startedAt = 0
  const cutAt: number[] = []
  const closed = answers.map((answer) => {
    if (answer.statusCode !== 200) faults.push(`a call was answered with ${answer.statusCode}`)
    answer.on('data', (chunk: Buffer) => {
      if (chunk.includes('suspended')) cutAt.push(performance.now() - startedAt)
    })
    // What the client sees of a cut is an error.
    answer.on('error', () => {})
    return new Promise<number>((resolve) => answer.on('close', () => resolve(performance.now() - startedAt)))
  })
  startedAt = performance.now()
  await service.call('POST', `/api/kill/${instance}`, [200], { reason: 'bench' })
  const closedAt = await Promise.all(closed)
  if (cutAt.length < parallel) faults.push(`only ${cutAt.length} streams ended with the error`)
  await service.call('POST', `/api/resume/${instance}`, [200])
  const sides = Object.entries({ error: cutAt, closed: closedAt }).map(([name, times]) => {
    const sorted = Float64Array.from(times).sort()
    return { name, p50Ms: quantile(sorted, 0.5), p99Ms: quantile(sorted, 0.99) }
  })
  return {
    name: 'kill to the error in a stream, p99',
    value: sides[0]!.p99Ms,
    unit: 'ms',
    max: 50,
    sides,
    notes: [`${parallel} streams`],
    faults,
  }
}

const residentKiB = (pid: number): number =>
  Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])

async function memory(service: Service, port: number, headers: Record<string, string>): Promise<Figure> {
  const faults: string[] = []
  const before = residentKiB(service.pid)
  const answers: IncomingMessage[] = []
  while (answers.length < idle) {
    const more = Array.from({ length: 250 }, () => open(port, headers, 'events=0'))
    answers.push(...(await Promise.all(more)))
  }
  if (answers.some(({ statusCode }) => statusCode !== 200)) faults.push('not every stream was opened')
  await sleep(2_000)
  const each = (residentKiB(service.pid) - before) / idle
  for (const answer of answers) answer.destroy()
  return {
    name: 'memory of an idle stream',
    value: each,
    unit: 'KiB',
    max: 64,
    sides: [],
    notes: [`${idle} streams`],
    faults,
  }
}
