import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createKey, newInstance, postEvent, unique } from '../fleet.ts'
import { isExternal, until } from '../service.ts'
import type { Severity } from '../shapes.ts'
import { nowhereYet, useScreens } from './browser.ts'

const screens = useScreens({
  WARDLINE_ALERT_ALLOW_CIDRS: '127.0.0.0/8',
  WARDLINE_PUBLIC_URL: 'https://wardline.example.com',
})

const markup = '"><img src=x onerror=alert(1)><script>alert(2)</script>'
const unseen = 'safe\u202Etxt.exe'
const hostileAnswer = `Thank you ${markup} ${unseen}`

interface Got {
  url: string
  body: string
}
const got: Got[] = []
let receiver: Server
let address = ''
let channelId = ''

async function addChannel(fields: object): Promise<string> {
  const { status, text, body } = await screens.service.call('POST', '/api/alert-channels', {
    body: { daily_check: false, ...fields },
  })
  expect(status, text).toBe(201)
  return (body as { id: string }).id
}

beforeAll(async () => {
  if (isExternal || !screens.service) return
  receiver = createServer(async (request, response) => {
    const chunks: Buffer[] = await request.toArray()
    got.push({ url: request.url ?? '', body: Buffer.concat(chunks).toString() })
    response.writeHead(202, { 'content-type': 'text/plain; charset=utf-8' }).end(hostileAnswer)
  })
  await once(receiver.listen(0, '127.0.0.1'), 'listening')
  address = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`
  channelId = await addChannel({
    name: `Archive ${markup} ${unseen}`.slice(0, 80),
    type: 'webhook',
    settings: { url: `${address}/hook` },
  })
})
afterAll(() => void receiver?.close())

/** Creates an alert about an agent that only this test uses; returns its name in the queue. */
async function raise(severity: Severity = 'critical', description = unique('said')) {
  const { service } = screens
  const agent = await newInstance(service)
  const id = await postEvent(service, {
    severity,
    event_type: 'policy_violation',
    instance_id: agent,
    source: agent,
    description,
  })
  return { agent, id, headline: `${agent} reports a policy violation` }
}
const rowOf = (page: Page, headline: string) => page.getByRole('row').filter({ hasText: headline })
const alertOf = async (id: string) => (await screens.service.call('GET', `/api/alerts/${id}`)).body

describe('the queue', () => {
  test('shows an alert as it comes, acknowledges, assigns and resolves it, and says who did', async () => {
    const page = await screens.signedIn()
    await page.keyboard.press('g')
    await page.keyboard.press('a')
    await page.waitForURL('**/alerts')
    const { agent, id, headline } = await raise()
    const row = rowOf(page, headline)
    await row.waitFor()
    await page.getByRole('heading', { level: 1, name: /open alerts?/ }).waitFor()
    await row.getByRole('button', { name: `Acknowledge ${headline}` }).click()
    await page.getByText('1 alert acknowledged.').waitFor()
    await row.waitFor({ state: 'detached' })
    await page.getByRole('button', { name: /^Acknowledged/ }).click()
    await row.getByRole('link', { name: headline }).click()
    await page.waitForURL((url) => url.searchParams.get('alert') === id)
    const drawer = page.getByRole('dialog')
    await drawer.getByRole('button', { name: 'Assign to me' }).click()
    await page.getByText('1 alert assigned to you.').waitFor()
    await drawer.getByText('Assignee: WARDLINE_API_KEY').waitFor()
    await drawer.getByRole('textbox', { name: 'Comment' }).fill('Expected: load test\nuntil noon\u202e')
    await drawer.getByRole('button', { name: 'Add comment' }).click()
    const comment = drawer.getByRole('listitem').filter({ hasText: 'Expected: load test' })
    await comment.getByText('until noonU+202E', { exact: true }).waitFor()
    expect(await comment.locator('br').count()).toBe(1)
    expect(await comment.innerText()).not.toContain('↵')
    await drawer.getByRole('button', { name: 'False positive' }).click()
    await drawer.getByText(/WARDLINE_API_KEY resolved as a false positive/).waitFor()
    expect(await alertOf(id)).toMatchObject({
      status: 'resolved',
      verdict: 'false_positive',
      assignee_name: 'WARDLINE_API_KEY',
      comments: [{ text: 'Expected: load test\nuntil noon\u202e', author_name: 'WARDLINE_API_KEY' }],
    })
    // The URL shows the same to a colleague.
    await page.reload()
    await drawer.getByText('Resolved as a false positive', { exact: true }).waitFor()
    await drawer.getByRole('button', { name: 'Reopen' }).click()
    await page.getByText('1 alert reopened.').waitFor()
    await drawer.getByRole('link', { name: agent }).click()
    await page.waitForURL(`**/fleet/${agent}`)
  })

  test('needs no more than a keyboard, one by one and many at once', async () => {
    const { agent } = await raise()
    for (let more = 0; more < 2; more++)
      await postEvent(screens.service, { severity: 'critical', event_type: 'policy_violation', instance_id: agent })
    const page = await screens.signedIn({ at: `/alerts?instance_id=${agent}` })
    await page.getByRole('row').nth(3).waitFor()
    expect(await page.getByRole('button', { name: /^Open 3$/ }).getAttribute('aria-pressed')).toBe('true')
    await page.keyboard.press('j')
    await page.keyboard.press('a')
    await page.getByText('1 alert acknowledged.').waitFor()
    await page.getByRole('button', { name: /^Open 2$/ }).waitFor()
    await page.keyboard.press('Enter')
    const drawer = page.getByRole('dialog')
    await drawer.getByRole('heading', { name: /reports a policy violation/ }).waitFor()
    await page.keyboard.press('k')
    await page.keyboard.press('Escape')
    await drawer.waitFor({ state: 'detached' })
    await page.keyboard.press('k')
    await page.keyboard.press('x')
    await page.keyboard.press('j')
    await page.keyboard.press('x')
    await page.getByText('2 alerts selected').waitFor()
    await page.keyboard.press('a')
    await page.getByText('2 alerts acknowledged.').waitFor()
    await page.getByRole('button', { name: /^Acknowledged 3$/ }).click()
    await page.getByRole('row').nth(3).waitFor()
    await page.getByLabel('Select all 3 alerts shown').check()
    await page.getByRole('button', { name: 'Assign…' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('option', { name: 'WARDLINE_API_KEY (you)' }).waitFor({ state: 'attached' })
    const assignButton = dialog.getByRole('button', { name: 'Assign', exact: true })
    expect(await assignButton.isDisabled()).toBe(true)
    await page.keyboard.type('WARDLINE')
    await dialog.getByRole('button', { name: 'Assign', exact: true }).press('Enter')
    await page.getByText('3 alerts assigned.').waitFor()
    await page.getByLabel('Select all 3 alerts shown').check()
    await page.getByRole('button', { name: 'False positive' }).click()
    await page.getByText('3 alerts resolved as false positive.').waitFor()
  })

  test('says why the service refuses, and how many went through', async () => {
    const [first, second] = [await raise(), await raise()]
    const page = await screens.signedIn({ at: '/alerts' })
    await rowOf(page, second.headline).getByRole('checkbox').check()
    await rowOf(page, first.headline).getByRole('checkbox').check()
    await page.route(`**/api/alerts/${first.id}`, (route) =>
      route.fulfill({ status: 404, json: { error: 'No alert with that id.' } }),
    )
    await page.getByRole('button', { name: 'Resolve 2' }).click()
    await page.getByText('1 of 2 alerts resolved; the others failed: No alert with that id.').waitFor()
  })

  test('says how old its data is when the service is away', async () => {
    const page = await screens.signedIn({ at: nowhereYet })
    await page.clock.install()
    await page.goto('/alerts')
    await page.getByRole('button', { name: /^Open/ }).waitFor()
    await page.route('**/api/**', (route) => route.abort())
    await page.clock.fastForward(11_000)
    await page.getByRole('heading', { name: /^No answer from the service for \d+ s/ }).waitFor()
    await page.unroute('**/api/**')
    await page.getByRole('heading', { name: /^No answer/ }).waitFor({ state: 'detached' })
  })

  test('shows a viewer everything, and why it changes nothing', async () => {
    const { id, headline } = await raise()
    const page = await screens.signedIn({ at: '/alerts', key: await createKey(screens.service, { scope: 'viewer' }) })
    const button = rowOf(page, headline).getByRole('button', { name: /requires a key with scope operator/ })
    await button.waitFor()
    expect(await button.isDisabled()).toBe(true)
    await page.keyboard.press('a')
    await page.goto(`/alerts?alert=${id}`)
    await page.getByRole('heading', { name: 'Deliveries' }).waitFor()
    await page.keyboard.press('a')
    expect(await alertOf(id)).toMatchObject({ status: 'open' })
  })
})

describe('an alert', () => {
  test('shows the message as the channel received it, without the settings of the channel', async () => {
    const { id, agent } = await raise('breach', `${markup} ${unseen}`)
    await until(
      'the message',
      () => got.find(({ body }) => body.includes(id)),
      (message) => message !== undefined,
      30_000,
    )
    const page = await screens.signedIn({ at: `/alerts?alert=${id}` })
    const drawer = page.getByRole('dialog')
    await drawer.getByText('delivered after 1 attempt').waitFor()
    // The receiver's response is as hostile as any text.
    await drawer.getByText('<script>alert(2)</script>').first().waitFor()
    await drawer.getByText('U+202E').first().waitFor()
    await drawer.getByRole('button', { name: 'Message as received' }).click()
    const shown = drawer.locator('pre')
    await shown.getByText(`"instance_id": "${agent}"`).waitFor()
    const text = await shown.innerText()
    for (const part of ['alert.policy_violation', `https://wardline.example.com/alerts?alert=${id}`])
      expect(text).toContain(part)
    for (const secret of [address, '/hook', 'whsec_']) expect(text).not.toContain(secret)
  })

  test('is where the links in messages lead, and links to its event', async () => {
    const { id, agent, headline } = await raise()
    const { url } = await until(
      'the message',
      () => got.flatMap(({ body }) => (body.includes(id) ? JSON.parse(body).data : []))[0] ?? {},
      (data: { url?: string }) => data.url !== undefined,
      30_000,
    )
    const page = await screens.signedIn({ at: `${new URL(url!).pathname}${new URL(url!).search}` })
    const drawer = page.getByRole('dialog')
    await drawer.getByRole('heading', { name: headline }).waitFor()
    await drawer.getByRole('link', { name: /^policy_violation, number/ }).click()
    await page.waitForURL('**/events?**')
    await page.getByRole('dialog').getByText(agent).first().waitFor()
  })
})

