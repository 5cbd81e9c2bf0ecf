import { execFileSync } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { chromiumPath } from '../../test-servers/chromium.ts'
import type { DashboardsReply, DashboardsTask } from '../dashboard-clients.ts'
import { eventBody, instanceId } from '../events.ts'
import { fillEvents } from '../fill-events.ts'
import { fillInstances } from '../fill-instances.ts'
import { startHelper } from '../helper.ts'
import type { Figure } from '../report.ts'
import { cpuMs, type Service, startService } from '../service.ts'
import { median, quantile } from '../statistics.ts'

const eventCount = 1_000_000
const fleetSize = 10_000
const paintRounds = 7
const usualFleet = 200
const usualEventsPerSecond = 5
const dashboards = 200
const watchSeconds = 60
const loadRounds = 3
const loadSeconds = 20
/** Shorter interactions have no entry: https://www.w3.org/TR/event-timing/ */
export const shortestMs = 16

/** Paint, interactions and live tail in Chromium with a large fleet; cost of two hundred open dashboards. */
export async function measureDashboard(): Promise<Figure[]> {
  const sizes = buildSizes()
  const browser = await chromium.launch({
    ...(chromiumPath && { executablePath: chromiumPath }),
    args: ['--no-sandbox'],
  })
  try {
    return [...sizes, ...(await measureLargeFleet(browser)), await measureOpenDashboards(browser)]
  } finally {
    await browser.close()
  }
}

const figure = (name: string, value: number, unit: string, max: number, more: Partial<Figure> = {}): Figure => ({
  name,
  value,
  unit,
  max,
  sides: [],
  notes: [],
  faults: [],
  ...more,
})

