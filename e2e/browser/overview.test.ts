import { beforeAll, describe, expect, test } from 'vitest'
import { newInstance, postEvent, unique } from '../fleet.ts'
import { isExternal } from '../service.ts'
import { useScreens } from './browser.ts'

const screens = useScreens()

beforeAll(async () => {
  const { service } = screens
  if (isExternal || !service) return
  await newInstance(service)
  for (const toolName of ['web-search', 'web-search', 'shell-exec', 'homemade'])
    await postEvent(service, { event_type: 'tool_call', metadata: { toolName } })
  await postEvent(service, { severity: 'warning', event_type: 'egress_blocked' })
})

const chart = (name: RegExp) => screens.browser.contexts().at(-1)!.pages()[0]!.getByRole('group', { name })
const rangeOf = (url: string) => {
  const { searchParams } = new URL(url)
  return [Date.parse(searchParams.get('from') ?? ''), Date.parse(searchParams.get('to') ?? '')] as const
}

describe('the charts', () => {
  test('zoom into a range with the keyboard alone, which leads to its events and back', async () => {
    const page = await screens.signedIn()
    const severities = chart(/^Events of the last 24 hours/)
    await severities.focus()
    await page.keyboard.press('End')
    await page.keyboard.press('Shift+ArrowLeft')
    await severities.getByText('2 bars selected').waitFor()
    await page.keyboard.press('Enter')
    await page.waitForURL(/from=/)
    const [from, to] = rangeOf(page.url())
    expect(to - from).toBe(2 * 30 * 60_000)
    await chart(/^Events in this range: .* [1-9]\d* warning/).waitFor()
    await page.getByRole('link', { name: 'Open these events' }).click()
    await page.waitForURL('**/events?**')
    expect(rangeOf(page.url())).toEqual([from, to])
    await page.getByText('egress_blocked').first().waitFor()
    await page.goBack()
    await page.getByRole('button', { name: 'Reset zoom' }).click()
    await chart(/^Events of the last 24 hours/).waitFor()
    expect(new URL(page.url()).search).toBe('')
  })

  test('zoom into what a mouse drags over', async () => {
    const page = await screens.signedIn()
    const bars = page.getByRole('img', { name: /^Events of the last 24 hours/ })
    await bars.scrollIntoViewIfNeeded()
    const { x, y, width, height } = (await bars.boundingBox())!
    await page.mouse.move(x + width - 60, y + height / 2)
    await page.mouse.down()
    await page.mouse.move(x + width - 5, y + height / 2, { steps: 4 })
    await page.mouse.up()
    await page.waitForURL(/from=/)
    const [from, to] = rangeOf(page.url())
    expect(from).toBeLessThan(to)
    await page.getByRole('img', { name: /^Events in this range/ }).waitFor()
  })

  test('count tool calls by tool, also as a table', async () => {
    const page = await screens.signedIn()
    await page.getByRole('img', { name: 'Tool calls: 2 web-search, 1 shell-exec, 1 other' }).waitFor()
    await page.getByRole('region', { name: 'Tool calls' }).getByRole('button', { name: 'Table' }).click()
    const cells = await page.getByRole('group', { name: 'Tool calls' }).locator('td:nth-child(2)').allTextContents()
    expect(cells.reduce((sum, cell) => sum + Number(cell), 0)).toBe(2)
  })
})

describe('what needs attention', () => {
  test('is walked, suspended and opened by keys', async () => {
    const id = await newInstance(screens.service)
    await postEvent(screens.service, { severity: 'breach', event_type: 'data_export', instance_id: id, source: id })
    const page = await screens.signedIn()
    // The fleet is read every two seconds, so it has the agent later than its event.
    await page.getByRole('button', { name: `Suspend ${id}` }).waitFor()
    await page.keyboard.press('j')
    await page.keyboard.press('k')
    await page.keyboard.press('s')
    await page.getByRole('heading', { name: `Suspend ${id}` }).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await page.locator('h1').click()
    await page.keyboard.press('Enter')
    await page.waitForURL(`**/fleet/${id}`)
  })

  test('is acknowledged by a key where a channel takes alerts', async () => {
    const id = await newInstance(screens.service)
    const { status, text } = await screens.service.call('POST', '/api/alert-channels', {
      body: { name: unique('hook'), type: 'webhook', settings: { url: 'https://receiver.example/' } },
    })
    expect(status, text).toBe(201)
    await postEvent(screens.service, { severity: 'critical', event_type: 'first_report', instance_id: id, source: id })
    const page = await screens.signedIn()
    const item = page.getByRole('listitem').filter({ hasText: `${id} reports first_report` })
    await item.getByRole('button', { name: 'Acknowledge' }).waitFor()
    while ((await item.getAttribute('aria-current')) !== 'true') await page.keyboard.press('j')
    await page.keyboard.press('a')
    await item.waitFor({ state: 'detached' })
  })
})

test('on a phone an agent is suspended by two taps and a reason', async () => {
  const agent = await screens.agent(unique('phone'))
  await postEvent(screens.service, { severity: 'breach', event_type: 'leak', instance_id: agent.id, source: agent.id })
  const page = await screens.signedIn({ width: 390 })
  await page.getByRole('button', { name: `Suspend ${agent.id}` }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Reason').fill('Leaks customer data')
  await dialog.getByRole('button', { name: `Suspend ${agent.id}` }).click()
  await dialog.getByText(/^The agent confirmed after/).waitFor()
  await agent.end()
})
