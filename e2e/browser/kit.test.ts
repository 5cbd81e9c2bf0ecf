import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { useScreens } from './browser.ts'

const screens = useScreens()
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const folder = mkdtempSync(join(tmpdir(), 'wardline-stories-'))
const types: Record<string, string> = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css' }

beforeAll(() => {
  const build = fileURLToPath(new URL('../../packages/dashboard/stories/build.ts', import.meta.url))
  execFileSync(process.execPath, ['--conditions=wardline-source', build, folder], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
})
afterAll(() => rmSync(folder, { recursive: true }))

/** Opens a story under the content security policy of the service. */
async function openStory(name: string, { texts = 'short' }: { texts?: 'short' | 'long' | 'rtl' } = {}): Promise<Page> {
  const page = await screens.emptied()
  const reply = await page.context().request.get('/', { headers: { accept: 'text/html' } })
  const policy = reply.headers()['content-security-policy']!
  expect(policy).toContain('trusted-types')
  await page.route('**/stories/**', (route) => {
    const file = new URL(route.request().url()).pathname.replace(/^\/stories\//, '') || 'index.html'
    const headers = { 'content-type': types[extname(file)]!, 'content-security-policy': policy }
    return route.fulfill({ headers, body: readFileSync(join(folder, file)) })
  })
  await page.goto(`/stories/?story=${name}&text=${texts}`)
  await page.getByRole('main').waitFor({ timeout: 10_000 })
  return page
}

async function expectAccessible(page: Page, name: string): Promise<void> {
  if (!(await page.evaluate("'axe' in globalThis"))) await page.evaluate(axe)
  const { violations } = (await page.evaluate(
    'axe.run(document, { resultTypes: ["violations"], rules: { region: { enabled: false } } })',
  )) as { violations: { id: string; nodes: { html: string; failureSummary: string }[] }[] }
  expect(violations.map(({ id, nodes }) => `${name} ${id}: ${nodes[0]?.html} ${nodes[0]?.failureSummary}`)).toEqual([])
  const overflow = await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth')
  expect(overflow, `${name} scrolls sideways`).toBeLessThanOrEqual(0)
}

const names = ['Buttons', 'Panels', 'Fields', 'Tables', 'Rows', 'Dialogs', 'Choices']
/** Colours and widths do not depend on each other. */
const looks = [
  { colorScheme: 'light', width: 1280 },
  { colorScheme: 'dark', width: 390 },
] as const

describe.each(['short', 'long', 'rtl'] as const)('with %s texts', (texts) => {
  test.each(names)('%s pass the checks of axe and fit a desktop and a phone', async (name) => {
    const page = await openStory(name, { texts })
    for (const { colorScheme, width } of looks) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
      await page.setViewportSize({ width, height: 860 })
      const look = `${name}, ${colorScheme}`
      await expectAccessible(page, look)
      for (const part of name === 'Dialogs' ? ['dialog', 'form', 'drawer'] : []) {
        await page.getByRole('button', { name: `Open the ${part}` }).click()
        await page.getByRole('dialog').waitFor()
        await expectAccessible(page, `${look}, ${part}`)
        await page.keyboard.press('Escape')
        await page.getByRole('dialog').waitFor({ state: 'detached' })
      }
      if (name === 'Choices') {
        await page.getByRole('button', { name: 'Actions' }).click()
        await page.getByRole('menu').waitFor()
        await expectAccessible(page, `${look}, menu`)
        await page.keyboard.press('Escape')
        await page.getByRole('menu').waitFor({ state: 'detached' })
      }
    }
  })
})

const focused = (page: Page) => page.evaluate('document.activeElement.textContent || document.activeElement.name')

describe('by the keyboard', () => {
  test('a dialog takes the focus, keeps it, closes on Escape and returns it', async () => {
    const page = await openStory('Dialogs')
    await page.getByRole('button', { name: 'Open the form' }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('dialog', { name: 'Assign' }).waitFor()
    await expect.poll(() => focused(page)).toBe('name')
    for (let press = 0; press < 12; press += 1) {
      await page.keyboard.press('Tab')
      await expect.poll(() => page.evaluate("document.activeElement.closest('[role=dialog]') !== null")).toBe(true)
    }
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await expect.poll(() => focused(page)).toBe('Open the form')
  })

  test('a form shows its fault where it was sent, and says in a toast what was done', async () => {
    const page = await openStory('Dialogs')
    await page.getByRole('button', { name: 'Open the form' }).click()
    await page.getByLabel('Name').fill('nobody')
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').getByRole('alert').getByText('No person has the name nobody.').waitFor()
    await page.getByLabel('Name').fill('Ada')
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    const toast = page.getByRole('region', { name: 'Messages' }).getByText('Assigned to Ada.')
    await toast.waitFor()
    // Keys and readers reach the messages by F6.
    await page.keyboard.press('F6')
    await page.getByRole('button', { name: 'Close' }).click()
    await toast.waitFor({ state: 'detached' })
  })

  test('a drawer steps through its list, but not while a person types', async () => {
    const page = await openStory('Dialogs')
    await page.getByRole('button', { name: 'Open the drawer' }).click()
    await page.keyboard.press('j')
    await page.getByRole('heading', { name: 'row-2' }).waitFor()
    await page.keyboard.press('k')
    await page.keyboard.press('k')
    await page.getByRole('heading', { name: 'row-0' }).waitFor()
    expect(await page.getByRole('button', { name: 'Newer' }).isDisabled()).toBe(true)
    await page.getByLabel('Note').press('j')
    expect(await page.getByLabel('Note').inputValue()).toBe('j')
    await page.getByRole('heading', { name: 'row-0' }).waitFor()
  })

  test('a menu opens, moves, acts and closes', async () => {
    const page = await openStory('Choices')
    await page.getByRole('button', { name: 'Actions' }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('menuitem', { name: 'Rotate…' }).waitFor()
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    await page.getByRole('status').getByText('revoke').waitFor()
    await page.keyboard.press('Enter')
    await page.getByRole('menu').waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('menu').waitFor({ state: 'detached' })
    await expect.poll(() => focused(page)).toContain('Actions')
  })

  test('tabs move by arrows and open by Enter', async () => {
    const page = await openStory('Choices')
    await page.getByRole('tab', { name: 'Queue' }).focus()
    await page.keyboard.press('ArrowRight')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Channels' }).waitFor()
    expect(await page.getByRole('tab', { name: 'Channels' }).getAttribute('aria-selected')).toBe('true')
  })

  test('a combobox finds, moves and picks', async () => {
    const page = await openStory('Choices')
    const field = page.getByRole('combobox', { name: 'Search agents' })
    await field.fill('1')
    await field.press('ArrowDown')
    await field.press('Enter')
    await page.getByRole('status').getByText('row-10').waitFor()
    expect(await field.inputValue()).toBe('1')
    await field.fill('nothing')
    await page.getByText('No results for "nothing".').waitFor()
  })

  test('a button that asks acts on the second press, and forgets the first when it is left', async () => {
    const page = await openStory('Buttons')
    const ask = page.getByRole('button', { name: 'Delete…' })
    await ask.focus()
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Delete it' }).waitFor()
    await page.keyboard.press('Tab')
    await ask.focus()
    await page.keyboard.press('Enter')
    await page.keyboard.press('Enter')
    await page.getByText('deleted').waitFor()
  })

  test('one chip of a group is on', async () => {
    const page = await openStory('Buttons')
    const chip = (name: string) => page.getByRole('group', { name: 'Status' }).getByRole('button', { name })
    await chip('Open').press('Enter')
    expect(await chip('Open').getAttribute('aria-pressed')).toBe('true')
    await chip('Open').press('Enter')
    expect(await chip('All').getAttribute('aria-pressed')).toBe('true')
  })
})

test('a long table shows its first rows, and all on request', async () => {
  const page = await openStory('Tables')
  expect(await page.getByRole('row').count()).toBe(11)
  await page.getByRole('button', { name: 'Show all 30' }).click()
  expect(await page.getByRole('row').count()).toBe(31)
})

test('of a hundred thousand rows those in view are drawn', async () => {
  const page = await openStory('Rows')
  await page.getByText('Row 0 ').waitFor()
  expect(await page.getByRole('listitem').count()).toBeLessThan(60)
  await page.getByRole('button', { name: 'Go to row 5,000' }).click()
  await page.getByText('Row 5000 ').waitFor()
})
