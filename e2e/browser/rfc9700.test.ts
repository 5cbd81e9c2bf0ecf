import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startIdentityProvider } from '../../test-servers/identity-provider.ts'
import { freePort, isExternal } from '../service.ts'
import { useScreens } from './browser.ts'

/* The attacks of RFC 9700, section 4, on the pages; see packages/server/src/features/sign-in/rfc9700.test.ts. */

const port = await freePort()
// Another site than that of the provider, as in the world.
const publicUrl = `http://localhost:${port}`
const provider = await startIdentityProvider({
  publicUrl,
  accounts: { ada: { name: 'Ada Lovelace', groups: ['platform'] } },
})
/** A site of the attacker. Its pages are what a test says. */
let evilPage = ''
const referrers: (string | undefined)[] = []
const evil = createServer((request, response) => {
  referrers.push(request.headers.referer)
  response.writeHead(200, { 'content-type': 'text/html' }).end(evilPage)
})
await new Promise<void>((resolve) => evil.listen(0, '127.0.0.1', resolve))
const evilUrl = `http://127.0.0.1:${(evil.address() as AddressInfo).port}`
// The pages of the provider ask for a font.
const fonts = 'https://fonts.googleapis.com'
const env = { ...provider.env(), PORT: String(port), WARDLINE_OIDC_NAME: 'Example Login' }
const screens = useScreens(env, [provider.issuer, publicUrl, evilUrl, fonts])

beforeAll(async () => {
  if (isExternal || !screens.service) return
  const mappings = [{ group: 'platform', role: 'operator' }]
  expect((await screens.service.call('PUT', '/api/roles', { body: { mappings, version: 0 } })).status).toBe(200)
})
afterAll(async () => {
  evil.closeAllConnections()
  evil.close()
  await provider[Symbol.asyncDispose]()
})

async function newPage(): Promise<Page> {
  const context = await screens.open()
  await context.route(`${fonts}/**`, (route) => route.abort())
  return context.newPage()
}

async function signIn(page: Page, at = `${publicUrl}/auth/login`): Promise<void> {
  await page.goto(at)
  await page.locator('[name=login]').fill('ada')
  await page.locator('[name=password]').fill('any')
  await page.getByRole('button', { name: 'Sign-in' }).click()
  await page.getByRole('button', { name: 'Continue' }).click()
  await page.getByText('Signed in as Ada Lovelace').waitFor()
}

/** Opens the callback page with an answer that is refused, so that it stays open. */
async function atCallback(page: Page): Promise<void> {
  await page.goto(`${publicUrl}/auth/callback?code=the-code&state=the-state`)
  await page.getByRole('alert').filter({ hasText: 'began in another tab or browser' }).waitFor()
}

const attacks: [section: string, attack: string, run: () => Promise<void>][] = [
  [
    '4.2',
    'no other site gets the address of the callback, nor a part of it',
    async () => {
      const page = await newPage()
      await atCallback(page)
      referrers.length = 0
      await page.evaluate(`location.assign('${evilUrl}/')`)
      await page.waitForURL(`${evilUrl}/`)
      expect(referrers[0]).toBeUndefined()
    },
  ],
  [
    '4.3',
    'neither the history nor the storage has a code, and an answer is worth nothing in another tab or again',
    async () => {
      const page = await newPage()
      const answers: string[] = []
      page.on('request', (request) => {
        if (request.url().startsWith(`${publicUrl}/auth/callback?`)) answers.push(request.url())
      })
      await signIn(page)
      const kept = await page.evaluate(
        'JSON.stringify([location.href, history.state, document.cookie, { ...sessionStorage }, { ...localStorage }])',
      )
      expect(kept).not.toMatch(/code=|state=|wardline\.sign-in/)
      await page.goBack()
      expect(page.url()).not.toMatch(/code=/)
      expect(answers).toHaveLength(1)
      const tab = await newPage()
      await tab.goto(answers[0]!)
      await tab.getByRole('alert').filter({ hasText: 'began in another tab or browser' }).waitFor()
      expect(tab.url()).toBe(`${publicUrl}/auth/callback`)
      await tab.reload()
      await tab.getByRole('alert').filter({ hasText: 'no answer of the provider' }).waitFor()
      await tab.getByRole('link', { name: 'Try again' }).click()
      await tab.waitForURL(`${provider.issuer}/**`)
    },
  ],
  [
    '4.11',
    'the sign-in ends on a page of this service, whatever a link says',
    async () => {
      for (const to of ['//evil.example/', '/\\evil.example/', evilUrl, 'javascript:alert(1)']) {
        const page = await newPage()
        await signIn(page, `${publicUrl}/auth/login?to=${encodeURIComponent(to)}`)
        expect(page.url(), to).toBe(`${publicUrl}/`)
      }
    },
  ],
  [
    '4.16',
    'a page of another site frames neither sign-in nor permission of a command line',
    async () => {
      const page = await newPage()
      for (const path of ['/login', '/auth/login', '/auth/cli']) {
        evilPage = `<iframe src="${publicUrl}${path}"></iframe>`
        await page.goto(`${evilUrl}${path}`)
        const frame = page.frames().find((one) => one !== page.mainFrame())
        expect(frame?.url(), path).toMatch(/^chrome-error:/)
      }
      evilPage = ''
      screens.faults.length = 0
    },
  ],
  [
    '4.17',
    'a page that opened the callback neither keeps its window nor gets a message',
    async () => {
      evilPage = `<script>
        const heard = []
        addEventListener('message', ({ data }) => heard.push(data))
        const opened = open('${publicUrl}/auth/callback?code=x&state=y')
      </script>`
      const page = await newPage()
      const popup = page.waitForEvent('popup')
      await page.goto(`${evilUrl}/opener`)
      const callback = await popup
      await callback.getByRole('alert').filter({ hasText: 'began in another tab or browser' }).waitFor()
      expect(await callback.evaluate('opener')).toBeNull()
      expect(await page.evaluate('[opened.closed, heard]')).toEqual([true, []])
      evilPage = ''
    },
  ],
]

test.each(attacks)('%s %s', (_section, _attack, run) => run())
