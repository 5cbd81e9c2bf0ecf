import { get } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { type BrowserContext, type CDPSession, chromium, type Page } from 'playwright-core'
import { chromiumPath } from '../../test-servers/chromium.ts'
import { skipRules } from '../database.ts'
import { fillEvents } from '../fill-events.ts'
import { fillInstances, mixFleet, suspendedEvery, suspendedPlace } from '../fill-instances.ts'
import { fleetAgentId } from '../fleet-load.ts'
import type { Figure } from '../report.ts'
import { type Service, startService } from '../service.ts'
import { median } from '../statistics.ts'
import { buildSizes, shortestMs, signedIn, useEvents, useFleet } from './dashboard.ts'

export interface LargeFleet {
  agents: number
  events: number
  /** A folder that an earlier run filled; filling ten million events takes ten minutes. */
  dataDir?: string | undefined
}

const paintRounds = 5
const idleSeconds = 60
const heartbeatsPerSecond = 20
/** So that the agents that send heartbeats stay online. */
const beatingAgents = 1_000

interface Answer {
  path: string
  bytes: number
  ms: number
}

/** Records each answer of the API, with what the browser received of it. */
async function recordAnswers(
  context: BrowserContext,
  page: Page,
): Promise<{ answers: Answer[]; devtools: CDPSession }> {
  const devtools = await context.newCDPSession(page)
  await devtools.send('Network.enable')
  const answers: Answer[] = []
  const open = new Map<string, { path: string; at: number }>()
  devtools.on('Network.requestWillBeSent', ({ requestId, request, timestamp }) => {
    const { pathname, search } = new URL(request.url)
    if (pathname.startsWith('/api/')) open.set(requestId, { path: pathname + search, at: timestamp })
  })
  devtools.on('Network.loadingFinished', ({ requestId, encodedDataLength, timestamp }) => {
    const asked = open.get(requestId)
    if (asked) answers.push({ path: asked.path, bytes: encodedDataLength, ms: (timestamp - asked.at) * 1_000 })
  })
  return { answers, devtools }
}

const shown = {
  '/': 'bench.verdictMs',
  '/fleet': `document.querySelector('[role=rowgroup] [role=row]') ? performance.now() : undefined`,
  '/events': `document.querySelector('.event-line') ? performance.now() : undefined`,
  '/alerts': `document.querySelector('main h1') ? performance.now() : undefined`,
  [`/fleet/${fleetAgentId(76)}`]: `document.querySelector('main h1') ? performance.now() : undefined`,
}

async function paintedMs(page: Page, expression: string): Promise<number> {
  for (const deadline = performance.now() + 60_000; performance.now() < deadline; await sleep(10)) {
    const ms = (await page.evaluate(expression)) as number | undefined
    if (ms !== undefined) return ms
  }
  throw new Error(`${page.url()} shows nothing.`)
}

async function measurePages(context: BrowserContext): Promise<Figure[]> {
  const figures: Figure[] = []
  for (const [path, expression] of Object.entries(shown)) {
    const rounds: number[] = []
    const all: Answer[] = []
    for (let round = 0; round < paintRounds; round++) {
      const page = await context.newPage()
      const { answers, devtools } = await recordAnswers(context, page)
      await devtools.send('Network.setCacheDisabled', { cacheDisabled: true })
      await page.goto(path)
      rounds.push(await paintedMs(page, expression))
      await sleep(1_000)
      all.push(...answers)
      await page.close()
    }
    const largest = all.toSorted((one, other) => other.bytes - one.bytes)[0]!
    const slowest = all.toSorted((one, other) => other.ms - one.ms)[0]!
    figures.push({
      ...{ name: `${path} painted`, value: median(rounds), unit: 'ms', max: 1_000, sides: [], rounds, faults: [] },
      notes: [
        `largest answer ${(largest.bytes / 1024).toFixed(1)} KiB: ${largest.path.slice(0, 90)}`,
        `slowest answer ${slowest.ms.toFixed(0)} ms: ${slowest.path.slice(0, 90)}`,
      ],
    })
  }
  return figures
}

