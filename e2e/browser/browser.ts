import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { type Browser, type BrowserContext, chromium, type Page, type Request } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest'
import { chromiumPath } from '../../test-servers/chromium.ts'
import { createKey } from '../fleet.ts'
import { isExternal, needsOwnProcess, type Service, startService, until } from '../service.ts'

const missing = isExternal
  ? needsOwnProcess
  : chromiumPath === undefined
    ? 'No Chromium: install the package chromium'
    : undefined

/** Features that no test uses and that take a third of the start time of each profile. */
const unseenParts = [
  // Two pages of address bar suggestions that load with each window.
  'WebUIOmniboxPopup',
  'WebUIOmniboxAimPopup',
  // Playwright's own list, because only the last --disable-features on a command line counts.
  'AimEnabled',
  'AvoidUnnecessaryBeforeUnloadCheckSync',
  'DestroyProfileOnBrowserClose',
  'HttpsFirstBalancedModeAutoEnable',
  'HttpsUpgrades',
  'LensOverlay',
  'MediaRouter',
  'NetworkTimeServiceQuerying',
  'OptimizationHints',
  'PaintHolding',
  'PreconnectToSearch',
  'ThirdPartyStoragePartitioning',
]

/** Only on a machine busy with other tests does anything take this long. */
const waitMs = 30_000

/** A page that has loaded nothing yet, for tests that prepare it first. */
export const nowhereYet = 'about:blank'

interface Look {
  scheme?: 'light' | 'dark'
  width?: number
}

export interface Screens {
  service: Service
  browser: Browser
  /** Opens a separate browser profile. Violations of its policy, errors and requests to other hosts are recorded. */
  open(look?: Look): Promise<BrowserContext>
  /** Opens a page of a profile in which nothing is stored; the page may have served an earlier test of the file. */
  emptied(look?: Look): Promise<Page>
  /**
   * Opens a signed-in page, by default with the admin key, and waits until the overview or `at` is live. With
   * `nowhereYet` its profile is new, and only for this test.
   */
  signedIn(options?: Look & { key?: string; at?: string }): Promise<Page>
  /** Starts an agent with the real SDK. */
  agent(id: string): Promise<Agent>
  /** Recorded faults of the pages of this test. */
  faults: string[]
}

export interface Agent {
  id: string
  /** Reports an event. */
  say(description: string): void
  /** Runs a command with a guarded tool. */
  use(command: string): void
  heard(word: string): Promise<void>
  end(): Promise<void>
}

async function startAgent(service: Service, id: string, running: Set<ChildProcess>): Promise<Agent> {
  const key = await createKey(service, { scope: 'agent', instances: [id] })
  const program = fileURLToPath(new URL('./sdk-agent.js', import.meta.url))
  const child = spawn(process.execPath, ['--conditions=wardline-source', program, service.baseUrl, id], {
    env: { PATH: process.env.PATH ?? '', WARDLINE_KEY: key },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  running.add(child)
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk))
  const heard = async (word: string) =>
    void (await until(
      `${id}: ${word}`,
      () => output,
      (text) => text.includes(word),
      waitMs,
    ))
  await heard('ready')
  return {
    id,
    say: (description) => void child.stdin.write(`${description}\n`),
    use: (command) => void child.stdin.write(`use ${command}\n`),
    heard,
    async end() {
      running.delete(child)
      if (child.exitCode !== null) return
      child.kill('SIGKILL')
      await once(child, 'close')
    },
  }
}

/** Open requests of a page, without its stream, which belongs to a worker. */
const underWay = new WeakMap<Page, Set<Request>>()

/** Waits until a page has all responses and has rendered them. */
export async function settled(page: Page): Promise<void> {
  const count = () => underWay.get(page)?.size ?? 0
  do {
    await until('answers to all requests of the page', count, (open) => open === 0)
    // Rendering may start further requests.
    await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))')
  } while (count() > 0)
  // The history of agents is requested when their rows stay in view.
  await page.locator('.no-hour').first().waitFor({ state: 'detached' })
}

/** Records forbidden actions of a page, and its open requests. */
function watch(context: BrowserContext, { service, faults }: Screens, others: readonly string[]): void {
  context.on('page', (page) => {
    page.on('pageerror', (fault) => faults.push(`failed: ${fault.message}`))
    page.on('console', (message) => {
      const text = message.text()
      if (/Content.Security.Policy|TrustedHTML|TrustedScript|Refused to/i.test(text)) faults.push(`policy: ${text}`)
    })
    const requests = new Set<Request>()
    underWay.set(page, requests)
    page.on('request', (request) => void (request.resourceType() === 'fetch' && requests.add(request)))
    for (const end of ['requestfinished', 'requestfailed'] as const)
      page.on(end as 'requestfinished', (request) => void requests.delete(request))
    page.on('dialog', (dialog) => {
      faults.push(`a foreign script runs: ${dialog.message()}`)
      void dialog.dismiss()
    })
  })
  context.on('request', (request) => {
    if (![service.baseUrl, ...others].includes(new URL(request.url()).origin))
      faults.push(`asks another host: ${request.url()}`)
  })
}

