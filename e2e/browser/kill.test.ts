import { describe, expect, test } from 'vitest'
import { newInstance, postEvent, unique } from '../fleet.ts'
import { useScreens } from './browser.ts'

const screens = useScreens()

describe('suspending an agent', () => {
  test('shows each stage as it happens, until a real agent confirmed, and resumes it', async () => {
    const agent = await screens.agent(unique('stopped'))
    const page = await screens.signedIn({ at: `/fleet/${agent.id}` })
    await page.getByRole('button', { name: `Suspend ${agent.id}` }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('A command that is running already').waitFor()
    // Nothing is wrong with an agent that was never suspended: its first line is no warning.
    const [first] = await dialog
      .getByRole('list', { name: 'What this reaches' })
      .getByRole('listitem')
      .allTextContents()
    expect(first).toMatch(/^○New tool calls and tasks guarded by its SDKno control message was sent to this agent yet/)
    await dialog.getByRole('button', { name: 'Wrong output' }).click()
    await dialog.getByLabel('Reason').fill('Wrong output: mails twice')
    await dialog.getByRole('button', { name: `Suspend ${agent.id}` }).click()
    await dialog.getByText(/^The agent confirmed after [\d,]+ ms\. It is proven stopped once/).waitFor()
    await agent.heard('suspended')
    // Stages arrive one by one, and the agent's acknowledgement may be the first to be shown.
    const stages = dialog.getByRole('list', { name: 'Stages' }).getByRole('listitem')
    await stages.filter({ hasText: 'Acknowledged', hasNotText: 'not observed' }).waitFor()
    expect(await stages.count()).toBe(6)
    expect(await stages.filter({ hasText: 'Silent' }).filter({ hasText: 'not observed' }).count()).toBe(1)
    expect(await dialog.getByText(/\bstopped[.,:]/).count()).toBe(0)
    await dialog.getByRole('button', { name: 'Close' }).click()
    await page.getByRole('heading', { name: /^Suspended, confirmed after [\d,]+ ms$/ }).waitFor()
    await page.getByRole('button', { name: `Resume ${agent.id}` }).click()
    await dialog.getByText('Wrong output:').waitFor()
    await page.keyboard.press('Control+Enter')
    await dialog.getByText(/^The agent confirmed after [\d,]+ ms and accepts new work/).waitFor()
    await agent.heard('resumed')
    await agent.end()
  })

  test('shows the same stages from the queue of the overview', async () => {
    const agent = await screens.agent(unique('queued'))
    await postEvent(screens.service, { severity: 'breach', instance_id: agent.id, description: unique('breach') })
    const page = await screens.signedIn()
    const item = page
      .getByRole('region', { name: 'Needs attention' })
      .getByRole('listitem')
      .filter({ hasText: agent.id })
      .first()
    await item.getByRole('button', { name: `Suspend ${agent.id}` }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Reason').fill('From the queue')
    await page.keyboard.press('Control+Enter')
    await dialog.getByText(/^The agent confirmed after/).waitFor()
    // Styles of the queue once displayed the letters of a stage vertically.
    for (const stage of await dialog.getByRole('list', { name: 'Stages' }).locator('b').all()) {
      const { width = 0, height = 0 } = (await stage.boundingBox()) ?? {}
      expect(width).toBeGreaterThan(height)
    }
    await agent.end()
  })

  test('needs no more than a keyboard', async () => {
    const agent = await screens.agent(unique('keyed'))
    const page = await screens.signedIn()
    await page.keyboard.press('g')
    await page.keyboard.press('f')
    await page.waitForURL('**/fleet')
    await page.getByLabel('Filter by id').waitFor()
    await page.keyboard.press('/')
    await page.keyboard.type(agent.id)
    await page.keyboard.press('Enter')
    await page.waitForURL(`**/fleet?q=${agent.id}`)
    await page.getByRole('link', { name: agent.id }).waitFor()
    await page.keyboard.press('x')
    await page.getByText('1 selected').waitFor()
    await page.keyboard.press('Shift+K')
    await page.getByRole('dialog').waitFor()
    await page.keyboard.type('Stopped by hand')
    await page.keyboard.press('Control+Enter')
    await page.getByText(/^The agent confirmed after/).waitFor()
    await agent.heard('suspended')
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await agent.end()
  })

  // An operator who reads "stopped" goes back to bed, so the word requires the agent's acknowledgement.
  test('never calls an agent stopped that has not confirmed', async () => {
    const deaf = await newInstance(screens.service)
    const agent = await screens.agent(unique('hears'))
    const page = await screens.signedIn({ at: '/fleet' })
    await page.getByLabel(`Select ${deaf}`, { exact: true }).check()
    await page.getByLabel(`Select ${agent.id}`, { exact: true }).check()
    await page.getByRole('button', { name: /^Suspend 2/ }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Reason').fill('Both at once')
    await dialog.getByLabel('Type suspend 2 agents').fill('suspend 2 agents')
    await dialog.getByRole('button', { name: 'Suspend 2 agents' }).click()
    await dialog.getByText('Suspending 2 agents: 1 confirmed.').waitFor()
    await dialog.getByRole('link', { name: deaf }).waitFor()
    await dialog.getByRole('link', { name: agent.id }).waitFor({ state: 'detached' })
    await dialog.getByRole('button', { name: 'Close' }).click()
    await page.getByRole('row').filter({ hasText: deaf }).getByText('suspended, not confirmed').waitFor()
    await page.goto('/')
    await page.getByRole('heading', { name: `${deaf} has not confirmed its suspension.` }).waitFor()
    await page.goto(`/fleet/${deaf}`)
    await page.getByRole('heading', { name: /^Suspended, not confirmed for \d+ s$/ }).waitFor()
    await agent.end()
  })

  test('says why the service refuses', async () => {
    const agent = await newInstance(screens.service)
    const page = await screens.signedIn({ at: `/fleet/${agent}` })
    await page.getByRole('button', { name: `Suspend ${agent}` }).click()
    await page.getByRole('dialog').getByText('A command that is running already').waitFor()
    // Another operator was faster.
    await screens.service.call('POST', `/api/kill/${agent}`, { body: { reason: 'first' } })
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Reason').fill('second')
    await dialog.getByRole('button', { name: `Suspend ${agent}` }).click()
    await dialog.getByText('Not suspended.').waitFor()
    await dialog
      .getByText(/already suspended/i)
      .first()
      .waitFor()
  })

  test('is found by ⌘K', async () => {
    const agent = await screens.agent(unique('searched'))
    const page = await screens.signedIn()
    await page.keyboard.press('Control+k')
    await page.getByRole('dialog', { name: 'Search' }).waitFor()
    await page.keyboard.type(`suspend ${agent.id}`)
    await page
      .getByRole('option', { name: new RegExp(agent.id) })
      .first()
      .waitFor()
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: `Suspend ${agent.id}` }).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await agent.end()
  })
})
