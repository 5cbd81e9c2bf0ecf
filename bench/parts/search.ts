import { setTimeout as sleep } from 'node:timers/promises'
import { writeDecoys } from '../database.ts'
import { eventBody } from '../events.ts'
import { fillInstances } from '../fill-instances.ts'
import type { Figure } from '../report.ts'
import { cpuMs, residentKiB, type Service, startService } from '../service.ts'
import { median, quantile } from '../statistics.ts'

const agents = 100_000
const decoys = 10_000
const alerts = 1_000
const roundCount = 3
const repeats = 20
const settleMs = 2_000
/** Longer than the service keeps names before a search makes it read them again. */
const staleMs = 21_000

const agentId = (n: number) => `agent-instance-${n}`
/** A name that no id begins with, a typo, what all agents share, and a tag. */
const found = ['bench 77777', 'agnet 77777', 'agent', 'payments-49']
const missing = ['zzzz', 'qwertyuiop', 'agent 777777777']

/** Searches in a large fleet: the first after a start, later ones, and what they cost. */
export async function measureSearch(): Promise<Figure[]> {
  const dataDir = await filledFolder()
  const rounds: Awaited<ReturnType<typeof measureRound>>[] = []
  const faults: string[] = []
  for (let round = 0; round < roundCount; round++) {
    const service = await startService(dataDir)
    rounds.push(await measureRound(service, faults))
    await service.stop(round === roundCount - 1)
  }
  const figure = (
    name: string,
    unit: string,
    max: number | undefined,
    of: (round: (typeof rounds)[number]) => number,
  ) => {
    const values = rounds.map(of)
    return { name, unit, max, value: median(values), rounds: values, sides: [], notes: [], faults }
  }
  return [
    figure('palette opened, first time', 'ms', undefined, ({ opened }) => opened),
    figure('first typed search after it', 'ms', 50, ({ first }) => first),
    figure('search with hits, p50', 'ms', 50, (round) => quantile(round.hits, 0.5)),
    figure('search with hits, p99', 'ms', 50, (round) => quantile(round.hits, 0.99)),
    figure('search without hits, p50', 'ms', 50, (round) => quantile(round.none, 0.5)),
    figure('search without hits, p99', 'ms', 50, (round) => quantile(round.none, 0.99)),
    figure('/healthz at most, names read', 'ms', 20, ({ heldFirst }) => heldFirst),
    figure('/healthz at most, while searched', 'ms', 20, ({ heldLater }) => heldLater),
    figure('/healthz at most, names read again', 'ms', 20, ({ heldAgain }) => heldAgain),
    figure('until all names are indexed', 'ms', undefined, ({ completeMs }) => completeMs),
    figure('processor time to read names', 'ms', undefined, ({ cpuFirst }) => cpuFirst),
    figure('processor time to read them again', 'ms', undefined, ({ cpuAgain }) => cpuAgain),
    figure('processor time of a search', 'ms', undefined, ({ cpuSearch }) => cpuSearch),
    figure('memory after all this', 'MiB', 40, ({ grownMiB }) => grownMiB),
  ]
}

async function filledFolder(): Promise<string> {
  const empty = await startService()
  const events = Array.from({ length: alerts }, (_, n) => ({
    ...eventBody(n, 322),
    severity: 'warning',
    instance_id: agentId(n),
  }))
  await empty.call('POST', '/api/events/batch', [200, 201], events)
  await empty.stop(false)
  fillInstances(empty.dataDir, agents, Date.now(), true)
  writeDecoys(
    empty.dataDir,
    decoys,
    Array.from({ length: decoys }, (_, n) => agentId(n)),
    Date.now(),
  )
  return empty.dataDir
}

async function measureRound(service: Service, faults: string[]) {
  const search = async (q: string, isFound: boolean) => {
    const startedAt = performance.now()
    const { text } = await service.call('GET', `/api/search?q=${encodeURIComponent(q)}`, [200])
    const ms = performance.now() - startedAt
    const { groups, complete } = JSON.parse(text) as { groups: unknown[]; complete: boolean }
    if (groups.length > 0 !== isFound) faults.push(`"${q}" was answered ${text}`)
    return { ms, complete }
  }
  const times = async (texts: readonly string[], isFound: boolean) => {
    const all: number[] = []
    for (let n = 0; n < repeats * texts.length; n++) all.push((await search(texts[n % texts.length]!, isFound)).ms)
    return Float64Array.from(all).sort()
  }
  await sleep(settleMs)
  // What the page does before the search is opened: connects, and lists.
  await service.call('GET', '/api/events?limit=1&q=x', [200])
  const before = residentKiB(service.pid)
  const cpuBefore = cpuMs(service.pid)
  const startedAt = performance.now()
  let opened = 0
  let first = 0
  const heldFirst = await longestPing(service, async () => {
    // The palette asks with an empty text when it opens. Nobody types so fast.
    opened = (await search('', false)).ms
    first = (await search(found[0]!, true)).ms
    while (!(await search('', false)).complete) await sleep(10)
  })
  const completeMs = performance.now() - startedAt
  const cpuFirst = cpuMs(service.pid) - cpuBefore
  let hits = new Float64Array()
  let none = new Float64Array()
  const cpuWarm = cpuMs(service.pid)
  const heldLater = await longestPing(service, async () => {
    hits = await times(found, true)
    none = await times(missing, false)
  })
  const cpuSearch = (cpuMs(service.pid) - cpuWarm) / (hits.length + none.length)
  await sleep(staleMs)
  const cpuStale = cpuMs(service.pid)
  const heldAgain = await longestPing(service, async () => {
    await search('', false)
    await sleep(1_500)
  })
  const cpuAgain = cpuMs(service.pid) - cpuStale
  const grownMiB = (residentKiB(service.pid) - before) / 1024
  return {
    opened,
    first,
    hits,
    none,
    heldFirst,
    heldLater,
    heldAgain,
    completeMs,
    cpuFirst,
    cpuAgain,
    cpuSearch,
    grownMiB,
  }
}

/** Returns the longest answer of /healthz during the work: how long the event loop was held, and a millisecond. */
async function longestPing(service: Service, work: () => Promise<void>): Promise<number> {
  let isOver = false
  let longest = 0
  const pings = (async () => {
    while (!isOver) {
      const startedAt = performance.now()
      await service.call('GET', '/healthz', [200])
      longest = Math.max(longest, performance.now() - startedAt)
      await sleep(2)
    }
  })()
  await work()
  isOver = true
  await pings
  return longest
}
