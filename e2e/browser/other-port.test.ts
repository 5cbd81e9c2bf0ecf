import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { BrowserContext, Page } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { expectRefusal } from '../expectations.ts'
import { createKey, newInstance, unique } from '../fleet.ts'
import { until } from '../service.ts'
import { nowhereYet, signIn, useScreens } from './browser.ts'

// What an agent, or anything else on the machine, can do that serves a page on another port of the service's host.

const screens = useScreens({ WARDLINE_STREAM_AUTH: 'session' })
const ownPage = /^asks another host: http:\/\/127\.0\.0\.1:/

let foreign: Server
let foreignUrl = ''
/** Page that the foreign server serves. */
let page = ''
const cookies: string[] = []

beforeAll(async () => {
  foreign = createServer((request, response) => {
    if (request.headers.cookie !== undefined) cookies.push(request.headers.cookie)
    response.writeHead(200, { 'content-type': 'text/html' }).end(page)
  }).listen(0, '127.0.0.1')
  await once(foreign, 'listening')
  foreignUrl = `http://127.0.0.1:${(foreign.address() as AddressInfo).port}`
})
afterAll(() => void foreign?.close())
beforeEach(() => {
  page = '<!doctype html><title>harmless</title>'
  cookies.length = 0
})

/** Opens the foreign page in a tab of the operator's browser. */
async function visit(context: BrowserContext): Promise<Page> {
  const tab = await context.newPage()
  await tab.goto(foreignUrl)
  expect(screens.faults.filter((fault) => !ownPage.test(fault))).toEqual([])
  screens.faults.length = 0
  return tab
}

const heading = (tab: Page, name: string) => tab.getByRole('heading', { name })
const live = (tab: Page) => tab.getByText('Live', { exact: true }).first().waitFor()
const sessions = async (tab: Page) =>
  (await tab.context().request.get('/api/session', { headers: await secretOf(tab) })).status()
const secretOf = async (tab: Page) => ({
  'wardline-session': String(await tab.evaluate(`localStorage.getItem('wardline.session')`)),
})

describe('a page on another port of the host', () => {
  // The browser sends the cookie to every port; the server there uses it with forged headers.
  test('gets the cookie, with which its server can read, write, listen and export nothing', async () => {
    const { service } = screens
    const operator = await screens.signedIn()
    const tab = await visit(operator.context())
    expect(cookies[0]).toMatch(/^wardline=[\w-]{43}$/)
    expect(await tab.evaluate('JSON.stringify([document.cookie, { ...localStorage }])')).toBe('["",{}]')
    const agent = await newInstance(service)
    const keys = async () => (await service.call('GET', '/api/keys')).text
    const before = await keys()
    const range = 'from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z'
    const calls = [
      ['GET', '/api/status', undefined],
      ['GET', '/api/session', undefined],
      ['GET', '/api/events', undefined],
      ['GET', '/api/audit', undefined],
      ['GET', '/api/stream', undefined],
      ['GET', `/api/instances/${agent}/control`, undefined],
      ['GET', `/api/incidents/export?instance_id=${agent}&${range}`, undefined],
      ['POST', '/api/keys', { scope: 'admin', name: 'lasting' }],
      ['POST', '/api/session', undefined],
      ['POST', '/api/login-links', undefined],
      ['POST', `/api/kill/${agent}`, { reason: 'forged' }],
      ['DELETE', '/api/session', undefined],
    ] as const
    const own = { 'sec-fetch-site': 'same-origin', origin: service.baseUrl }
    for (const [method, path, body] of calls) {
      const answer = await service.call(method, path, { key: null, headers: { cookie: cookies[0]!, ...own }, body })
      expectRefusal(answer, 401, 'header wardline-session')
      expect(answer.headers['set-cookie']).toBeUndefined()
    }
    // Few, because guesses are counted.
    for (const secret of [cookies[0]!.split('=')[1]!, 'A'.repeat(43), '']) {
      const headers = { cookie: cookies[0]!, 'wardline-session': secret, ...own }
      expectRefusal(await service.call('GET', '/api/status', { key: null, headers }), 401)
    }
    expect(await keys()).toBe(before)
    await operator.reload()
    await live(operator)
  })

  // A script there cannot read the secret, and browsers ask the service before they send a header of its choice.
  test('cannot read an answer or have a write accepted from the browser itself', async () => {
    const { service } = screens
    const operator = await screens.signedIn()
    const tab = await visit(operator.context())
    const agent = await newInstance(service)
    const asked = await tab.evaluate(`Promise.all([
      ['GET', '/api/status', {}],
      ['GET', '/api/status', { 'wardline-session': 'x' }],
      ['POST', '/api/kill/${agent}', { 'content-type': 'application/json' }],
      ['POST', '/api/kill/${agent}', { 'content-type': 'text/plain' }],
    ].map(([method, path, headers]) =>
      fetch('${service.baseUrl}' + path, {
        method, headers, credentials: 'include', ...(method === 'POST' ? { body: '{"reason":"forged"}' } : {}),
      }).then((answer) => answer.text(), () => 'nothing')))`)
    expect(asked).toEqual(['nothing', 'nothing', 'nothing', 'nothing'])
    const { body } = await service.call('GET', `/api/instances/${agent}/status`)
    expect(body).toEqual({ suspended: false, reason: null })
  })
})

