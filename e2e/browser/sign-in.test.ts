import { expect, test } from 'vitest'
import { createKey } from '../fleet.ts'
import { signIn, useScreens } from './browser.ts'

const screens = useScreens()

test('asks for a key, refuses a wrong one with the sentence of the service, and returns to the address', async () => {
  const page = await screens.emptied()
  await page.goto('/fleet?status=active')
  await page.getByRole('heading', { name: 'Sign in with a key' }).waitFor()
  await page.getByLabel('API key').fill('wl_admin_nobody')
  await page.keyboard.press('Enter')
  await page.getByRole('alert').filter({ hasText: /key/i }).waitFor()
  await page.getByLabel('API key').fill(screens.service.key)
  await page.keyboard.press('Enter')
  await page.waitForURL('**/fleet?status=active')
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByRole('heading', { name: 'Sign in with a key' }).waitFor()
  await page.goto('/events')
  await page.getByRole('heading', { name: 'Sign in with a key' }).waitFor()
})

// A link to the sign-in page must not redirect to another site.
test('never leads from the sign-in to another site', async () => {
  for (const to of ['https://evil.example/', '//evil.example/', '/\\evil.example/']) {
    const page = await screens.emptied()
    await page.goto(`/login?to=${encodeURIComponent(to)}`)
    await page.getByLabel('API key').fill(screens.service.key)
    await page.keyboard.press('Enter')
    await page.getByText('Live', { exact: true }).waitFor()
    expect(new URL(page.url()).origin).toBe(screens.service.baseUrl)
  }
})

test('leaves nothing of the key to scripts', async () => {
  const page = await screens.signedIn()
  const seen = await page.evaluate('JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }])')
  expect(seen).not.toContain(screens.service.key)
  expect(await page.evaluate('document.cookie')).toBe('')
  expect(await page.content()).not.toContain(screens.service.key)
})

test('shows a viewer why it cannot suspend', async () => {
  const agent = await screens.agent('looked-at')
  const page = await screens.signedIn({
    at: `/fleet/${agent.id}`,
    key: await createKey(screens.service, { scope: 'viewer' }),
  })
  const button = page.getByRole('button', { name: /^Suspend.*requires a key with scope operator/ })
  await button.waitFor()
  expect(await button.isDisabled()).toBe(true)
  await agent.end()
})

test('has one page for unknown addresses, with status 404, and JSON for programs', async () => {
  const page = await screens.emptied()
  const answer = await page.goto('/nowhere/at/all')
  expect(answer?.status()).toBe(404)
  await page.getByRole('heading', { name: 'Page not found' }).waitFor()
  for (const path of ['/nowhere', '/fleet', '/assets/nowhere.js']) {
    const { status, body } = await screens.service.call('GET', path, {
      key: null,
      headers: { accept: 'application/json' },
    })
    expect({ status, body }, path).toEqual({ status: 404, body: { error: 'Unknown route.' } })
  }
})

test('sends compressed files that never change, and pages that are asked for again', async () => {
  const { service } = screens
  const page = await service.call('GET', '/', { key: null, headers: { accept: 'text/html' } })
  expect(page.headers['cache-control']).toBe('no-cache')
  const script = /src="(\/assets\/index-[^"]+)"/.exec(page.text)?.[1] ?? ''
  for (const [offered, encoding] of [
    ['gzip, deflate, br', 'br'],
    ['gzip', 'gzip'],
    ['identity', undefined],
    ['br;q=0, gzip', 'gzip'],
  ] as const) {
    const { headers } = await service.call('GET', script, { key: null, headers: { 'accept-encoding': offered } })
    expect(headers['content-encoding'], offered).toBe(encoding)
    expect(headers['cache-control']).toBe('public, max-age=31536000, immutable')
    expect(headers['content-type']).toBe('text/javascript; charset=utf-8')
  }
  const { etag } = page.headers
  const again = await service.call('GET', '/', { key: null, headers: { accept: 'text/html', 'if-none-match': etag } })
  expect(again.status).toBe(304)
  const plain = await service.call('GET', '/', { key: null, headers: { accept: '*/*' } })
  expect(plain.text).toContain('<h1>Wardline</h1>')
})

test('has the chosen theme before the first paint', async () => {
  const page = await screens.signedIn({ scheme: 'light' })
  const theme = page.getByRole('button', { name: /^Theme: system/ })
  await theme.click()
  await page.reload({ waitUntil: 'commit' })
  await page.waitForFunction(`document.documentElement.style.colorScheme === 'dark'`)
  // While the root element is empty, no application code has run, but the theme is already set.
  await page.route('**/assets/index-*.js', (route) => route.abort())
  await page.reload({ waitUntil: 'load' })
  expect(await page.evaluate('document.documentElement.style.colorScheme')).toBe('dark')
  expect(await page.evaluate(`document.getElementById('root').childElementCount`)).toBe(0)
})

test('publishes the trust summary without a sign-in, from the public endpoint alone', async () => {
  const page = await screens.emptied()
  const asked: string[] = []
  page.on('request', (request) => asked.push(new URL(request.url()).pathname))
  await page.goto('/trust')
  await page.getByText('(0 is best)').waitFor()
  expect(asked.filter((path) => path.startsWith('/api/'))).toEqual(['/api/public/trust'])
})

test('keeps several people of one browser profile apart by signing in again', async () => {
  const page = await screens.signedIn()
  await page.getByText('admin', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByRole('heading', { name: 'Sign in with a key' }).waitFor()
  await signIn(page, await createKey(screens.service, { scope: 'viewer' }))
  await page.getByText('viewer', { exact: true }).waitFor()
})

test('says on the page People how to set up a provider, where there is none', async () => {
  const page = await screens.signedIn({ at: '/people' })
  await page.getByText(`WARDLINE_PUBLIC_URL=${screens.service.baseUrl}`).waitFor()
  await page.getByText(`${screens.service.baseUrl}/auth/callback`).waitFor()
  await page.goto('/auth/login')
  await page.getByRole('alert').filter({ hasText: 'No provider is configured' }).waitFor()
})
