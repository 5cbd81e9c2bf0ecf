import type { CDPSession, Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { effort } from '../../test-servers/effort.ts'
import { seededDraws } from '../../test-servers/seeded-draws.ts'
import { anEvent, unique } from '../fleet.ts'
import { until } from '../service.ts'
import { useScreens } from './browser.ts'

const screens = useScreens()
const maxGrowth = 20 * 1024 * 1024
/** An accelerated day: 100,000 events, 10,000 status changes, and a user who opens and closes screens and dialogs. */
const rounds = effort(3, 100)
const eventsPerRound = 1_000
const changesPerRound = effort(20, 100)
const agents = 50
/** By then lists, caches and compiled code of the page have reached their size. */
const warmRounds = effort(3, 5)

/** The same sequence in every run. */
function numbers(seed: number): (below: number) => number {
  const draw = seededDraws(seed)
  return (below) => Math.floor(draw() * below)
}

async function heapBytes(devtools: CDPSession): Promise<number> {
  // One collection is not enough: memory released by finalizers is collected by the next one.
  for (let pass = 0; pass < 3; pass++) await devtools.send('HeapProfiler.collectGarbage')
  return (await devtools.send('Runtime.getHeapUsage')).usedSize
}

async function report(pick: (below: number) => number, mark: string): Promise<void> {
  const events = Array.from({ length: eventsPerRound - 1 }, () =>
    anEvent({
      severity: (['info', 'info', 'info', 'warning', 'critical', 'breach'] as const)[pick(6)]!,
      instance_id: `day-${pick(agents)}`,
      session_id: `session-${pick(1_000)}`,
      description: 'Searched the knowledge base '.repeat(1 + pick(20)),
      metadata: { toolName: 'web-search', size: pick(10_000) },
    }),
  )
  const { status, text } = await screens.service.call('POST', '/api/events/batch', {
    body: [...events, anEvent({ description: mark, severity: 'breach' })],
  })
  expect(status, text).toBe(200)
}

async function changeStatus(pick: (below: number) => number): Promise<void> {
  for (let change = 0; change < changesPerRound; change += 2) {
    const id = `day-${pick(agents)}`
    const kill = await screens.service.call('POST', `/api/kill/${id}`, { body: { reason: `Change ${change}` } })
    expect(kill.status).toBe(200)
    expect((await screens.service.call('POST', `/api/resume/${id}`)).status).toBe(200)
  }
}

/** Opens screens by the navigation like a user, so the page is never reloaded. */
async function lookAround(page: Page, mark: string): Promise<void> {
  const screen = (name: string) => page.getByRole('navigation', { name: 'Screens' }).getByRole('link', { name }).first()
  await screen('Events').click()
  await page.getByText(mark).first().waitFor()
  await page.getByText(mark).first().click()
  await page.getByRole('dialog').waitFor()
  for (let event = 0; event < 5; event++) await page.keyboard.press('j')
  await page.keyboard.press('Escape')
  await screen('Fleet').click()
  await page
    .getByRole('link', { name: /^day-\d+$/ })
    .first()
    .click()
  await page.getByRole('heading', { name: /^day-/ }).waitFor()
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox').fill('day')
  await page.keyboard.press('Escape')
  await screen('Overview').click()
  await page.getByRole('region', { name: 'Live events' }).waitFor()
}

test('the memory of a tab stays flat over an accelerated day', async () => {
  const pick = numbers(13)
  for (let agent = 0; agent < agents; agent++) {
    const body = { instance_id: `day-${agent}`, name: `Agent ${agent}` }
    expect((await screens.service.call('POST', '/api/heartbeat', { body })).status).toBe(200)
  }
  const page = await screens.signedIn()
  const devtools = await page.context().newCDPSession(page)
  const measured: number[] = []
  for (let round = 0; round < warmRounds + rounds; round++) {
    const mark = unique('round')
    await changeStatus(pick)
    await report(pick, mark)
    await lookAround(page, mark)
    if (round >= warmRounds - 1) measured.push(await heapBytes(devtools))
  }
  const [first = 0, last = 0] = [measured[0], measured.at(-1)]
  const said = measured.map((bytes) => (bytes / 1024 / 1024).toFixed(1)).join(' ')
  console.log(`MiB after each round: ${said}`)
  expect(last - first, said).toBeLessThan(maxGrowth)
  await until(
    'a page that still lives',
    () => page.getByText('Live', { exact: true }).count(),
    (count) => count > 0,
  )
})
