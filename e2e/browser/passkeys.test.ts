import type { CDPSession, Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { freePort } from '../service.ts'
import { useScreens } from './browser.ts'

const port = await freePort()
const localhost = `http://localhost:${port}`
const screens = useScreens({ PORT: String(port) }, [localhost])

interface Device {
  cdp: CDPSession
  authenticatorId: string
}

/** Gives a page a device that has passkeys and asks for a finger, as Chromium's own tests do. */
async function addDevice(page: Page): Promise<Device> {
  const cdp = await page.context().newCDPSession(page)
  await cdp.send('WebAuthn.enable')
  const options = {
    protocol: 'ctap2',
    transport: 'internal',
    hasResidentKey: true,
    hasUserVerification: true,
    isUserVerified: true,
    automaticPresenceSimulation: true,
  } as const
  const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', { options })
  return { cdp, authenticatorId }
}

/** Another tab of the same browser has the same passkeys, but Chromium gives each tab its own device. */
async function shareDevice({ cdp, authenticatorId }: Device, tab: Page): Promise<void> {
  const { credentials } = await cdp.send('WebAuthn.getCredentials', { authenticatorId })
  const other = await addDevice(tab)
  for (const credential of credentials) {
    await other.cdp.send('WebAuthn.addCredential', { authenticatorId: other.authenticatorId, credential })
  }
}

async function newPage(look: Parameters<typeof screens.open>[0] = {}) {
  const page = await (await screens.open(look)).newPage()
  return { page, device: await addDevice(page) }
}

async function signInByKey(page: Page, at: string): Promise<void> {
  await page.goto(`${localhost}/login?by=key&to=${encodeURIComponent(at)}`)
  await page.getByLabel('API key').fill(screens.service.key)
  await page.keyboard.press('Enter')
  await page.waitForURL(localhost + at)
}

async function addPasskey(page: Page, name: string): Promise<void> {
  await page.getByRole('button', { name: 'Add a passkey…' }).click()
  const dialog = page.getByRole('dialog', { name: 'Add a passkey' })
  await dialog.getByLabel('Name', { exact: true }).fill(name)
  await dialog.getByRole('button', { name: 'Add passkey', exact: true }).click()
  await page.getByRole('row', { name: new RegExp(`^${name}`) }).waitFor()
}

test('the local admin adds a passkey, signs in with it, and is signed out when it is removed', async () => {
  const { page } = await newPage()
  await page.goto(`${localhost}/login`)
  await page.getByRole('heading', { name: 'Sign in with a key' }).waitFor()
  await signInByKey(page, '/account')
  await page.getByText('No passkeys.').waitFor()
  await addPasskey(page, 'Ada, laptop')

  await page.context().clearCookies()
  await page.goto(`${localhost}/login?to=/account`)
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
  await page.waitForURL(`${localhost}/account`)
  await page.getByText('Signed in as Ada, laptop').waitFor()
  await page.getByText('Sessions of the passkey Ada, laptop').waitFor()
  await page.getByText('(this session)').waitFor()

  const other = await newPage()
  await signInByKey(other.page, '/account')
  await other.page.getByRole('button', { name: /^Remove Ada/ }).click()
  await other.page.getByRole('button', { name: /^Remove it/ }).click()
  await other.page.getByText('No passkeys.').waitFor()
  await page.getByRole('heading', { name: 'Sign in with a key' }).waitFor()
})

test('a change that matters is confirmed with the passkey, and then works', async () => {
  const { page, device } = await newPage()
  await signInByKey(page, '/account')
  await addPasskey(page, 'Ada, phone')
  await page.context().clearCookies()
  // A session by a link of the command line was not confirmed.
  const link = await screens.service.call<{ url: string }>('POST', '/api/login-links')
  await page.goto(`${localhost}/login${new URL(link.body.url).hash}`)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await page.getByText('Live', { exact: true }).waitFor()
  await page.goto(`${localhost}/keys`)
  await page.getByLabel('Filter by name').waitFor()
  await page.keyboard.press('n')
  const dialog = page.getByRole('dialog', { name: 'Create a key' })
  await dialog.getByLabel(/^Agents/).fill('confirmed-agent')
  await dialog.getByRole('button', { name: 'Create key' }).click()
  const opened = page.context().waitForEvent('page')
  await dialog.getByRole('alert').getByRole('link', { name: 'Confirm that it is you' }).click()
  const tab = await opened
  await tab.getByRole('button', { name: 'Confirm with a passkey' }).waitFor()
  await shareDevice(device, tab)
  await tab.getByRole('button', { name: 'Confirm with a passkey' }).click()
  await tab.getByRole('heading', { name: 'Confirmed' }).waitFor()
  await tab.close()
  await dialog.getByRole('button', { name: 'Create key' }).click()
  await page
    .getByRole('dialog')
    .getByRole('group', { name: /^Key with scope/ })
    .waitFor()
})

test('a device without a passkey, and a request that is closed, are named', async () => {
  const first = await newPage()
  await signInByKey(first.page, '/account')
  await addPasskey(first.page, 'Ben')
  await first.page.getByRole('button', { name: 'Add a passkey…' }).click()
  const dialog = first.page.getByRole('dialog', { name: 'Add a passkey' })
  await dialog.getByLabel('Name', { exact: true }).fill('Ben again')
  await dialog.getByRole('button', { name: 'Add passkey', exact: true }).click()
  await dialog.getByRole('alert').filter({ hasText: 'already has a passkey' }).waitFor()
  const { page } = await newPage()
  await page.goto(`${localhost}/login`)
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
  await page.getByRole('alert').filter({ hasText: 'No passkey was used' }).waitFor()
})

test('at an IP address the page says why there are none', async () => {
  const page = await screens.signedIn({ at: '/account' })
  await page.getByText('is an IP address').waitFor()
  expect(await page.getByRole('button', { name: 'Add a passkey…' }).count()).toBe(0)
})
