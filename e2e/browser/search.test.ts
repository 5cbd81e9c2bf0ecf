import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { beat, createKey, createPathDecoy, newInstance, unique } from '../fleet.ts'
import { nowhereYet, useScreens } from './browser.ts'

const screens = useScreens()
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

async function openSearch(page: Page) {
  await page.keyboard.press('Control+k')
  const field = page.getByRole('dialog', { name: 'Search' }).getByRole('combobox')
  await field.waitFor()
  return field
}

test('finds an agent in spite of a typo, and Enter opens its page', async () => {
  await beat(screens.service, 'billing-1')
  const page = await screens.signedIn()
  await openSearch(page)
  await page.keyboard.type('biling')
  const agents = page.getByRole('group', { name: 'Agents' })
  await agents.getByRole('option', { name: /^billing-1/ }).waitFor()
  await page.keyboard.press('Enter')
  await page.waitForURL('**/fleet/billing-1')
  await page.getByRole('heading', { level: 1 }).getByText('billing-1').first().waitFor()
})

/** Presses the shortcut, then keys without waiting between them, faster than a person types. */
async function searchAtOnce(page: Page, keys: string[]) {
  await page.keyboard.press('Control+k')
  await Promise.all(keys.map((key) => page.keyboard.press(key)))
}

// The first letters were lost, or opened another page: "g f" is a shortcut.
test('what is typed right after the shortcut is in the field, in order, also while the dialog loads', async () => {
  const page = await screens.signedIn({ at: nowhereYet })
  const held = Promise.withResolvers<void>()
  await page.route('**/assets/palette-*.js', async (route) => {
    await held.promise
    await route.continue()
  })
  await page.goto('/decoys')
  await page.getByText('Live', { exact: true }).first().waitFor()
  await searchAtOnce(page, [...'xg ft?', 'Backspace'])
  await page.getByRole('dialog', { name: 'Loading…' }).waitFor({ state: 'attached' })
  await page.keyboard.type('illing-2')
  held.resolve()
  const field = page.getByRole('dialog', { name: 'Search' }).getByRole('combobox')
  await expect.poll(() => field.inputValue()).toBe('xg ftilling-2')
  await page.keyboard.type('0')
  expect(await field.inputValue()).toBe('xg ftilling-20')
  await page.keyboard.press('Escape')
  // Now it is loaded, and the field gets the focus a moment later.
  for (let turn = 0; turn < 5; turn++) {
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await searchAtOnce(page, [...'g fleet-2'])
    await expect.poll(() => field.inputValue()).toBe('g fleet-2')
    await page.keyboard.press('Escape')
  }
  expect(new URL(page.url()).pathname).toBe('/decoys')
})

test('while the dialog loads, Escape gives up and Enter opens the best hit', async () => {
  const agent = await newInstance(screens.service, 'early')
  const page = await screens.signedIn({ at: nowhereYet })
  const held = Promise.withResolvers<void>()
  await page.route('**/assets/palette-*.js', async (route) => {
    await held.promise
    await route.continue()
  })
  await page.goto('/decoys')
  await page.getByText('Live', { exact: true }).first().waitFor()
  await page.keyboard.press('Control+k')
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  // The keys are shortcuts again.
  await page.keyboard.type('ge')
  await page.waitForURL('**/events')
  await page.keyboard.press('Control+k')
  await page.keyboard.type(agent)
  await page.keyboard.press('Enter')
  held.resolve()
  await page.waitForURL(`**/fleet/${agent}`)
  await page.getByRole('dialog').waitFor({ state: 'detached' })
})

// A fast typist presses Enter before the answer arrives: that must open the agent, not nothing.
test('opens the best hit also when Enter comes before the answer', async () => {
  const agent = await newInstance(screens.service, 'hurried')
  const page = await screens.signedIn()
  const held = Promise.withResolvers<void>()
  await page.route('**/api/search?*', async (route) => {
    await held.promise
    await route.continue()
  })
  await openSearch(page)
  await page.keyboard.type(agent)
  await page.getByRole('status').getByText('Searching…').waitFor()
  await page.keyboard.press('Enter')
  held.resolve()
  await page.waitForURL(`**/fleet/${agent}`)
})

