import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type Browser, type BrowserContext, chromium, type Page, type Request } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest'
import { createKey } from '../fleet.ts'
import { isExternal, needsOwnProcess, type Service, startService, until } from '../service.ts'

/** The headless shell first: the same engine without the parts for a desktop takes a quarter less processor time. */
const executablePath = [
  '/usr/lib/chromium/chromium-headless-shell',
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
].find(existsSync)
const missing = isExternal
  ? needsOwnProcess
  : executablePath === undefined
    ? 'No Chromium: install the package chromium'
    : undefined

/** Parts of a browser that no test sees, and that cost a third of its time with each profile. */
const unseenParts = [
  // Two pages of suggestions, loaded beside each window for the line of addresses.
  'WebUIOmniboxPopup',
  'WebUIOmniboxAimPopup',
  // What Playwright switches off, because only the last list of a command line counts.
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

/** Only where the machine is busy with other tests does anything take so long. */
const waitMs = 30_000

/** For tests that prepare their page before it loads anything. */
export const nowhereYet = 'about:blank'

export interface Screens {
  service: Service
  browser: Browser
  /** A separate browser profile. What breaks the policy of the page, fails in it or leaves the service is noted. */
  open(options?: { scheme?: 'light' | 'dark'; width?: number }): Promise<BrowserContext>
  /** The same, signed in with the admin key or another one, live at the overview or another address. */
  signedIn(options?: { scheme?: 'light' | 'dark'; width?: number; key?: string; at?: string }): Promise<Page>
  /** Starts an agent with the real SDK. */
  agent(id: string): Promise<Agent>
  /** What went wrong in the pages of this test. */
  faults: string[]
}

export interface Agent {
  id: string
  /** Reports an event. */
  say(description: string): void
  /** Runs a command by a guarded tool. */
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

/** What a page has asked for; its stream belongs to a worker and is not among this. */
const underWay = new WeakMap<Page, Set<Request>>()

/** Waits until a page has all that it asked for, and has drawn it. */
export async function settled(page: Page): Promise<void> {
  const count = () => underWay.get(page)?.size ?? 0
  do {
    await until('answers to all requests of the page', count, (open) => open === 0)
    // What is drawn may ask for more.
    await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))')
  } while (count() > 0)
  // Hours of agents are asked for once their rows rest in view.
  await page.locator('.no-hour').first().waitFor({ state: 'detached' })
}

/** Notes what a page must never do, and what it waits for. */
function watch(context: BrowserContext, { service, faults }: Pick<Screens, 'service' | 'faults'>): void {
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
    if (!request.url().startsWith(service.baseUrl)) faults.push(`asks another host: ${request.url()}`)
  })
}

/** One service and one browser for the tests of a file, which are skipped with the reason where there is no browser. */
export function useScreens(env: Record<string, string> = {}): Screens {
  const screens = { faults: [] as string[] } as Screens
  const contexts: BrowserContext[] = []
  const running = new Set<ChildProcess>()
  beforeAll(async () => {
    if (missing || executablePath === undefined) return
    screens.service = await startService({ env })
    // Its sandbox needs rights that tests in a container, as root, do not have; the pages are our own.
    const args = ['--no-sandbox', '--disable-gpu', `--disable-features=${unseenParts.join(',')}`]
    screens.browser = await chromium.launch({ executablePath, args })
  })
  beforeEach(({ skip }) => {
    if (missing) skip(missing)
    screens.faults.length = 0
  })
  afterEach(async () => {
    for (const context of contexts.splice(0)) await context.close()
    expect(screens.faults).toEqual([])
  })
  afterAll(async () => {
    for (const child of running) child.kill('SIGKILL')
    await screens.browser?.close()
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
    contexts.push(context)
    watch(context, screens)
    return context
  }
  screens.signedIn = async ({ key, at = '/', ...options } = {}) => {
    const context = await screens.open(options)
    // What the form sends. Loading the form and then the overview took half of each test; sign-in.test.ts has the form.
    const headers = { 'x-monitor-key': key ?? screens.service.key }
    const answer = await context.request.post('/api/session', { headers })
    expect(answer.status(), await answer.text()).toBe(201)
    const page = await context.newPage()
    await page.goto(at)
    if (at !== nowhereYet) await page.getByText('Live', { exact: true }).first().waitFor()
    return page
  }
  screens.agent = (id) => startAgent(screens.service, id, running)
  return screens
}

export async function signIn(page: Page, key: string): Promise<void> {
  await page.goto('/')
  await page.getByLabel('Key of scope').fill(key)
  await page.keyboard.press('Enter')
  await page.getByText('Live', { exact: true }).waitFor()
}