/** What the style sheets make of a drawer and of the parts in it. Drawers are portalled out of the page that opens them. */
const drawerStyles = `(() => {
  const drawer = document.querySelector('[role=dialog]')
  const of = (element, ...names) => names.map((name) => getComputedStyle(element)[name]).join(' ')
  const { right, width } = drawer.getBoundingClientRect()
  return {
    drawer: of(drawer, 'position', 'backgroundColor'),
    isAtEdge: Math.round(right) === innerWidth,
    isWide: Math.round(width) === Math.min(620, innerWidth),
    heading: of(drawer.querySelector('h2'), 'fontSize'),
    facts: of(drawer.querySelector('th'), 'paddingLeft', 'fontWeight'),
    panel: of(drawer.querySelector('section'), 'borderTopWidth', 'borderTopStyle'),
    entry: of(drawer.querySelector('section li'), 'display', 'padding', 'fontSize'),
  }
})()`

describe.each(['light', 'dark'] as const)('in %s, drawers', (scheme) => {
  test.each([1440, 900, 390])('have their styles, %d pixels wide', async (width) => {
    const { id } = await raise()
    await until(
      'the message',
      () => got.find(({ body }) => body.includes(id)),
      (message) => message !== undefined,
      30_000,
    )
    const page = await screens.signedIn({ at: nowhereYet, scheme, width })
    for (const at of [`/alerts?alert=${id}`, `/alerts?view=channels&channel=${channelId}`]) {
      await page.goto(at)
      await page.getByRole('dialog').locator('section li').first().waitFor()
      expect(await page.evaluate(drawerStyles), at).toEqual({
        drawer: `fixed ${scheme === 'light' ? 'rgb(255, 255, 255)' : 'rgb(21, 25, 28)'}`,
        isAtEdge: true,
        isWide: true,
        heading: '17px',
        facts: '0px 400',
        panel: '1px solid',
        entry: 'grid 8px 14px 12.5px',
      })
    }
  })
})

