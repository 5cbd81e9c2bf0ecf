import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startIdentityProvider } from '../../test-servers/identity-provider.ts'
import { createKey } from '../fleet.ts'
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
  expect((await screens.service.call('PUT', '/api/roles', { body: { mappings, version: 0 } })).status).toBe(200)
})

async function newPage(look: Parameters<typeof screens.open>[0] = {}): Promise<Page> {
  const context = await screens.open(look)
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

/** Opens a page of an admin who confirmed a moment ago. */
async function adminAt(at: string, look: Parameters<typeof newPage>[0] = {}): Promise<Page> {
  const page = await newPage(look)
  await page.goto(`${publicUrl}/auth/login?confirm=true`)
  await atProvider(page, 'root')
  await page.getByRole('heading', { name: 'Confirmed' }).waitFor()
  await page.goto(publicUrl + at)
  await page.getByText('Signed in as Grace Hopper').waitFor({ state: 'attached' })
  return page
}

const storedRoles = async () => (await screens.service.call<{ mappings: object[] }>('GET', '/api/roles')).body.mappings

test('admins see people with their role and its group, and end their sessions', async () => {
  const ada = await newPage()
  await enter(ada, 'ada')
  await ada.getByText('Live', { exact: true }).waitFor()
  const page = await adminAt('/people')
  await page.getByRole('row', { name: /^Grace Hopper \(you\) admin by admins/ }).waitFor()
  await page.getByRole('row', { name: /^Eve none: no group has a role/ }).waitFor()
  await page.getByLabel('Filter by name').fill('platform')
  await page.getByRole('link', { name: 'Ada Lovelace' }).click()
  const drawer = page.getByRole('dialog', { name: 'Person' })
  await drawer.getByRole('row', { name: 'Groups platform, everybody' }).waitFor()
  await drawer.getByRole('button', { name: 'End all sessions…' }).click()
  await page.getByRole('button', { name: 'End all sessions', exact: true }).click()
  await drawer.getByText('No open sessions.').waitFor()
  await ada.getByRole('heading', { name: 'Sign in' }).waitFor()
})

test('admins give and take roles, and are asked again before they give role admin', async () => {
  const page = await adminAt('/people?view=roles')
  await page.getByRole('button', { name: 'Add a role…' }).click()
  await page.getByLabel('Group', { exact: true }).fill('auditors')
  await page.locator('select[name=role]').selectOption('admin')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('Everyone in the group auditors').waitFor()
  expect(await storedRoles()).toEqual(mappings)
  await page.getByRole('button', { name: 'Give role admin' }).click()
  const row = page.getByRole('row').filter({ hasText: 'auditors' })
  await row.getByText('admin').waitFor()
  expect(await storedRoles()).toEqual([...mappings, { group: 'auditors', role: 'admin' }])
  await row.getByRole('button', { name: /^Change…/ }).click()
  await page.locator('select[name=role]').selectOption('viewer')
  await page.getByRole('button', { name: 'Save' }).click()
  await row.getByText('viewer').waitFor()
  await row.getByRole('button', { name: /^Remove…/ }).click()
  await page.getByRole('button', { name: 'Remove role' }).click()
  await row.waitFor({ state: 'detached' })
  const own = page.getByRole('row').filter({ hasText: 'admins' })
  await own.getByRole('button', { name: /^Remove…/ }).click()
  await page.getByText('Your own role comes from it.').waitFor()
  expect(await storedRoles()).toEqual(mappings)
})

test('a role is not changed in a table that another admin changed meanwhile', async () => {
  const page = await adminAt('/people?view=roles')
  await page.getByRole('button', { name: 'Add a role…' }).click()
  await page.getByLabel('Group', { exact: true }).fill('late')
  const { body } = await screens.service.call<{ version: number }>('GET', '/api/roles')
  const first = [...mappings, { group: 'added-first', role: 'viewer' }]
  const replaced = { mappings: first, version: body.version }
  expect((await screens.service.call('PUT', '/api/roles', { body: replaced })).status).toBe(200)
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('alert').filter({ hasText: 'it was changed meanwhile, read it again' }).waitFor()
  // Behind the dialog.
  await page.getByText('added-first').first().waitFor()
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('alert').filter({ hasText: 'it was changed meanwhile, read it again' }).waitFor()
  expect(await storedRoles()).toEqual(first)
  const restored = { mappings, version: body.version + 1 }
  expect((await screens.service.call('PUT', '/api/roles', { body: restored })).status).toBe(200)
})

test('each person lists their own sessions and ends one of another browser', async () => {
  const [one, other] = [await newPage(), await newPage()]
  await enter(one, 'ada')
  await one.getByText('Live', { exact: true }).waitFor()
  await enter(other, 'ada')
  await other.getByRole('link', { name: 'Your sessions' }).click()
  await other.getByText('Chrome on Linux (this browser)').waitFor()
  expect(await other.getByRole('button', { name: /^End/ }).count()).toBe(1)
  await other.getByRole('button', { name: /^End/ }).click()
  await other.getByRole('button', { name: /^End it/ }).click()
  await one.getByRole('heading', { name: 'Sign in' }).waitFor()
  await other.getByText('Session ended.').waitFor()
  await other.reload()
  await other.getByText('Chrome on Linux (this browser)').waitFor()
})

test('a person chooses mail, and reads to which address it goes and why none is sent', async () => {
  const page = await newPage()
  await enter(page, 'ada', '/account')
  const panel = page.getByRole('region', { name: 'Notifications by mail' })
  await panel.getByText('You get no mail.').waitFor()
  await panel.getByRole('button', { name: 'Change…' }).click()
  const dialog = page.getByRole('dialog', { name: 'Notifications by mail' })
  await dialog.getByLabel('Alerts assigned to me').check()
  await dialog.getByLabel('Alerts on agents with one of these tags, separated by commas').fill('env:prod, Finance')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await page.getByText('Saved. Nothing is sent yet.').waitFor()
  await panel.getByText('alerts assigned to you, and of alerts on agents with the tag env:prod or finance').waitFor()
  await panel.getByText('to ada@example.com. Nothing is sent: No mail channel sends mail to people').waitFor()
  const root = await newPage()
  await enter(root, 'root', '/account')
  const own = root.getByRole('region', { name: 'Notifications by mail' })
  await own.getByText('Nothing is sent: The provider sends no mail address of yours').waitFor()
})

test('only people sign in once an admin says so, and the page names the way that is left', async () => {
  const page = await adminAt('/people?view=sign-in')
  await page.getByRole('button', { name: 'Only people sign in…' }).click()
  await page.getByRole('button', { name: 'Only people sign in', exact: true }).click()
  await page.getByText('refused: only people sign in').waitFor()
  const login = await newPage()
  await login.goto(`${publicUrl}/login`)
  await login.getByText('Sign in with the local admin key').click()
  await login.getByText('each use raises a critical alert').waitFor()
  await login.getByLabel('API key').fill(await createKey(screens.service, { scope: 'viewer' }))
  await login.keyboard.press('Enter')
  await login.getByRole('alert').waitFor()
  await page.getByRole('button', { name: 'Let keys sign in…' }).click()
  await page.getByRole('button', { name: 'Let keys sign in', exact: true }).click()
  await page.getByText('allowed: people and keys sign in').waitFor()
})

test('others read which scope the page needs', async () => {
  const page = await newPage()
  await enter(page, 'ada', '/people')
  await page.getByText('Managing people requires scope admin.').waitFor()
  await page.goto(`${publicUrl}/keys`)
  await page.getByText('Managing keys requires scope admin.').waitFor()
})

test('a change that matters asks the person to confirm at the provider, and then works', async () => {
  const page = await newPage()
  await enter(page, 'root', '/keys')
  await page.waitForURL(`${publicUrl}/keys`)
  await page.getByLabel('Filter by name').waitFor()
  await page.keyboard.press('n')
  const dialog = page.getByRole('dialog', { name: 'Create a key' })
  await dialog.getByLabel(/^Agents/).fill('confirmed-agent')
  await dialog.getByRole('button', { name: 'Create key' }).click()
  const link = dialog.getByRole('alert').getByRole('link', { name: 'Confirm that it is you' })
  const opened = page.context().waitForEvent('page')
  await link.click()
  const tab = await opened
  await tab.locator('[name=login]').fill('root')
  await tab.locator('[name=password]').fill('any')
  await tab.getByRole('button', { name: 'Sign-in' }).click()
  await tab.getByRole('heading', { name: 'Confirmed' }).waitFor()
  await tab.close()
  await dialog.getByRole('button', { name: 'Create key' }).click()
  await page
    .getByRole('dialog')
    .getByRole('group', { name: /^Key with scope/ })
    .waitFor()
})

// Google sends no time of the sign-in by default.
test('a person whose provider cannot confirm reads what to do, and stays signed in', async () => {
  const page = await newPage()
  await enter(page, 'root')
  await page.getByText('Signed in as Grace Hopper').waitFor()
  const restore = provider.changeAnswers('/token', (body) => {
    const claims = JSON.parse(Buffer.from(String(body.id_token).split('.')[1]!, 'base64url').toString('utf8'))
    return { ...body, id_token: provider.sign({ ...claims, auth_time: undefined }) }
  })
  try {
    await page.goto(`${publicUrl}/auth/login?confirm=true`)
    await page.locator('[name=login]').fill('root')
    await page.locator('[name=password]').fill('any')
    await page.getByRole('button', { name: 'Sign-in' }).click()
    await page.getByRole('heading', { name: 'Not confirmed' }).waitFor()
  } finally {
    restore()
  }
  await page.getByRole('alert').filter({ hasText: 'make the change with the local admin key' }).waitFor()
  expect(await page.getByRole('link', { name: 'Try again' }).getAttribute('href')).toBe('/auth/login?confirm=true')
  await page.goto(publicUrl)
  await page.getByText('Signed in as Grace Hopper').waitFor()
})
