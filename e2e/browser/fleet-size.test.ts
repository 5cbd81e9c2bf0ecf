import { expect, test } from 'vitest'
import { nowhereYet, settled, useScreens } from './browser.ts'

const screens = useScreens({ WARDLINE_MAX_INSTANCES: '3000' })
const small = 200
const large = 2_000
/** Refreshes of an open overview to compare: one every five seconds. */
const refreshes = 2

async function register(from: number, to: number): Promise<void> {
  const ids = Array.from({ length: to - from }, (_, n) => `sized-${String(from + n).padStart(5, '0')}`)
  for (let first = 0; first < ids.length; first += 50) {
    await Promise.all(
      ids.slice(first, first + 50).map(async (instance_id, n) => {
        const tags = ['env:production', `team:t${n % 7}`]
        const body = { instance_id, name: `Agent ${instance_id}`, version: `1.${n % 9}`, tags }
        expect((await screens.service.call('POST', '/api/heartbeat', { body })).status).toBe(200)
      }),
    )
  }
}

/** Bytes of the largest answer for each path that a page reads, and of the later answers about the fleet. */
async function readBytes(at: string): Promise<{ largest: Map<string, number>; refreshed: number[] }> {
  const page = await screens.signedIn({ at: nowhereYet })
  const devtools = await page.context().newCDPSession(page)
  await devtools.send('Network.enable')
  const largest = new Map<string, number>()
  const summaries: number[] = []
  const paths = new Map<string, string>()
  devtools.on('Network.requestWillBeSent', ({ requestId, request }) => {
    const { pathname } = new URL(request.url)
    if (pathname.startsWith('/api/')) paths.set(requestId, pathname)
  })
  const enough = Promise.withResolvers<void>()
  devtools.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
    const path = paths.get(requestId)
    if (path === undefined) return
    largest.set(path, Math.max(encodedDataLength, largest.get(path) ?? 0))
    if (path === '/api/fleet/summary') summaries.push(encodedDataLength)
    if (summaries.length > refreshes) enough.resolve()
  })
  await page.goto(at)
  await page.getByText('Live', { exact: true }).first().waitFor()
  await settled(page)
  await enough.promise
  await page.close()
  return { largest, refreshed: summaries.slice(1) }
}

// At 250,000 agents each screen read 5 MB every five seconds.
test('no answer of the overview and the fleet grows with the fleet', async () => {
  await register(0, small)
  const before = { overview: await readBytes('/'), fleet: await readBytes('/fleet') }
  await register(small, large)
  // A summary may be ten seconds old.
  await expect
    .poll(
      async () =>
        (await screens.service.call<{ state: { counts: { all: number } } }>('GET', '/api/fleet/summary')).body.state
          .counts.all,
      { timeout: 30_000 },
    )
    .toBe(large)
  const after = { overview: await readBytes('/'), fleet: await readBytes('/fleet') }
  for (const screen of ['overview', 'fleet'] as const) {
    for (const [path, bytes] of after[screen].largest)
      expect(bytes, `${screen}: ${path}`).toBeLessThan(2 * (before[screen].largest.get(path) ?? 0) + 4_000)
    // The fleet stays the same, so an answer says no more than that.
    for (const bytes of after[screen].refreshed) expect(bytes, screen).toBeLessThan(1_000)
  }
})