async function measureInteractions(context: BrowserContext): Promise<Figure> {
  const rounds: number[] = []
  for (const perform of [useFleet, useEvents, suspendDialog]) {
    const page = await context.newPage()
    await perform(page)
    // Entries arrive at the next idle time.
    await sleep(500)
    const slow = (await page.evaluate('[...bench.interactions.values()]')) as number[]
    rounds.push(Math.max(shortestMs, ...slow))
    await page.close()
  }
  const notes = [`fleet, events, suspend dialog: ${rounds.map((ms) => `${ms} ms`).join(', ')}`]
  return { name: 'slowest interaction', value: Math.max(...rounds), unit: 'ms', max: 100, sides: [], notes, faults: [] }
}

async function suspendDialog(page: Page): Promise<void> {
  await page.goto(`/fleet/${fleetAgentId(76)}`)
  await page
    .getByRole('button', { name: /^Suspend/ })
    .first()
    .click()
  await page.getByRole('dialog').waitFor()
  await page.keyboard.press('Escape')
}

/** Bytes of the stream in a minute: the browser's own stream is in a worker that all its pages share. */
function followStream({ port, key }: Service): { bytes(): number; close(): void } {
  let bytes = 0
  const headers = { 'X-Monitor-Key': key }
  const request = get(
    { port, host: '127.0.0.1', path: '/api/stream?include=control', headers, agent: false },
    (response) => {
      response.on('data', (chunk: Buffer) => (bytes += chunk.length))
    },
  )
  request.on('error', () => {})
  return { bytes: () => bytes, close: () => request.destroy() }
}

async function measureIdle(context: BrowserContext, service: Service): Promise<Figure> {
  let isOver = false
  const beats = (async () => {
    for (let n = 0; !isOver; n++) {
      const id = fleetAgentId(n % beatingAgents)
      await service.call('POST', '/api/heartbeat', [200], { instance_id: id, name: `Bench agent ${n % beatingAgents}` })
      await sleep(1_000 / heartbeatsPerSecond)
    }
  })()
  const page = await context.newPage()
  await page.goto('/')
  await paintedMs(page, 'bench.verdictMs')
  // Until each of them has sent one.
  await sleep((beatingAgents / heartbeatsPerSecond) * 1_100)
  const { answers } = await recordAnswers(context, page)
  const stream = followStream(service)
  await sleep(idleSeconds * 1_000)
  isOver = true
  await beats
  const paths = Map.groupBy(answers, ({ path }) => path.replace(/known=[^&]+/, 'known=…'))
  const sum = (list: readonly Answer[]) => list.reduce((total, { bytes }) => total + bytes, 0)
  const notes = [...paths]
    .map(([path, list]) => ({ path, count: list.length, bytes: sum(list) }))
    .sort((one, other) => other.bytes - one.bytes)
    .slice(0, 5)
    .map(({ path, count, bytes }) => `${path.slice(0, 80)}: ${count} × ${Math.round(bytes / count)} bytes`)
  const all = sum(answers) + stream.bytes()
  stream.close()
  await page.close()
  return {
    ...{ name: 'idle overview, a minute', value: all / 1_000, unit: 'kB', max: 50, sides: [], faults: [] },
    notes: [`of it the stream ${(stream.bytes() / 1_000).toFixed(1)} kB`, ...notes],
  }
}

/** The dashboard in Chromium with a very large fleet and log, while some agents send heartbeats. */
export async function measureLargeDashboard({ agents, events, dataDir }: LargeFleet): Promise<Figure[]> {
  buildSizes()
  const settings = { WARDLINE_MAX_INSTANCES: String(agents + 10) }
  let folder = dataDir
  if (folder === undefined) {
    const empty = await startService(undefined, settings)
    await empty.stop(false)
    folder = empty.dataDir
    // Last heartbeats in the future, so that only the measured heartbeats need be sent.
    fillInstances(folder, agents, Date.now() + 6 * 3_600_000)
    mixFleet(folder)
    fillEvents(folder, events, (n) => {
      const agent = (n * 7_919) % agents
      // An event of a suspended agent would be a breach.
      return fleetAgentId((agent + 1) % suspendedEvery === suspendedPlace ? agent + 1 : agent)
    })
    skipRules(folder)
  }
  const service = await startService(folder, settings)
  const browser = await chromium.launch({
    ...(chromiumPath && { executablePath: chromiumPath }),
    args: ['--no-sandbox'],
  })
  try {
    const context = await signedIn(browser, service)
    return [...(await measurePages(context)), await measureInteractions(context), await measureIdle(context, service)]
  } finally {
    await browser.close()
    await service.stop(dataDir === undefined)
  }
}
