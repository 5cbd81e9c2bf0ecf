import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { killAtExit, temporaryFolder } from '../cleanup.ts'
import type { Figure } from '../report.ts'
import { type Service, startService } from '../service.ts'
import { quantile } from '../statistics.ts'

const children = 200
const kills = 30
const instance = 'bench-supervised-agent'
const program = fileURLToPath(new URL('../../packages/sdk/src/wardline-agent.ts', import.meta.url))
/** Each child starts a process every second, so that the tree changes while it is held. */
const tree = `i=0; while [ $i -lt ${children} ]; do sh -c 'while :; do sleep 1; done' & i=$((i+1)); done; wait`

const withinMs = 60_000

/** Resolves with the first value that meets the condition; throws after a minute. */
async function until<Value>(read: () => Promise<Value>, isRight: (value: Value) => boolean): Promise<Value> {
  for (const end = performance.now() + withinMs; ; await sleep(20)) {
    const value = await read()
    if (isRight(value)) return value
    if (performance.now() > end)
      throw new Error(`The supervisor did not answer within a minute: ${JSON.stringify(value)}`)
  }
}

interface Shown {
  enforced_at: string | null
  requested_at: string
  held_processes: number | null
}

const get = async <Value>(service: Service, path: string): Promise<Value> =>
  JSON.parse((await service.call('GET', path, [200])).text) as Value

/** From the request of a kill, and from its message, until the supervisor holds the whole tree. */
export async function measureSupervisor(): Promise<Figure[]> {
  const service = await startService()
  const created = await service.call('POST', '/api/keys', [201], {
    scope: 'agent',
    name: 'Bench supervisor',
    instances: [instance],
    supervises: true,
  })
  const supervisor = spawn(
    process.execPath,
    ['--conditions=wardline-source', program, 'run', '--instance', instance, '--', 'sh', '-c', tree],
    {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: {
        PATH: process.env.PATH,
        HOME: temporaryFolder(),
        WARDLINE_URL: `http://127.0.0.1:${service.port}`,
        WARDLINE_KEY: JSON.parse(created.text).key,
      },
    },
  )
  killAtExit(supervisor)
  let said = ''
  supervisor.stderr.on('data', (text) => {
    said += text
  })
  const newest = async () => {
    const { suspensions } = await get<{ suspensions: Shown[] }>(service, `/api/instances/${instance}/suspensions`)
    return suspensions[0]!
  }
  const isConfirmed = async () =>
    (await get<{ control: { confirmed: boolean } }>(service, `/api/instances/${instance}`)).control.confirmed
  async function hold(): Promise<Shown> {
    await service.call('POST', `/api/kill/${instance}`, [200], { reason: 'bench' })
    const held = await until(newest, ({ enforced_at }) => enforced_at !== null)
    await service.call('POST', `/api/resume/${instance}`, [200])
    await until(isConfirmed, (confirmed) => confirmed)
    return held
  }
  try {
    await until(
      () => get<{ instances: unknown[] }>(service, `/api/instances?prefix=${instance}`),
      ({ instances }) => instances.length > 0,
    )
    await until(hold, ({ held_processes }) => (held_processes ?? 0) >= children)
    const all: Shown[] = []
    while (all.length < kills) all.push(await hold())
    const times = Float64Array.from(
      all.map(({ enforced_at, requested_at }) => Date.parse(enforced_at!) - Date.parse(requested_at)),
    ).sort()
    const processes = Math.min(...all.map(({ held_processes }) => held_processes ?? 0))
    const holding = Float64Array.from([...said.matchAll(/ held within (\d+) ms/g)].slice(-kills), ([, ms]) =>
      Number(ms),
    ).sort()
    const figure = (name: string, values: Float64Array, note: string, faults: string[]): Figure => {
      const [p50Ms, p99Ms] = [quantile(values, 0.5), quantile(values, 0.99)]
      const sides = [{ name: `${values.length} kills`, p50Ms, p99Ms }]
      return { name, value: p99Ms, unit: 'ms', max: 50, sides, notes: [note], faults }
    }
    return [
      figure(
        'message to a held tree, p99',
        holding,
        `at least ${processes} processes, from the message at the supervisor until none runs`,
        processes >= children ? [] : [`a kill held ${processes} processes only`],
      ),
      figure('kill to its evidence, p99', times, 'from the request of the kill to the evidence at the service', []),
    ]
  } finally {
    supervisor.kill('SIGTERM')
    await once(supervisor, 'exit')
    await service.stop()
  }
}
