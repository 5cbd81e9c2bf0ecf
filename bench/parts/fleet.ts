import { setTimeout as sleep } from 'node:timers/promises'
import { followControl } from '../control-client.ts'
import { fillInstances } from '../fill-instances.ts'
import { type FleetReply, type FleetTask, fleetAgentId } from '../fleet-load.ts'
import { startHelper } from '../helper.ts'
import type { Figure } from '../report.ts'
import { cpuMs, residentKiB, startService } from '../service.ts'
import { quantile } from '../statistics.ts'

const fleets = [
  { agents: 100_000, maxCpu: 50 },
  { agents: 250_000, maxCpu: undefined },
]
const warmSeconds = 5
const killEveryMs = 2_000
const maxP99Ms = 250
const maxMiB = 700
const maxKillMs = 50

/** One process on SQLite with a fleet at the usual pace: a heartbeat and an event a minute, a poll every 30 seconds. */
export async function measureFleets(minutes: number): Promise<Figure[]> {
  const figures: Figure[] = []
  for (const fleet of fleets) figures.push(...(await measureFleet(fleet, minutes * 60)))
  return figures
}

async function measureFleet({ agents, maxCpu }: (typeof fleets)[number], seconds: number): Promise<Figure[]> {
  const settings = { WARDLINE_MAX_INSTANCES: String(agents + 10) }
  const empty = await startService(undefined, settings)
  await empty.stop(false)
  fillInstances(empty.dataDir, agents)
  const service = await startService(empty.dataDir, settings)
  const load = startHelper<FleetTask, FleetReply>('./fleet-load.ts')
  const task = { port: service.port, key: service.key, agents }
  await load.ask({ ...task, seconds: warmSeconds })

  const id = fleetAgentId(0)
  const control = await followControl(service, id)
  const kills: number[] = []
  let residentMiB = 0
  let isOver = false
  const watch = (async () => {
    while (!isOver) {
      await sleep(killEveryMs)
      residentMiB = Math.max(residentMiB, residentKiB(service.pid) / 1024)
      for (const action of ['kill', 'resume'] as const) {
        const arrival = control.next()
        const askedAt = performance.now()
        await service.call('POST', `/api/${action}/${id}`, [200], { reason: 'benchmark' })
        if (action === 'kill') kills.push((await arrival) - askedAt)
        else await arrival
      }
    }
  })()
  const cpuBefore = cpuMs(service.pid)
  const startedAt = performance.now()
  const result = await load.ask({ ...task, seconds })
  const cpu = (100 * (cpuMs(service.pid) - cpuBefore)) / (performance.now() - startedAt)
  isOver = true
  await watch
  control.close()
  load.stop()
  await service.stop()

  const unexpected = Object.entries(result.statuses).filter(([status]) => status !== '200' && status !== '201')
  const shared = {
    sides: [{ name: 'requests', perSecond: result.perSecond, p50Ms: result.p50Ms, p99Ms: result.p99Ms }],
    faults: unexpected.map(([status, count]) => `${count} × ${status}`),
  }
  const note = `${seconds} s over ${result.connections} connections, longest answer ${result.maxMs.toFixed(0)} ms; the generator used ${(100 * result.generatorCpu).toFixed(0)} % of a core`
  const name = (what: string) => `${agents / 1_000},000 agents: ${what}`
  const plain = { sides: [], notes: [], faults: [] }
  return [
    { ...shared, name: name('answers, p99'), value: result.p99Ms, unit: 'ms', max: maxP99Ms, notes: [note] },
    { ...plain, name: name('memory'), value: residentMiB, unit: 'MiB', max: maxMiB },
    { ...plain, name: name('a core'), value: cpu, unit: '%', ...(maxCpu === undefined ? {} : { max: maxCpu }) },
    {
      ...plain,
      name: name('kill delivered, p99'),
      value: quantile(Float64Array.from(kills).sort(), 0.99),
      unit: 'ms',
      max: maxKillMs,
      notes: [`${kills.length} kills`],
    },
  ]
}