export function buildSizes(): Figure[] {
  const build = fileURLToPath(new URL('../../packages/dashboard/build.ts', import.meta.url))
  const said = execFileSync(process.execPath, ['--conditions=wardline-source', build, '--force'], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const sizes = [...said.matchAll(/([\w-]+) ([\d.]+) kB/g)].map(([, name, kB]) => ({ name: name!, kB: Number(kB) }))
  const routes = sizes.filter(({ name }) => name !== 'entry').sort((one, other) => other.kB - one.kB)
  const entry = sizes.find(({ name }) => name === 'entry')?.kB ?? Number.NaN
  return [
    figure('entry script and styles', entry, 'kB', 180),
    figure(`largest screen (${routes[0]?.name})`, routes[0]?.kB ?? Number.NaN, 'kB', 60),
  ]
}

async function filledService(events: number, fleet: number): Promise<Service> {
  const empty = await startService()
  await empty.stop(false)
  fillEvents(empty.dataDir, events)
  // Last heartbeats in the future, so that no heartbeats need be sent during the measurement.
  fillInstances(empty.dataDir, fleet, Date.now() + 3_600_000)
  return startService(empty.dataDir)
}

/** Records when the verdict was painted, each interaction, and the time between frames. */
const watchPage = `(() => {
  globalThis.bench = { verdictMs: undefined, interactions: new Map(), frames: [] }
  const look = () => {
    const verdict = document.querySelector('h1')?.textContent
    if (verdict && verdict !== 'Loading the fleet…' && document.querySelector('[aria-label="Fleet, one mark per agent"] > *')) {
      requestAnimationFrame(() => setTimeout(() => { bench.verdictMs ??= performance.now() }))
    } else requestAnimationFrame(look)
  }
  look()
  new PerformanceObserver((list) => {
    for (const { interactionId, duration } of list.getEntries())
      if (interactionId) bench.interactions.set(interactionId, Math.max(duration, bench.interactions.get(interactionId) ?? 0))
  }).observe({ type: 'event', durationThreshold: ${shortestMs}, buffered: true })
  let last
  const frame = (now) => {
    if (last !== undefined) bench.frames.push(now - last)
    last = now
    requestAnimationFrame(frame)
  }
  requestAnimationFrame(frame)
})()`

export async function signedIn(browser: Browser, { port, key }: Service): Promise<BrowserContext> {
  const context = await browser.newContext({
    baseURL: `http://127.0.0.1:${port}`,
    viewport: { width: 1440, height: 900 },
  })
  const page = await context.newPage()
  await page.goto('/')
  await page.getByLabel('API key').fill(key)
  await page.keyboard.press('Enter')
  await page.getByText('Live', { exact: true }).first().waitFor()
  await page.close()
  await context.addInitScript(watchPage)
  return context
}

async function measureLargeFleet(browser: Browser): Promise<Figure[]> {
  const service = await filledService(eventCount, fleetSize)
  const context = await signedIn(browser, service)
  const figures = [
    await measurePaint(context),
    ...(await measureInteractions(context)),
    ...(await measureTail(context, service)),
  ]
  await context.close()
  await service.stop()
  return figures
}

/** Milliseconds from the navigation until the verdict was painted. The page's policy does not allow waitForFunction. */
async function verdictMs(page: Page): Promise<number> {
  for (const deadline = performance.now() + 30_000; performance.now() < deadline; await sleep(20)) {
    const ms = (await page.evaluate('bench.verdictMs')) as number | undefined
    if (ms !== undefined) return ms
  }
  throw new Error('The overview shows no verdict.')
}

async function measurePaint(context: BrowserContext): Promise<Figure> {
  const rounds: number[] = []
  for (let round = 0; round < paintRounds; round++) {
    const page = await context.newPage()
    const devtools = await context.newCDPSession(page)
    await devtools.send('Network.setCacheDisabled', { cacheDisabled: true })
    await page.goto('/')
    rounds.push(await verdictMs(page))
    await page.close()
  }
  return figure('overview painted, with its verdict', median(rounds), 'ms', 1_000, { rounds })
}

/** Sends the interactions of a user's minute, one after the other, as fast as the page handles them. */
export async function useFleet(page: Page): Promise<number> {
  let count = 0
  const type = async (text: string) => {
    for (const letter of text) {
      await page.keyboard.press(letter)
      count += 1
    }
  }
  const press = async (key: string) => {
    await page.keyboard.press(key)
    count += 1
  }
  const click = async (name: string | RegExp) => {
    await page.getByRole('button', { name }).first().click()
    count += 1
  }
  await page.goto('/fleet')
  await page.locator('[role=rowgroup] [role=row]').first().waitFor()
  for (let round = 0; round < 3; round++) {
    await click(/^Status/)
    await click(/^Last heartbeat/)
    await click(/^Agent/)
    await press('/')
    await type('instance-77')
    for (let letter = 0; letter < 11; letter++) await press('Backspace')
    await press('Escape')
    for (let row = 0; row < 10; row++) await press('j')
    await click(/^Offline/)
    await click(/^All/)
    await press('Control+k')
    await page.getByRole('dialog').waitFor()
    await type('suspend 99')
    await press('Escape')
  }
  return count
}

export async function useEvents(page: Page): Promise<number> {
  let count = 0
  await page.goto('/events')
  await page.locator('.event-line').first().waitFor()
  for (let round = 0; round < 3; round++) {
    for (const name of [/^Critical/, /^Warning/, /^All/]) {
      await page.getByRole('button', { name }).first().click()
      await page.locator('.event-line').first().waitFor()
      count += 1
    }
    await page.locator('.event-line').nth(3).click()
    await page.getByRole('dialog').waitFor()
    for (const key of ['j', 'j', 'j', 'k', 'Escape']) {
      await page.keyboard.press(key)
      count += 1
    }
    count += 1
  }
  return count
}

async function measureInteractions(context: BrowserContext): Promise<Figure[]> {
  const figures: Figure[] = []
  for (const [name, perform, scrolled] of [
    ['fleet', useFleet, '[data-part=scroller]'],
    ['events', useEvents, '.tail'],
  ] as const) {
    const page = await context.newPage()
    const count = await perform(page)
    // Entries arrive at the next idle time.
    await sleep(500)
    const slow = (await page.evaluate('[...bench.interactions.values()]')) as number[]
    const all = [...slow, ...Array(Math.max(0, count - slow.length)).fill(shortestMs)].sort((a, b) => a - b)
    const note = `${count} interactions; the slowest took ${Math.max(...all)} ms`
    figures.push(figure(`interaction p95, ${name}`, quantile(all, 0.95), 'ms', 100, { notes: [note] }))
    await page.locator(scrolled).first().hover()
    await page.evaluate('void (bench.frames = [])')
    for (let turn = 0; turn < 60; turn++) await page.mouse.wheel(0, 600)
    figures.push(figure(`frame p95 while scrolling, ${name}`, await frameP95(page), 'ms', 100))
    await page.close()
  }
  return figures
}

async function frameP95(page: Page): Promise<number> {
  const frames = (await page.evaluate('bench.frames')) as number[]
  return quantile(
    frames.sort((a, b) => a - b),
    0.95,
  )
}

/** Sends events evenly in batches of a tenth of a second. */
async function sendEvents(service: Service, perSecond: number, seconds: number): Promise<number> {
  const startedAt = performance.now()
  let sent = 0
  for (let batch = 1; batch <= seconds * 10; batch++) {
    const events = Array.from({ length: perSecond / 10 }, () => eventBody(sent++, 322))
    await service.call('POST', '/api/events/batch', [200], events)
    await sleep(Math.max(0, startedAt + batch * 100 - performance.now()))
  }
  return sent
}

async function measureTail(context: BrowserContext, service: Service): Promise<Figure[]> {
  const figures: Figure[] = []
  for (const [perSecond, seconds] of [
    [50, 20],
    [1_000, 10],
  ] as const) {
    const page = await context.newPage()
    await page.goto('/events')
    await page.getByText('Live', { exact: true }).first().waitFor()
    await page.locator('.event-line').first().waitFor()
    await page.evaluate('void (bench.frames = [])')
    const sent = await sendEvents(service, perSecond, seconds)
    const isSample = perSecond > 200
    const text = `of ${sent.toLocaleString('en')} not shown`
    const faults: string[] = []
    if (isSample) {
      await page
        .getByText(text)
        .waitFor({ timeout: 5_000 })
        .catch(async () => {
          const said = await page.getByText('not shown').textContent()
          faults.push(`the page says "${said}" where ${sent} were sent`)
        })
    } else {
      await sleep(1_000)
      if ((await page.getByText('not shown').count()) > 0) faults.push('the page lists a sample')
    }
    const notes = [isSample ? `the page counted all ${sent} and listed a sample` : `all ${sent} were listed`]
    const max = isSample ? 200 : 100
    figures.push(
      figure(`frame p95 at ${perSecond} events/s`, await frameP95(page), 'ms', max, {
        faults,
        notes: faults.length > 0 ? [] : notes,
      }),
    )
    await page.close()
  }
  return figures
}

/** Requests of an open overview, recorded from a real one. */
async function watchedAsks(context: BrowserContext): Promise<{ path: string; everyMs: number }[]> {
  const page = await context.newPage()
  const counts = new Map<string, number>()
  await page.goto('/')
  await verdictMs(page)
  page.on('request', (request) => {
    const { pathname, search } = new URL(request.url())
    counts.set(pathname + search, (counts.get(pathname + search) ?? 0) + 1)
  })
  await sleep(watchSeconds * 1_000 + 500)
  await page.close()
  return [...counts].map(([path, count]) => ({ path, everyMs: (watchSeconds * 1_000) / count }))
}

async function measureOpenDashboards(browser: Browser): Promise<Figure> {
  const service = await filledService(100_000, usualFleet)
  const context = await signedIn(browser, service)
  const asks = await watchedAsks(context)
  await context.close()
  const helper = startHelper<DashboardsTask, DashboardsReply>('./dashboard-clients.ts')
  let isOver = false
  async function usualLoad(): Promise<void> {
    for (let n = 0; !isOver; n++) {
      await service.call('POST', '/api/events', [201], eventBody(n, 322))
      const id = instanceId(n % usualFleet)
      await service.call('POST', '/api/heartbeat', [200], { instance_id: id, name: `Bench agent ${n}` })
      await sleep(1_000 / usualEventsPerSecond)
    }
  }
  async function share(): Promise<number> {
    const [before, startedAt] = [cpuMs(service.pid), performance.now()]
    await sleep(loadSeconds * 1_000)
    return ((cpuMs(service.pid) - before) / (performance.now() - startedAt)) * 100
  }
  const faults: string[] = []
  const notes = asks.map(({ path, everyMs }) => `${path} every ${(everyMs / 1_000).toFixed(0)} s`)
  const rounds: number[] = []
  const load = usualLoad()
  for (let round = 0; round < loadRounds; round++) {
    const alone = await share()
    await helper.ask({ kind: 'open', port: service.port, key: service.key, count: dashboards, asks })
    // Opening all at once is not part of the measurement.
    await sleep(5_000)
    const together = await share()
    const reply = await helper.ask({ kind: 'close' })
    faults.push(...reply.faults)
    notes.push(
      `${alone.toFixed(1)} % without, ${together.toFixed(1)} % with them: ${reply.answers} answers, ${Math.round(reply.streamedBytes / 1024)} KiB streamed`,
    )
    rounds.push(together - alone)
    await sleep(2_000)
  }
  isOver = true
  await load
  helper.stop()
  await service.stop()
  return figure(`service for ${dashboards} open overviews`, median(rounds), '% of a core', 10, {
    rounds,
    notes,
    faults,
  })
}