describe('a login link that a foreign page opens', () => {
  async function link(name: string): Promise<string> {
    const { service } = screens
    const key = await createKey(service, { scope: 'viewer', name })
    const { body } = await service.call<{ url: string }>('POST', '/api/login-links', { key })
    page = `<!doctype html><title>harmless</title><script>location = ${JSON.stringify(body.url)}</script>`
    return body.url
  }

  // Whatever the operator then did would happen under a key of the attacker, who reads it.
  test('signs nobody in without a press, and names its key', async () => {
    const name = unique('attacker')
    await link(name)
    const tab = await visit(await screens.open())
    await heading(tab, 'Sign in with a link').waitFor()
    await tab.getByText(`with the key ${name} (scope viewer)`).waitFor()
    expect(tab.url()).toBe(`${screens.service.baseUrl}/login`)
    expect(await tab.context().cookies()).toEqual([])
    await tab.getByRole('button', { name: 'Sign in' }).click()
    await live(tab)
    await tab.getByText('viewer', { exact: true }).waitFor()
  })

  test('does not replace a session: it names both keys and asks to sign out first', async () => {
    const name = unique('attacker')
    const url = await link(name)
    const own = unique('operator')
    const key = await createKey(screens.service, { scope: 'operator', name: own })
    const operator = await screens.signedIn({ key })
    const tab = await visit(operator.context())
    await tab.getByText(`This browser is signed in with the key ${own} (scope operator)`).waitFor()
    await tab.getByText(`with the key ${name} (scope viewer)`).waitFor()
    expect(await tab.getByRole('button', { name: 'Sign in' }).count()).toBe(0)
    const forged = await tab.evaluate(`fetch('/api/login', {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'wardline-session': localStorage.getItem('wardline.session') },
      body: '{"code":"${url.split('#')[1]}"}',
    }).then((answer) => answer.status)`)
    expect(forged).toBe(409)
    await tab.getByRole('button', { name: 'Stay signed in' }).click()
    await live(tab)
    await tab.getByText('operator', { exact: true }).waitFor()
    await tab.goto(url)
    await tab.getByRole('button', { name: 'Sign out' }).click()
    await tab.getByRole('button', { name: 'Sign in' }).click()
    await live(tab)
    await tab.getByText('viewer', { exact: true }).waitFor()
  })

  test('that was used leads to the sign-in with a key', async () => {
    const url = await link(unique('used'))
    const code = url.split('#')[1]
    expect((await screens.service.call('POST', '/api/login', { key: null, body: { code } })).status).toBe(201)
    const tab = await (await screens.open()).newPage()
    await tab.goto(url)
    await tab.getByRole('alert').filter({ hasText: 'The login link was used' }).waitFor()
    await tab.getByRole('link', { name: 'Sign in with a key' }).click()
    await heading(tab, 'Sign in with a key').waitFor()
  })
})

