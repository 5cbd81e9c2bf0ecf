import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startIdentityProvider } from '../../test-servers/identity-provider.ts'
import { freePort, isExternal } from '../service.ts'
import { useScreens } from './browser.ts'

const port = await freePort()
// Another site than that of the provider, as in the world.
const publicUrl = `http://localhost:${port}`
const provider = await startIdentityProvider({
  publicUrl,
  accounts: {
    ada: { name: 'Ada Lovelace', email: 'ada@example.com', email_verified: true, groups: ['platform', 'everybody'] },
    eve: { name: 'Eve', groups: ['everybody'] },
    root: { name: 'Grace Hopper', groups: ['admins'] },
  },
})
afterAll(() => provider[Symbol.asyncDispose]())
const env = { ...provider.env(), PORT: String(port), WARDLINE_OIDC_NAME: 'Example Login' }
// The pages of the provider ask for a font.
const fonts = 'https://fonts.googleapis.com'
const screens = useScreens(env, [provider.issuer, publicUrl, fonts])

const mappings = [
  { group: 'platform', role: 'operator' },
  { group: 'admins', role: 'admin' },
]

beforeAll(async () => {
  if (isExternal || !screens.service) return
  expect((await screens.service.call('PUT', '/api/roles', { body: { mappings } })).status).toBe(200)
})

async function newPage(): Promise<Page> {
  const context = await screens.open()
  await context.route(`${fonts}/**`, (route) => route.abort())
  return context.newPage()
}

/** Fills in the form of the provider, whose second page asks for consent. */
async function atProvider(page: Page, login: string): Promise<void> {
  await page.locator('[name=login]').fill(login)
  await page.locator('[name=password]').fill('any')
  await page.getByRole('button', { name: 'Sign-in' }).click()
  await page.getByRole('button', { name: 'Continue' }).click()
}

/** Signs a person in from the page at this address. */
async function enter(page: Page, login: string, at = '/'): Promise<void> {
  await page.goto(publicUrl + at)
  await page.getByRole('link', { name: 'Sign in with Example Login' }).click()
  await atProvider(page, login)
}

test('a person signs in at the provider, returns to the page they asked for, and is named', async () => {
  const page = await newPage()
  await enter(page, 'ada', '/fleet?status=active')
  await page.waitForURL(`${publicUrl}/fleet?status=active`)
  await page.getByText('Signed in as Ada Lovelace').waitFor()
  await page.getByText('operator', { exact: true }).waitFor()
  const kept = await page.evaluate('JSON.stringify([history.state, document.cookie, { ...sessionStorage }])')
  expect(kept).not.toMatch(/code=|state=|wardline\.sign-in/)
})

// A page that leads to the sign-in must not choose where it ends.
test('never leads from the provider to another site', async () => {
  const page = await newPage()
  await page.goto(`${publicUrl}/auth/login?to=${encodeURIComponent('//evil.example/')}`)
  await atProvider(page, 'ada')
  await page.getByText('Signed in as Ada Lovelace').waitFor()
  expect(page.url()).toBe(`${publicUrl}/`)
})

test('who is refused reads why, and can sign in as another person or with a key', async () => {
  const page = await newPage()
  await enter(page, 'eve', '/decoys')
  await page.getByRole('heading', { name: 'You are not signed in' }).waitFor()
  await page.getByRole('alert').filter({ hasText: 'None of your groups has a role' }).waitFor()
  expect(page.url()).toBe(`${publicUrl}/auth/callback`)
  expect(await page.getByRole('link', { name: 'Try again' }).getAttribute('href')).toBe('/auth/login?to=%2Fdecoys')
  await page.getByRole('link', { name: 'Sign in with a key' }).click()
  await page.getByLabel('API key').fill(screens.service.key)
  await page.keyboard.press('Enter')
  await page.waitForURL(`${publicUrl}/decoys`)
})

// An attacker who begins a sign-in and sends the callback address to someone would sign them in as the attacker.
test('an answer of the provider is worth nothing in another tab, and nothing the second time', async () => {
  const page = await newPage()
  const answers: string[] = []
  const sent: string[] = []
  page.on('request', (request) => {
    if (request.url().startsWith(`${publicUrl}/auth/callback?`)) answers.push(request.url())
    if (request.url().endsWith('/api/sign-in/finish')) sent.push(request.url())
  })
  await enter(page, 'ada')
  await page.getByText('Signed in as Ada Lovelace').waitFor()
  expect([answers.length, sent.length]).toEqual([1, 1])
  const tab = await newPage()
  await tab.goto(answers[0]!)
  await tab.getByRole('alert').filter({ hasText: 'began in another tab or browser' }).waitFor()
  expect(tab.url()).toBe(`${publicUrl}/auth/callback`)
  await tab.reload()
  await tab.getByRole('alert').filter({ hasText: 'no answer of the provider' }).waitFor()
  await tab.getByRole('link', { name: 'Try again' }).click()
  await tab.waitForURL(`${provider.issuer}/**`)
})

test('signing out ends the session at the provider too', async () => {
  const page = await newPage()
  await enter(page, 'ada')
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByRole('button', { name: 'Yes, sign me out' }).click()
  await page.waitForURL(`${publicUrl}/login**`)
  await page.getByRole('link', { name: 'Sign in with Example Login' }).click()
  await page.locator('[name=login]').waitFor()
  await page.goto(`${publicUrl}/fleet`)
  await page.waitForURL(`${publicUrl}/login?to=%2Ffleet`)
})

test('a provider that does not answer is named, and can be asked again', async () => {
  const page = await newPage()
  let start = () => {}
  await page.route('**/api/sign-in/finish', (route) => {
    start = provider.stop()
    return route.continue()
  })
  try {
    await enter(page, 'ada')
    await page.getByRole('alert').filter({ hasText: 'provider' }).waitFor()
  } finally {
    start()
  }
  await page.unrouteAll()
  await page.getByRole('link', { name: 'Try again' }).click()
  await page.getByText('Signed in as Ada Lovelace').waitFor()
})
