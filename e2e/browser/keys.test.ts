import type { Locator, Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { createKey, unique } from '../fleet.ts'
import { until } from '../service.ts'
import { nowhereYet, useScreens } from './browser.ts'

const screens = useScreens()

const stored = 'JSON.stringify([location.href, document.cookie, { ...localStorage }, { ...sessionStorage }])'

/** Opens the dialog of one of the row's actions. */
async function choose(row: Locator, action: string): Promise<void> {
  await row.getByRole('button', { name: /^Actions/ }).click()
  await row.page().getByRole('menuitem', { name: action }).click()
}

/** The key in the dialog, which must appear nowhere after the dialog is closed. */
async function takeKey(page: Page): Promise<string> {
  const dialog = page.getByRole('dialog')
  const key = (await dialog.getByRole('group', { name: /^Key with scope/ }).textContent()) ?? ''
  expect(key).toMatch(/^wl_\w+/)
  expect(await page.evaluate(stored)).not.toContain(key)
  await page.mouse.click(5, 5)
  await dialog.getByRole('button', { name: 'Close' }).click()
  await dialog.waitFor({ state: 'detached' })
  expect(await page.content()).not.toContain(key)
  return key
}

test('creates a bound key, rotates it and revokes it', async () => {
  const page = await screens.signedIn({ at: '/events' })
  const { service } = screens
  const id = unique('holder')
  const beat = async (key: string, instance_id = id) =>
    (await service.call('POST', '/api/heartbeat', { key, body: { instance_id, name: 'Holder' } })).status
  // On the events screen, `k` alone selects the previous row.
  await page.keyboard.press('g')
  await page.keyboard.press('k')
  await page.waitForURL('**/keys')
  await page.getByLabel('Filter by name').waitFor()
  await page.keyboard.press('n')
  const dialog = page.getByRole('dialog', { name: 'Create a key' })
  await dialog.getByLabel(/^Agents/).fill(`${id}, ${id}-2`)
  await dialog.getByLabel('Expires').selectOption('in 30 days')
  await dialog.getByRole('button', { name: 'Create key' }).click()
  const first = await takeKey(page)
  expect([await beat(first), await beat(first, 'another')]).toEqual([200, 403])
  const row = page.getByRole('row').filter({ hasText: id })
  await row.getByText('expires in 29 days').waitFor()

  await choose(row, 'Rotate…')
  await page.getByLabel('Old key expires').selectOption('immediately')
  await page.getByRole('button', { name: 'Rotate key' }).click()
  const second = await takeKey(page)
  expect([await beat(first), await beat(second)]).toEqual([401, 200])
  // The page counts seconds: the old key is removed from the valid ones at the next second.
  await until(
    'one valid key',
    () => row.count(),
    (count) => count === 1,
  )

  await choose(row, 'Revoke…')
  await page.getByText('The key is refused within one second').waitFor()
  await page.keyboard.press('Escape')
  expect(await beat(second)).toBe(200)
  await choose(row, 'Revoke…')
  await page.getByRole('button', { name: 'Revoke key' }).click()
  // Rows behind an open dialog have no role.
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await row.waitFor({ state: 'detached' })
  expect(await beat(second)).toBe(401)
  await page.getByRole('button', { name: /^Revoked or expired/ }).click()
  await page.waitForURL('**/keys?show=ended')
  await page.getByRole('row').filter({ hasText: id }).getByText('revoked').first().waitFor()
})

test('creates the key of a supervisor, and one for certain models', async () => {
  const page = await screens.signedIn({ at: '/keys' })
  const id = unique('held')
  for (const [holder, models] of [
    ['their supervisor', ''],
    ['the agents', 'openai/gpt-5*, anthropic/*'],
  ] as const) {
    await page.getByRole('button', { name: 'Create a key' }).click()
    const dialog = page.getByRole('dialog', { name: 'Create a key' })
    await dialog.getByLabel(/^Agents/).fill(id)
    await dialog.getByLabel(/^Used by/).selectOption(holder)
    await dialog.getByLabel(/^Models/).fill(models)
    await dialog.getByRole('button', { name: 'Create key' }).click()
    await takeKey(page)
  }
  const rows = page.getByRole('row').filter({ hasText: id })
  await rows.filter({ hasText: 'agent (supervisor)' }).waitFor()
  await rows.filter({ hasText: 'models: anthropic/*, openai/gpt-5*' }).waitFor()
  interface Key {
    instances: string[]
    supervises: boolean
    models: string[] | null
  }
  const { body } = await screens.service.call<{ keys: Key[] }>('GET', '/api/keys')
  const created = body.keys.filter(({ instances }) => instances.includes(id))
  expect(created.map(({ supervises, models }) => [supervises, models])).toEqual([
    [true, null],
    [false, ['anthropic/*', 'openai/gpt-5*']],
  ])
})

// A key that expires before its successor was copied locks out its owner.
test('marks the own key, never expires it immediately by a rotation, and warns before it is revoked', async () => {
  const own = await createKey(screens.service, { scope: 'admin' })
  const page = await screens.signedIn({ at: '/keys', key: own })
  const row = page.getByRole('row').filter({ hasText: 'your key' })
  await choose(row, 'Rotate…')
  await page.getByText('you are signed out when it expires').waitFor()
  expect(await page.getByLabel('Old key expires').locator('option').allTextContents()).toEqual([
    'in 1 hour',
    'in 1 day',
    'in 7 days',
  ])
  await page.keyboard.press('Escape')
  await choose(row, 'Revoke…')
  await page.getByText('This is your key: you are signed out immediately.').waitFor()
  await page.getByText('This is the only valid admin key.').waitFor()
  await page.getByRole('button', { name: 'Revoke key' }).click()
  await page.getByRole('heading', { name: 'Sign in with a key' }).waitFor()
})

test('shows others which scope the keys require', async () => {
  const page = await screens.signedIn({ at: nowhereYet, key: await createKey(screens.service, { scope: 'operator' }) })
  const asked: string[] = []
  page.on('request', (request) => asked.push(new URL(request.url()).pathname))
  await page.goto('/keys?create=true')
  await page.getByText('Managing keys requires scope admin.').waitFor()
  expect(asked).not.toContain('/api/keys')
  expect(await page.getByRole('dialog').count()).toBe(0)
})
