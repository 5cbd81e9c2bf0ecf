import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { startIdentityProvider } from '../../test-servers/identity-provider.ts'
import { type Command, startCommand } from '../command.ts'
import { freePort, isExternal, until } from '../service.ts'
import { useScreens } from './browser.ts'

const port = await freePort()
// Another site than that of the provider, as in the world.
const publicUrl = `http://localhost:${port}`
const provider = await startIdentityProvider({
  publicUrl,
  accounts: { ada: { name: 'Ada Lovelace', groups: ['platform'] } },
})
// The pages of the provider ask for a font.
const fonts = 'https://fonts.googleapis.com'
const env = { ...provider.env(), PORT: String(port), WARDLINE_OIDC_NAME: 'Example Login' }
const screens = useScreens(env, [provider.issuer, publicUrl, fonts])
const folder = mkdtempSync(join(tmpdir(), 'wardline-login-page-'))
const opened = join(folder, 'opened')

beforeAll(async () => {
  if (isExternal || !screens.service) return
  const mappings = [{ group: 'platform', role: 'operator' }]
  expect((await screens.service.call('PUT', '/api/roles', { body: { mappings, version: 0 } })).status).toBe(200)
  const note = `#!/bin/sh\nprintf '%s' "$1" > "${opened}.part"\nmv "${opened}.part" "${opened}"\n`
  writeFileSync(join(folder, 'xdg-open'), note)
  chmodSync(join(folder, 'xdg-open'), 0o755)
})
afterAll(async () => {
  await provider[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true })
})
beforeEach(() => rmSync(opened, { force: true }))

async function newPage(look: Parameters<typeof screens.open>[0] = {}): Promise<Page> {
  const context = await screens.open(look)
  await context.route(`${fonts}/**`, (route) => route.abort())
  return context.newPage()
}

async function signIn(page: Page): Promise<void> {
  await page.getByRole('link', { name: 'Sign in', exact: true }).click()
  await page.getByRole('link', { name: 'Sign in with Example Login' }).click()
  await page.locator('[name=login]').fill('ada')
  await page.locator('[name=password]').fill('any')
  await page.getByRole('button', { name: 'Sign-in' }).click()
  await page.getByRole('button', { name: 'Continue' }).click()
}

const logIn = (...options: string[]): Command =>
  startCommand(
    ['login', publicUrl, ...options],
    { XDG_CONFIG_HOME: folder, PATH: `${folder}:${process.env.PATH}`, DISPLAY: ':0' },
    folder,
  )

/** Resolves with the page to which the address leads that the command opened. */
async function openedBy(command: Command): Promise<string> {
  const door = await until(
    'the browser',
    () => (existsSync(opened) ? readFileSync(opened, 'utf8') : command.output()),
    (text) => /^http:\/\/127\.0\.0\.1:\d+\/[\w-]{43}$/.test(text),
  )
  const page = (await fetch(door, { redirect: 'manual' })).headers.get('location')!
  expect(page.startsWith(`${publicUrl}/auth/cli#`)).toBe(true)
  return page
}

test('a person who is not signed in yet signs in, allows the command line, and their browser keeps no code', async () => {
  const command = logIn()
  const address = await openedBy(command)
  const code = address.split('#')[1]!
  const page = await newPage()
  await page.goto(address)
  await page.getByText('Sign in to go on').waitFor()
  expect(page.url()).toBe(`${publicUrl}/auth/cli`)
  await signIn(page)
  await page.getByText('asks to act as Ada Lovelace').waitFor()
  await page.getByText(code).waitFor()
  expect(command.stdout()).toBe('')
  await page.getByRole('button', { name: 'Allow' }).click()
  await page.getByText('The command line is logged in.').waitFor()
  expect(page.url()).toBe(`${publicUrl}/auth/cli?done=true`)
  const kept = await page.evaluate('JSON.stringify([history.state, document.cookie, { ...sessionStorage }])')
  expect(kept).not.toContain(code)
  expect(await command.ended).toMatchObject({ code: 0, stdout: expect.stringContaining('Person: Ada Lovelace') })
  await page.goto(`${publicUrl}/account`)
  await page.getByText(/^Command line on/).waitFor()
  await page.getByText(/^Allowed the command line on .*, which ends with it$/).waitFor()
  await page.getByText('Allowed by Chrome on Linux; ends with it').waitFor()
  // The command line, on a port that no one knows before.
  expect(screens.faults.splice(0)).toEqual([
    expect.stringMatching(/^asks another host: http:\/\/127\.0\.0\.1:\d+\/\?code=/),
  ])
})

test('a code is typed on another machine, under a warning, and a link cannot spare the typing', async () => {
  const command = logIn('--no-browser')
  const output = await until(
    'the code',
    () => command.output(),
    (text) => /[A-Z]{4}-[A-Z]{4}/.test(text),
  )
  const [code] = /[A-Z]{4}-[A-Z]{4}/.exec(output)!
  const page = await newPage({ width: 390, scheme: 'dark' })
  await page.goto(`${publicUrl}/auth/cli#${code}`)
  await signIn(page)
  await page.getByText('Enter only a code that you see in your own terminal.').waitFor()
  expect(await page.getByRole('button', { name: 'Allow' }).count()).toBe(0)
  await page.getByLabel('Code').fill('BBBB-BBBB')
  await page.keyboard.press('Enter')
  await page.getByRole('alert').filter({ hasText: 'No login waits under this code' }).waitFor()
  await page.getByLabel('Code').fill(code.toLowerCase())
  await page.keyboard.press('Enter')
  await page.getByText('Allow it only if you have just run wardline login yourself').waitFor()
  await page.getByRole('button', { name: 'Refuse' }).click()
  await page.getByText('Refused: the command line is not logged in.').waitFor()
  expect(await command.ended).toMatchObject({ code: 2, stderr: expect.stringContaining('was refused') })
})

test('a script without the secret of the session allows no login', async () => {
  const command = logIn()
  const code = (await openedBy(command)).split('#')[1]!
  const page = await newPage()
  await page.goto(`${publicUrl}/auth/cli#${code}`)
  await signIn(page)
  await page.getByText('asks to act as Ada Lovelace').waitFor()
  const status = await page.evaluate(
    `fetch('/api/command-logins/approve', { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ code: '${code}' }) }).then(({ status }) => status)`,
  )
  expect(status).toBe(401)
  command.kill('SIGTERM')
  await command.ended
})