let shared: Promise<Browser> | undefined

/** One browser for all files of a worker. It ends with the worker, whose pipe it reads. */
async function sharedBrowser(executablePath: string): Promise<Browser> {
  // Its sandbox needs rights that tests as root in a container lack; the pages are trusted.
  const args = ['--no-sandbox', '--disable-gpu', `--disable-features=${unseenParts.join(',')}`]
  // A crash fails one file, and not those after it.
  if (!(await shared)?.isConnected()) shared = chromium.launch({ executablePath, args })
  return await shared!
}

/** Ends what a page does, and forgets what its profile stored; false: the service is down, or the page is. */
async function emptyPage(page: Page): Promise<boolean> {
  const context = page.context()
  try {
    for (const other of context.pages()) if (other !== page) await other.close()
    await page.unrouteAll({ behavior: 'ignoreErrors' })
    await page.mouse.move(-1, -1)
    // The smallest page of the origin.
    await page.goto('/healthz')
    await page.evaluate('localStorage.clear(); sessionStorage.clear()')
    await context.clearCookies()
    return true
  } catch {
    return false
  }
}

/**
 * Starts one service for the tests of a file. Without a browser they are skipped with the reason. `others`: further
 * origins that its pages may ask.
 */
export function useScreens(env: Record<string, string> = {}, others: readonly string[] = []): Screens {
  const screens = { faults: [] as string[] } as Screens
  const contexts = new Set<BrowserContext>()
  const running = new Set<ChildProcess>()
  /** Pages to use again, by look: a new profile starts processes and compiles the dashboard, which is half the cost of a page. */
  const idle = new Map<string, Page[]>()
  const inUse = new Map<Page, string>()
  beforeAll(async () => {
    if (missing || chromiumPath === undefined) return
    screens.service = await startService({ env })
    screens.browser = await sharedBrowser(chromiumPath)
  })
  beforeEach(({ skip }) => {
    if (missing) skip(missing)
    screens.faults.length = 0
  })
  afterEach(async ({ task }) => {
    for (const [page, look] of inUse) {
      if (task.result?.state === 'fail' || !(await emptyPage(page))) continue
      contexts.delete(page.context())
      idle.set(look, [...(idle.get(look) ?? []), page])
    }
    inUse.clear()
    for (const context of contexts) await context.close()
    contexts.clear()
    expect(screens.faults).toEqual([])
  })
  afterAll(async () => {
    for (const child of running) child.kill('SIGKILL')
    for (const page of [...idle.values()].flat()) await page.context().close()
    await screens.service?.stop()
  })
  screens.open = async ({ scheme = 'dark', width = 1280 } = {}) => {
    const context = await screens.browser.newContext({
      baseURL: screens.service.baseUrl,
      colorScheme: scheme,
      viewport: { width, height: 860 },
      reducedMotion: 'reduce',
    })
    context.setDefaultTimeout(waitMs)
    contexts.add(context)
    watch(context, screens, others)
    return context
  }
  const newPage = async (look: Look) => await (await screens.open(look)).newPage()
  screens.emptied = async ({ scheme = 'dark', width = 1280 } = {}) => {
    const look = `${scheme} ${width}`
    const page = idle.get(look)?.pop() ?? (await newPage({ scheme, width }))
    await page.setViewportSize({ width, height: 860 })
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' })
    contexts.add(page.context())
    inUse.set(page, look)
    return page
  }
  screens.signedIn = async ({ key, at = '/', ...look } = {}) => {
    const page = at === nowhereYet ? await newPage(look) : await screens.emptied(look)
    // The request of the form. Loading the form first took half of each test; sign-in.test.ts tests the form.
    const headers = { 'x-monitor-key': key ?? screens.service.key }
    const answer = await page.context().request.post('/api/session', { headers })
    expect(answer.status(), await answer.text()).toBe(201)
    // The smallest page of the origin, in whose storage the dashboard keeps the secret of the session.
    if (!page.url().endsWith('/healthz')) await page.goto('/healthz')
    await page.evaluate(`localStorage.setItem('wardline.session', '${(await answer.json()).secret}')`)
    await page.goto(at)
    if (at !== nowhereYet) await page.getByText('Live', { exact: true }).first().waitFor()
    return page
  }
  screens.agent = (id) => startAgent(screens.service, id, running)
  return screens
}

export async function signIn(page: Page, key: string): Promise<void> {
  await page.goto('/')
  await page.getByLabel('API key').fill(key)
  await page.keyboard.press('Enter')
  await page.getByText('Live', { exact: true }).waitFor()
}
