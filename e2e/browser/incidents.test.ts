import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startCommand } from '../command.ts'
import { createKey, createKeyDecoy, newInstance } from '../fleet.ts'
import { newDataDir } from '../service.ts'
import { settled, useScreens } from './browser.ts'

const screens = useScreens()
const markup = '"><img src=x onerror=alert(1)>\u202Etxt.exe'

/** An agent that touched a decoy and was suspended. */
async function incident(): Promise<string> {
  const { service } = screens
  const agent = await newInstance(service, 'incident')
  const { key } = await createKeyDecoy(service, agent, 'openai', 'a decoy')
  const meta = { tool: 'read_file', instance_id: agent }
  expect((await service.call('POST', '/api/honeypots/check/key', { body: { key, meta } })).status).toBe(200)
  expect((await service.call('POST', `/api/kill/${agent}`, { body: { reason: markup } })).status).toBe(200)
  return agent
}

test('leads from the agent to its bundle, shows what is in it, and downloads what verifies', async () => {
  const agent = await incident()
  const page = await screens.signedIn({ at: `/fleet/${agent}` })
  await page.getByRole('link', { name: 'Export evidence bundle' }).click()
  await page.waitForURL(`**/incidents?agent=${agent}`)
  const contents = page.getByRole('region', { name: 'Bundle contents' })
  await contents.getByText('decoy hits').waitFor()
  // The default end is the time at which the page was opened; stages of the suspension may be later.
  await page.getByRole('button', { name: '1 h', exact: true }).click()
  await page.waitForURL(/from=/)
  const timeline = page.getByRole('region', { name: 'Timeline' })
  await timeline.getByText('touched by').waitFor()
  await timeline.getByText('U+202E').first().waitFor()
  expect(await page.locator('img').count()).toBe(0)
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    contents.getByRole('button', { name: 'Download bundle' }).click(),
  ])
  expect(download.suggestedFilename()).toMatch(new RegExp(`^incident-${agent}-\\d{4}-\\d\\d-\\d\\d\\.tar\\.gz$`))
  const folder = newDataDir()
  const file = join(folder, 'bundle.tar.gz')
  await download.saveAs(file)
  const keys = join(folder, 'keys.json')
  writeFileSync(keys, (await screens.service.call('GET', '/.well-known/wardline-keys.json')).text)
  const { code, output } = await startCommand(['incident', 'verify', file, '--keys', keys], {}).ended
  expect(code, output).toBe(0)
  expect(output).toContain('decoy_hits 1')

  await page.reload()
  const past = page.getByRole('region', { name: 'Past exports' })
  await past.getByRole('link', { name: agent }).first().waitFor()
  await page.getByRole('group', { name: 'Verify', exact: true }).getByText('wardline incident verify').waitFor()
})

test('is used by keys alone, keeps its range in the address, and says why a range is refused', async () => {
  const agent = await incident()
  const page = await screens.signedIn()
  await page.keyboard.press('g')
  await page.keyboard.press('b')
  await page.waitForURL('**/incidents')
  await page.getByText('Choose an agent,').waitFor()
  await page.keyboard.press('/')
  await page.keyboard.type(agent)
  await page.keyboard.press('Enter')
  await page.waitForURL(`**/incidents?agent=${agent}`)
  await page.getByRole('button', { name: 'Download bundle' }).waitFor()
  await page.goto(`/incidents?agent=${agent}&from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z`)
  await page.getByRole('alert').filter({ hasText: 'from must be before to.' }).waitFor()
  await page.goto('/incidents?agent=nobody-at-all')
  await page.getByRole('alert').filter({ hasText: 'No instance with id nobody-at-all' }).waitFor()
})

test('says to others than admins which key it needs', async () => {
  const key = await createKey(screens.service, { scope: 'operator' })
  const page = await screens.signedIn({ key, at: '/incidents' })
  await page.getByText('require a key with scope admin').waitFor()
  expect(await page.getByRole('button', { name: 'Download bundle' }).count()).toBe(0)
})

test.each([
  ['dark', 1280],
  ['light', 768],
  ['light', 390],
] as const)('fits in %s, %d pixels wide', async (scheme, width) => {
  const agent = await incident()
  const page = await screens.signedIn({ at: `/incidents?agent=${agent}`, scheme, width })
  await page.getByRole('button', { name: 'Download bundle' }).waitFor()
  await settled(page)
  const overflow = await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth')
  expect(overflow).toBeLessThanOrEqual(0)
  if (process.env.PICTURES)
    await page.screenshot({ path: join(process.env.PICTURES, `incidents-${scheme}-${width}.png`), fullPage: true })
})
