import { type IdentityProvider, ProviderBrowser } from '../../../../test-servers/identity-provider.ts'
import { manualClock } from './clock.ts'
import { openTestService, sessionOf, type TestService, type TestSession } from './service.ts'

export const publicUrl = 'http://wardline.test'
export const accounts = {
  ada: { name: 'Ada Lovelace', email: 'ada@example.com', email_verified: true, groups: ['platform', 'everybody'] },
  eve: { name: 'Eve', groups: ['everybody'] },
  root: { name: 'Grace Hopper', groups: ['admins'] },
}
const mappings = [
  { group: 'watchers', role: 'viewer' },
  { group: 'platform', role: 'operator' },
  { group: 'admins', role: 'admin' },
]

interface Started {
  url: string
  secret: string
}

/** Sends a person through the provider. Returns the query with which it sends the browser back, and the secret. */
export async function atProvider(service: TestService, login: string, browser = new ProviderBrowser(), query = '') {
  const { body, status, text } = await service.call<Started>('POST', `/api/sign-in/start${query}`, { key: null })
  if (status !== 201) throw new Error(text)
  const back = await browser.signIn(body.url, login, publicUrl)
  if (back.pathname !== '/auth/callback') throw new Error(`the provider returned the browser to ${back.pathname}`)
  return { answer: back.search.slice(1), secret: body.secret }
}

export const finish = (service: TestService, body: object) =>
  service.call<{ secret: string; error: string; scope: string }>('POST', '/api/sign-in/finish', {
    key: null,
    body,
    headers: { 'user-agent': 'a browser of the tests' },
  })

async function open(attempt: Promise<{ answer: string; secret: string }>, service: TestService): Promise<TestSession> {
  const answer = await finish(service, await attempt)
  if (answer.status !== 201) throw new Error(answer.text)
  return sessionOf(answer.headers, answer.body)
}

export const signIn = (service: TestService, login: string, browser?: ProviderBrowser): Promise<TestSession> =>
  open(atProvider(service, login, browser), service)

/** Signs in so that the provider asks for it, whether or not it knows the browser. */
export const confirm = (service: TestService, login: string, browser?: ProviderBrowser): Promise<TestSession> =>
  open(atProvider(service, login, browser, '?confirm=true'), service)

export const as = ({ headers }: TestSession) => ({
  key: null,
  headers: { ...headers, 'sec-fetch-site': 'same-origin' },
})

/** Replaces the table of roles as it is now. */
export async function setRoles(service: TestService, mappings: object[]): Promise<void> {
  const { body } = await service.call<{ version: number }>('GET', '/api/roles')
  const { status, text } = await service.call('PUT', '/api/roles', { body: { mappings, version: body.version } })
  if (status !== 200) throw new Error(text)
}

export async function openServiceWith(provider: IdentityProvider, env: Record<string, string> = {}) {
  const service = await openTestService({ env: { ...provider.env(), ...env }, clock: manualClock(Date.now()) })
  await setRoles(service, mappings)
  return service
}