describe('the session of a browser', () => {
  test('is that of all tabs: one signs out, all ask again; one signs in, and its stream is live', async () => {
    const first = await screens.signedIn()
    const second = await first.context().newPage()
    await second.goto('/wallboard')
    await live(second)
    await first.reload()
    await live(first)
    await first.getByRole('button', { name: 'Sign out' }).click()
    for (const tab of [first, second]) await heading(tab, 'Sign in with a key').waitFor()
    await signIn(first, await createKey(screens.service, { scope: 'viewer' }))
    await first.getByText('viewer', { exact: true }).waitFor()
    await second.goto('/events')
    await live(second)
    expect(await sessions(second)).toBe(200)
  })

  test('may be replaced by another tab while a request is under way', async () => {
    const tab = await screens.signedIn()
    const other = await tab.context().newPage()
    await other.goto('/healthz')
    let statuses: number[] = []
    other.context().on('response', (response) => {
      if (response.url().endsWith('/api/session')) statuses = [...statuses, response.status()]
    })
    await other.route(
      '**/api/session',
      async (route) => {
        // The request has the old secret; the browser adds the new cookie when it sends it.
        const opened = await other.context().request.post('/api/session', {
          headers: { 'x-monitor-key': screens.service.key },
        })
        const { secret } = await opened.json()
        await tab.evaluate(`localStorage.setItem('wardline.session', '${secret}')`)
        await route.continue()
      },
      { times: 1 },
    )
    await other.goto('/fleet')
    await live(other)
    expect(statuses).toEqual([401, 200])
    expect(new URL(other.url()).pathname).toBe('/fleet')
  })

  test('outlives a restart of the browser', async () => {
    const before = await screens.signedIn()
    const kept = await before.context().storageState()
    await before.context().close()
    const context = await screens.browser.newContext({ baseURL: screens.service.baseUrl, storageState: kept })
    const after = await context.newPage()
    await after.goto('/fleet')
    await live(after)
    await context.close()
  })

  test('lasts until a reload where the browser blocks storage', async () => {
    const context = await screens.open()
    await context.addInitScript(
      `Object.defineProperty(globalThis, 'localStorage', { get() { throw new Error('blocked') } })`,
    )
    const tab = await context.newPage()
    await signIn(tab, screens.service.key)
    await tab.reload()
    await heading(tab, 'Sign in with a key').waitFor()
  })

  // A page whose cookie another port has replaced must not act under the key of that cookie.
  test('is refused with the cookie of another session', async () => {
    const tab = await screens.signedIn({ at: nowhereYet })
    const answer = await screens.service.call('POST', '/api/session')
    const value = /wardline=([\w-]+)/.exec(String(answer.headers['set-cookie']))![1]!
    await tab.context().addCookies([{ name: 'wardline', value, url: screens.service.baseUrl }])
    await tab.goto('/')
    await heading(tab, 'Sign in with a key').waitFor()
  })
})

test('neither cookie nor secret of a session is in an address or in the log', async () => {
  const tab = await screens.signedIn({ at: nowhereYet })
  const addresses: string[] = []
  tab.context().on('request', (request) => addresses.push(request.url()))
  await tab.goto('/incidents')
  await live(tab)
  const { 'wardline-session': secret } = await secretOf(tab)
  const [cookie] = await tab.context().cookies()
  await until(
    'requests',
    () => addresses.length,
    (count) => count > 5,
  )
  for (const part of [secret, cookie!.value]) {
    expect(part).toMatch(/^[\w-]{43}$/)
    expect(addresses.join()).not.toContain(part)
    expect(screens.service.logs()).not.toContain(part)
  }
})