describe('channels', () => {
  test('send a test to a real receiver, and show its real answer', async () => {
    const page = await screens.signedIn({ at: '/alerts?view=channels' })
    const row = page.getByRole('row', { name: /Archive/ })
    await row.getByRole('button', { name: 'Send test' }).click()
    await page.getByText(/^Test delivered in [\d,]+ ms\.$/).waitFor()
    const result = page.getByRole('group', { name: 'Test result' })
    await result.getByText('202', { exact: true }).waitFor()
    await result.getByText(/Thank you .*<script>/).waitFor()
    expect(got.map(({ body }) => JSON.parse(body).type)).toContain('channel.test')
    await row.getByText('working').waitFor()
    await result.getByRole('button', { name: 'Message as received' }).click()
    await result.getByText('"type": "channel.test"').waitFor()
  })

  test('are added by a form of their settings, tested, edited and deleted', async () => {
    const page = await screens.signedIn({ at: '/alerts?view=channels' })
    await page.getByRole('button', { name: 'Add channel…' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Type').selectOption('ntfy')
    const name = unique('pager')
    await dialog.getByLabel('Name', { exact: true }).fill(name)
    await dialog.getByLabel(/^URL/).fill('no address')
    await dialog.getByRole('button', { name: 'Add channel' }).click()
    await dialog.getByText(/settings\.url must be the http:\/\/ or https:\/\/ URL of a topic/).waitFor()
    await dialog.getByLabel(/^URL/).fill(`${address}/my-secret-topic`)
    await dialog.getByLabel(/^Token/).fill('tk_confidential')
    await dialog.getByRole('button', { name: 'Add channel' }).click()
    // The response of this receiver is not from ntfy: a 202 alone proves nothing.
    await dialog.getByRole('heading', { name }).waitFor()
    await dialog.getByRole('button', { name: 'Send test' }).click()
    await dialog.getByText(/^Test failed after [\d,]+ ms\.$/).waitFor()
    await dialog.getByText('The response of the receiver is not from ntfy.').first().waitFor()
    const message = dialog
      .getByRole('group', { name: 'Test result' })
      .getByRole('button', { name: 'Message as received' })
    await message.click()
    await dialog.getByText('"topic": "[secret]"').waitFor()
    expect(await page.content()).not.toMatch(/my-secret-topic|tk_confidential/)
    await dialog.getByRole('button', { name: 'Edit…' }).click()
    await dialog.getByLabel('Minimum severity').selectOption('breach')
    await dialog.getByLabel('From').fill('22:00')
    await dialog.getByLabel('To', { exact: true }).fill('07:00')
    await dialog.getByRole('button', { name: 'Save' }).click()
    await dialog.getByText('breach and above, at most 20 messages per minute').waitFor()
    await dialog.getByText(/^22:00 to 07:00/).waitFor()
    await dialog.getByRole('button', { name: 'Delete…' }).click()
    await dialog.getByRole('button', { name: /^Delete it/ }).click()
    await dialog.waitFor({ state: 'detached' })
    await page.getByRole('row', { name }).waitFor({ state: 'detached' })
  })

  test('show a generated signing secret once', async () => {
    const page = await screens.signedIn({ at: '/alerts?view=channels' })
    await page.getByRole('button', { name: 'Add channel…' }).click()
    const dialog = page.getByRole('dialog')
    const name = unique('signed')
    await dialog.getByLabel('Name', { exact: true }).fill(name)
    await dialog.getByLabel(/^URL/).fill(`${address}/signed`)
    await dialog.getByRole('button', { name: 'Add channel' }).click()
    await dialog.getByText(/^whsec_/).waitFor()
    await dialog.getByRole('button', { name: 'Close' }).click()
    await dialog.getByRole('heading', { name }).waitFor()
    expect(await page.content()).not.toContain('whsec_')
    const { body } = await screens.service.call('GET', '/api/alert-channels')
    const added = (body as { channels: { id: string; name: string }[] }).channels.find((one) => one.name === name)!
    await screens.service.call('DELETE', `/api/alert-channels/${added.id}`)
  })
})

describe('routes and silences', () => {
  test('are added, previewed and removed', async () => {
    const chat = await addChannel({ name: unique('chat'), type: 'slack', settings: { url: `${address}/slack` } })
    const page = await screens.signedIn({ at: '/alerts?view=routing' })
    await page.getByRole('button', { name: 'Add route…' }).click()
    const dialog = page.getByRole('dialog')
    const name = unique('Decoys')
    await dialog.getByLabel('Name', { exact: true }).fill(name)
    await dialog.getByLabel('breach').check()
    await dialog.getByLabel('Types').fill('honeypot_*, policy_violation')
    await dialog.getByLabel(/slack$/).check()
    await dialog.getByRole('button', { name: 'Add route' }).click()
    await dialog.waitFor({ state: 'detached' })
    await page.getByText('severity breach, type honeypot_* or policy_violation').waitFor()

    const preview = page.getByRole('region', { name: 'Route preview' })
    const ask = async (severity: string, type: string) => {
      await preview.getByLabel('Severity').selectOption(severity)
      await preview.getByLabel('Type').fill(type)
      await preview.getByRole('button', { name: 'Preview' }).click()
    }
    await ask('breach', 'policy_violation')
    await preview.getByText(`receives it, by ${name}`).waitFor()
    await ask('critical', 'policy_violation')
    await preview.getByText('no matching route').waitFor()
    await preview.getByText('Received by 1 of 2 channels.').waitFor()
    await ask('breach', 'No Type')
    await preview.getByText(/event_type /).waitFor()

    await page.getByRole('button', { name: 'Add silence…' }).click()
    await dialog.getByLabel('Reason').fill(`${markup} ${unseen}`)
    await dialog.getByRole('button', { name: 'Add silence' }).click()
    await dialog.getByText(/^This silences all alerts/).waitFor()
    await dialog.getByLabel('Types').fill('policy_violation')
    await dialog.getByLabel('Duration').selectOption('4')
    await dialog.getByRole('button', { name: 'Add silence' }).click()
    await dialog.waitFor({ state: 'detached' })
    await page.getByText('(3 h left)').or(page.getByText('(4 h left)')).waitFor()
    await ask('breach', 'policy_violation')
    await preview.getByText('suppressed by a silence').waitFor()
    await page.getByRole('button', { name: /^End now/ }).click()
    await page.getByText(/^No silences/).waitFor()

    await page.getByRole('button', { name: `Delete… ${name}` }).click()
    await page.getByRole('button', { name: `Delete it ${name}` }).click()
    await page.getByText(/^No routes: every channel receives all alerts/).waitFor()
    await screens.service.call('DELETE', `/api/alert-channels/${chat}`)
  })
})

test('without a channel alerts are handled all the same, and the screen says that nobody is notified', async () => {
  const { service } = screens
  await service.call('DELETE', `/api/alert-channels/${channelId}`)
  const { agent, headline, id } = await raise()
  const page = await screens.signedIn({ at: `/alerts?instance_id=${agent}` })
  await page.getByRole('heading', { level: 1, name: /^\d+ open alerts?, .*nobody is notified$/ }).waitFor()
  await page.getByText('Nobody is notified of alerts until a channel is set up').waitFor()
  await page.getByRole('button', { name: `Acknowledge ${headline}` }).click()
  await page.getByText('No matching alerts.').waitFor()
  expect(await alertOf(id)).toMatchObject({ status: 'acknowledged' })
  await page.goto(`/alerts?instance_id=${agent}&status=acknowledged&alert=${id}`)
  await page.getByRole('dialog').getByText('Acknowledged').first().waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('link', { name: 'Set up a channel' }).click()
  await page.getByText('No channels yet.').waitFor()
  await page.getByRole('button', { name: 'Add channel…' }).waitFor()
})
