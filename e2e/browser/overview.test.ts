import { beforeAll, describe, expect, test } from 'vitest'
import { anEvent, newInstance, postEvent, unique } from '../fleet.ts'
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

  // A flood was as many equal lines as fit, and 200 agents where there were 1,667.
  test('is one line for many agents, which opens into them and suspends them as one containment', async () => {
    const ids = await Promise.all(Array.from({ length: 25 }, () => newInstance(screens.service, 'flooded')))
    const type = unique('flood').replaceAll('-', '_')
    const flood = (id: string) =>
      Array.from({ length: 40 }, () => anEvent({ severity: 'critical', event_type: type, instance_id: id, source: id }))
    const body = ids.flatMap(flood)
    const stored = await screens.service.call('POST', '/api/events/batch', { body })
    expect(stored.body, stored.text).toMatchObject({ ok: true })
    const page = await screens.signedIn()
    const line = page.getByRole('listitem').filter({ hasText: `${type} on 25 agents` })
    await line.getByText(/^the first at .*, the newest at .* · 1,000 events/).waitFor()
    const queue = page.getByRole('region', { name: 'Needs attention' })
    expect(await queue.getByRole('listitem').filter({ hasText: type }).count()).toBe(1)
    await line.getByRole('button', { name: /^Suspend 25 agents…/ }).waitFor()
    const names = await line.getByRole('button').allTextContents()
    expect(names.map((name) => name.split(' : ')[0])).toEqual([
      `Acknowledge ${type} on 25 agents`,
      'Suspend 25 agents…',
      'Show agents',
    ])
    await line.getByRole('button', { name: /^Show agents/ }).click()
    await line.getByText('1–20 of 25 agents').waitFor()
    const sorted = ids.toSorted()
    await line.getByRole('link', { name: sorted[0]! }).waitFor()
    await line.getByRole('button', { name: 'Next' }).click()
    await line.getByRole('link', { name: sorted[24]! }).waitFor()
    const events = await line.getByRole('link', { name: 'Open their events' }).getAttribute('href')
    expect(events).toBe(`/events?event_type=${type}&severity=critical&last=24h`)
    await line.getByRole('button', { name: /^Hide agents/ }).click()
    await line.getByRole('link').first().waitFor({ state: 'detached' })
    await line.getByRole('button', { name: /^Suspend 25 agents…/ }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('heading', { name: 'Suspend 25 agents' }).waitFor()
    expect(await dialog.getByLabel('Reason').inputValue()).toBe(`${type} on 25 agents: `)
    await dialog.getByLabel('Reason').fill('Injected prompts')
    await dialog.getByLabel(/^Type suspend 25 agents/).fill('suspend 25 agents')
    await dialog.getByRole('button', { name: 'Suspend 25 agents' }).click()
    await dialog
      .getByText(/25 agents/)
      .first()
      .waitFor()
    await page.keyboard.press('Escape')
    // Nothing of it is running any more, so nothing is left to suspend, and it offers no resume.
    await line.getByText(/25 suspended/).waitFor()
    const left = await line.getByRole('button').allTextContents()
    expect(left.map((name) => name.split(' : ')[0])).toEqual([`Acknowledge ${type} on 25 agents`, 'Show agents'])
    await line.getByRole('button', { name: /^Show agents/ }).click()
    await line.getByRole('button', { name: /^Acknowledge/ }).click()
    await page.getByText('25 agents acknowledged.').waitFor()
    await line.waitFor({ state: 'detached' })
    const open = `/api/alerts?status=open&event_type=${type}`
    expect((await screens.service.call<{ alerts: unknown[] }>('GET', open)).body.alerts).toEqual([])
  })

  test('is acknowledged by a key where a channel takes alerts', async () => {
    const id = await newInstance(screens.service)
    const { status, text } = await screens.service.call('POST', '/api/alert-channels', {
      body: { name: unique('hook'), type: 'webhook', settings: { url: 'https://receiver.example/' } },
    })
    expect(status, text).toBe(201)
    await postEvent(screens.service, { severity: 'critical', event_type: 'first_report', instance_id: id, source: id })
    const page = await screens.signedIn()
    const item = page
      .getByRole('region', { name: 'Needs attention' })
      .getByRole('listitem')
      .filter({ hasText: `${id} reports first_report` })
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