test('groups what it finds, goes through all groups by the arrows, and opens each kind', async () => {
  const agent = await newInstance(screens.service, unique('mixed'))
  const decoy = await createPathDecoy(screens.service, agent, `/srv/${agent}/id_rsa`)
  const detection = { by: { instance_id: agent }, condition: 'by' }
  const rule = { title: `Calls of ${agent}`, severity: 'info', detection }
  const stored = await screens.service.call<{ id: string }>('POST', '/api/rules', { body: rule })
  const event = { severity: 'info', source: agent, event_type: 'note', description: 'x', instance_id: agent }
  const { body } = await screens.service.call<{ id: string }>('POST', '/api/events', { body: event })
  const page = await screens.signedIn()
  for (const [query, group, address] of [
    [agent, 'Agents', `/fleet/${agent}`],
    [`calls of ${agent}`, 'Rules', `/rules/${stored.body.id}`],
    [`${agent} id_rsa`, 'Decoys', `/decoys?open=${decoy.id}`],
    [body.id, 'Events', '/events?open='],
    ['WARDLINE_RETENTION_DAYS', 'Settings', '/settings?setting=WARDLINE_RETENTION_DAYS'],
  ]) {
    const field = await openSearch(page)
    await field.fill(query!)
    await page.getByRole('group', { name: group! }).getByRole('option').first().waitFor()
    await page.keyboard.press('Enter')
    await page.waitForURL((url) => `${url.pathname}${url.search}`.startsWith(address!))
    await page.getByRole('dialog', { name: 'Search' }).waitFor({ state: 'detached' })
    if (group !== 'Decoys' && group !== 'Events') continue
    await page.getByRole('dialog').waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
  }
  await page.getByRole('row', { name: /^WARDLINE_RETENTION_DAYS 90 default/ }).waitFor()
  expect(await page.getByRole('row', { name: /^WARDLINE_/ }).count()).toBe(1)
  const field = await openSearch(page)
  await field.fill(agent)
  await page.getByRole('group', { name: 'Decoys' }).waitFor()
  const options = await page.getByRole('option').count()
  const passed = new Set<string>()
  for (let step = 0; step < options; step++) {
    const id = await field.getAttribute('aria-activedescendant')
    passed.add((await page.locator(`[id="${id}"]`).textContent())!)
    await page.keyboard.press('ArrowDown')
  }
  expect(passed.size).toBe(options)
  await page.evaluate(axe)
  const { violations } = (await page.evaluate('axe.run(document, { resultTypes: ["violations"] })')) as {
    violations: { id: string; nodes: { html: string }[] }[]
  }
  expect(violations.map(({ id, nodes }) => [id, nodes[0]?.html])).toEqual([])
})

test('says that nothing was found, and finds no settings for a viewer', async () => {
  const page = await screens.signedIn({ key: await createKey(screens.service, { scope: 'viewer' }) })
  const field = await openSearch(page)
  for (const query of ['xylophone', 'WARDLINE_RETENTION_DAYS', '<>']) {
    await field.fill(query)
    await page.getByRole('status').getByText(`No results for "${query}".`).waitFor()
    expect(await page.getByRole('option').count()).toBe(0)
  }
})

test('still finds pages and actions while the service does not answer', async () => {
  const page = await screens.signedIn()
  await page.getByRole('region', { name: 'Live events' }).waitFor()
  const field = await openSearch(page)
  await page.route('**/api/**', (route) => route.abort())
  await field.fill('billing')
  await page.getByRole('status').getByText('The service does not answer. Pages and actions are still found.').waitFor()
  await field.fill('alerst')
  await page.getByRole('group', { name: 'Pages' }).getByRole('option', { name: 'Alerts', exact: true }).waitFor()
  await page.keyboard.press('Enter')
  await page.waitForURL('**/alerts')
})
