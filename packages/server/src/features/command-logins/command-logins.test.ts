import type { OpenSession } from '@wardline/contract'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import {
  type IdentityProvider,
  ProviderBrowser,
  startIdentityProvider,
} from '../../../../../test-servers/identity-provider.ts'
import { randomSecret } from '../../ids.ts'
import { codeOf, commandLoginsOf } from '../../testing/command-logins.ts'
import { accounts, as, confirm, openServiceWith, publicUrl, signIn } from '../../testing/people.ts'
import { openTestService, type TestService } from '../../testing/service.ts'
import { hashKey } from '../keys/key-format.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs

let provider: IdentityProvider
let service: TestService
let { post, begin, allow, logIn, statusOf } = {} as ReturnType<typeof commandLoginsOf>
beforeAll(async () => {
  provider = await startIdentityProvider({ publicUrl, accounts: structuredClone(accounts) })
  service = await openServiceWith(provider)
  ;({ post, begin, allow, logIn, statusOf } = commandLoginsOf(service))
})
// Each test has its own allowance of attempts and invalid tokens.
beforeEach(() => void service.clock.advance(minuteMs))
afterAll(async () => {
  await service?.[Symbol.asyncDispose]()
  await provider?.[Symbol.asyncDispose]()
})

it('a person allows a command line, which acts for them with a separate session', async () => {
  const { access, access_seconds, expires_at, person } = await logIn('ada')
  expect(access_seconds).toBe(600)
  expect(Date.parse(expires_at) - service.clock.now()).toBe(12 * hourMs)
  const { body } = await service.call<{ person: { name: string } }>('GET', '/api/session', { key: access })
  expect(body).toMatchObject({ name: 'Ada Lovelace', scope: 'operator', person: { name: 'Ada Lovelace' } })
  const list = await service.call<{ sessions: object[] }>('GET', '/api/sessions', { key: access })
  expect(list.body.sessions).toContainEqual(expect.objectContaining({ host: 'build-1', device: null, current: true }))
  const inBrowser = await service.call<{ sessions: { current: boolean; host: string | null }[] }>(
    'GET',
    '/api/sessions',
    person,
  )
  expect(inBrowser.body.sessions.filter(({ current }) => current)).toEqual([expect.objectContaining({ host: null })])
  const { body: audit } = await service.call<{ entries: { action: string; after: object }[] }>(
    'GET',
    '/api/audit?action=session.create',
  )
  expect(audit.entries.at(-1)!.after).toMatchObject({ by: 'command_line', host: 'build-1', name: 'Ada Lovelace' })
  // Without CSRF: no page can send this header, and the cookie alone is still nothing.
  expect((await service.call('POST', '/api/kill/nobody', { key: access, body: { reason: 'x' } })).status).toBe(404)
})

it('a key allows a command line for no longer than the session of the browser', async () => {
  const key = await service.createKey('operator')
  const session = await service.signIn(key.key)
  service.clock.advance(20 * minuteMs)
  const command = await begin()
  const { body } = await post<{ redirect_url: string }>('/approve', { code: command.code }, as(session))
  const answer = { code: codeOf(body.redirect_url), iss: publicUrl, state: command.state }
  expect(body.redirect_url).toBe(`http://127.0.0.1:43210/?${new URLSearchParams(answer)}`)
  const { session: granted } = (await command.finish({ code: codeOf(body.redirect_url) })).body
  expect(Date.parse(granted!.expires_at) - service.clock.now()).toBe(12 * hourMs - 20 * minuteMs)
  expect(await statusOf(granted!.access)).toBe(200)
  await service.call('DELETE', `/api/keys/${key.id}`)
  expect(await statusOf(granted!.access)).toBe(401)
})

it('a command line that a key allowed ends when its browser signs out, and not the other way round', async () => {
  const session = as(await service.signIn((await service.createKey('operator')).key))
  const granted = async () => {
    const command = await begin()
    const { body } = await post<{ redirect_url: string }>('/approve', { code: command.code }, session)
    return (await command.finish({ code: codeOf(body.redirect_url) })).body.session!
  }
  const [left, ended] = [await granted(), await granted()]
  expect((await service.call('DELETE', '/api/session', { key: ended.access })).status).toBe(200)
  expect(await statusOf(ended.access)).toBe(401)
  expect(await statusOf(left.access)).toBe(200)
  expect((await service.call('DELETE', '/api/session', session)).status).toBe(200)
  expect(await statusOf(left.access)).toBe(401)
})

it('a command line that a person allowed is shown with its browser and ends with it, but not while that is only idle', async () => {
  const { person } = await logIn('ada')
  const list = async (caller: object) =>
    (await service.call<{ sessions: OpenSession[] }>('GET', '/api/sessions', caller)).body.sessions
  const sessions = await list(person)
  const browser = sessions.find(({ current }) => current)!
  const line = sessions.find(({ id, host }) => host !== null && browser.ends.includes(id))!
  expect(line).toMatchObject({ host: 'build-1', ends: [] })
  service.clock.advance(31 * minuteMs)
  expect((await service.call('GET', '/api/session', person)).status).toBe(401)
  const other = await logIn('ada')
  const later = await list(other.person)
  expect(later.map(({ id }) => id)).toContain(line.id)
  const found = later.find(({ current }) => current)!
  expect(found.ends).toHaveLength(1)
  const { status } = await service.call('DELETE', `/api/sessions/${found.id}`, other.person)
  expect(status).toBe(200)
  expect(await statusOf(other.access)).toBe(401)
})

it('a key that cannot confirm allows no command line that asks for it', async () => {
  const command = await begin({ confirm: true })
  const { status, body } = await post('/approve', { code: command.code }, as(await service.signIn()))
  expect([status, body.error]).toEqual([400, expect.stringContaining('A key has nothing to confirm')])
})

it('without a browser the person types the code, however they write it, and the command line asks', async () => {
  const person = as(await service.signIn())
  const command = await begin({ loopback: undefined })
  expect(command.url).toBe(`${publicUrl}/auth/cli`)
  expect(command.code).toMatch(/^[B-DF-HJ-NP-TV-XZ]{4}-[B-DF-HJ-NP-TV-XZ]{4}$/)
  expect((await command.finish()).body).toEqual({ pending: true })
  const tooSoon = await command.finish()
  expect([tooSoon.status, tooSoon.headers['retry-after']]).toEqual([429, '4'])
  const typed = command.code.toLowerCase().replace('-', ' ')
  const { body: found } = await post('/find', { code: typed }, person)
  expect(found).toMatchObject({ host: 'build-1', loopback: false, confirm: false, same_address: true })
  expect((await post('/approve', { code: typed }, person)).body).toEqual({})
  service.clock.advance(5_000)
  expect(await statusOf((await command.finish()).body.session!.access)).toBe(200)
})

it('an access token lasts ten minutes, and the session twelve hours without a limit of idleness', async () => {
  const person = as(await service.signIn())
  const command = await begin()
  const { body } = await post<{ redirect_url: string }>('/approve', { code: command.code }, person)
  const first = (await command.finish({ code: codeOf(body.redirect_url) })).body.session!
  service.clock.advance(10 * minuteMs)
  expect(await statusOf(first.access)).toBe(401)
  service.clock.advance(10 * hourMs)
  await service.services.commandLogins.forgetStale()
  const second = await command.renew(command.secret, randomSecret(32))
  expect(second.status).toBe(200)
  expect(await statusOf(second.body.access)).toBe(200)
})

it('a confirmation is what the person has just proven, not what the browser once did', async () => {
  const create = (key: string) =>
    service.call<{ error: string }>('POST', '/api/keys', { key, body: { scope: 'viewer', name: 'x' } })
  const unconfirmed = await logIn('root')
  service.clock.advance(6 * minuteMs)
  const refused = await create(unconfirmed.access)
  expect([refused.status, refused.headers['x-error-code']]).toEqual([401, 'fresh_confirmation_required'])
  const confirmed = await logIn('root', { confirm: true })
  // The provider has the time of the machine, which the clock of the service has left.
  const { body } = await service.call<{ authenticated_at: string }>('GET', '/api/session', { key: confirmed.access })
  expect(Date.now() - Date.parse(body.authenticated_at)).toBeLessThan(minuteMs)
})

it('guesses of codes are limited, and so are logins that wait', async () => {
  const person = as(await service.signIn())
  const guess = async (code: string) => (await post('/find', { code }, person)).status
  const command = await begin()
  for (let count = 0; count < 10; count++) expect(await guess('BBBB-BBBB')).toBe(404)
  expect(await guess(command.code)).toBe(429)
  service.clock.advance(6_000)
  expect(await guess(command.code)).toBe(200)
  service.clock.advance(10 * minuteMs)
  let refused = 0
  for (let count = 0; count < 40; count++) {
    const asking = { challenge: hashKey(randomSecret(32)), host: 'x' }
    if ((await post('', asking)).status === 429) refused++
  }
  service.clock.advance(10 * minuteMs)
  expect(refused).toBe(10)
})

it('concurrent guesses of codes count, too', async () => {
  const person = as(await service.signIn())
  const guesses = Array.from({ length: 20 }, () => post('/find', { code: 'BBBB-BBBB' }, person))
  const statuses = (await Promise.all(guesses)).map(({ status }) => status)
  expect(statuses.filter((status) => status === 404)).toHaveLength(10)
})

// Otherwise one address takes all logins that may wait, and no one else can log in.
it('one address has at most 30 logins that wait', async () => {
  await using own = await openTestService()
  const { begin, post } = commandLoginsOf(own)
  for (let count = 0; count < 30; count++) await begin()
  own.clock.advance(9 * minuteMs)
  const asking = { challenge: hashKey(randomSecret(32)), host: 'x' }
  const { status, body } = await post('', asking)
  expect([status, body.error]).toEqual([429, 'Too many logins of command lines wait from this address.'])
  own.clock.advance(minuteMs)
  expect((await post('', asking)).status).toBe(201)
})

it('guesses of tokens count like invalid keys', async () => {
  await using own = await openTestService()
  const { post } = commandLoginsOf(own)
  const [token, secret, next] = [randomSecret(32), randomSecret(32), randomSecret(32)]
  const statuses = []
  for (let count = 0; count < 25; count++) {
    const { status } = await post('/renew', { token: `${token.slice(0, -2)}${count + 10}`, secret, next })
    statuses.push(status)
  }
  expect(statuses.filter((status) => status === 401)).toHaveLength(20)
  expect(statuses.filter((status) => status === 429)).toHaveLength(5)
  for (const forged of ['wl_login_', 'wl_login_v1.AAAA', `wl_login_v1.${'A'.repeat(200)}`]) {
    expect((await own.call('GET', '/api/session', { key: forged })).status).toBeGreaterThan(400)
  }
})

it('a repeated attempt is that of the last replacement, with both of its secrets', async () => {
  const { renew, secret } = await logIn('ada')
  const [second, third] = [randomSecret(32), randomSecret(32)]
  for (const [given, next] of [
    [secret, second],
    [secret, second],
    [second, third],
    [second, third],
  ] as const) {
    expect((await renew(given, next)).status).toBe(200)
  }
  expect((await renew(secret, second)).status).toBe(401)
  expect((await renew(third, randomSecret(32))).status).toBe(401)
})

it('an attempt to renew whose answer was lost is repeated, and concurrent ones are no second use', async () => {
  const { renew, secret } = await logIn('ada')
  const next = randomSecret(32)
  const all = await Promise.all([renew(secret, next), renew(secret, next), renew(secret, next)])
  expect(all.map(({ status }) => status)).toEqual([200, 200, 200])
  expect((await renew(next, randomSecret(32))).status).toBe(200)
  const same = randomSecret(32)
  expect((await renew(same, same)).status).toBe(400)
})

it('an admin, the person and the provider end it like the session of a browser', async () => {
  const ada = await logIn('ada')
  const admin = as(await confirm(service, 'root'))
  const people = await service.call<{ people: { id: string; name: string }[] }>('GET', '/api/people', admin)
  const { id } = people.body.people.find(({ name }) => name === 'Ada Lovelace')!
  const of = await service.call<{ sessions: { host: string | null }[] }>('GET', `/api/people/${id}`, admin)
  expect(of.body.sessions.some(({ host }) => host === 'build-1')).toBe(true)
  await service.call('DELETE', `/api/people/${id}/sessions`, admin)
  const { status, body } = await service.call<{ error: string }>('GET', '/api/status', { key: ada.access })
  expect([status, body.error]).toEqual([401, 'The login of this command line has expired or was ended.'])
  expect((await ada.renew(ada.secret, randomSecret(32))).status).toBe(401)

  const own = await logIn('ada')
  expect((await service.call('DELETE', '/api/session', { key: own.access })).status).toBe(200)
  expect(await statusOf(own.access)).toBe(401)
  expect(await service.call('GET', '/api/session', own.person)).toMatchObject({ status: 200 })

  const evaluated = await logIn('ada')
  const restore = provider.answerTokens(400, { error: 'invalid_grant' })
  service.clock.advance(10 * minuteMs)
  await service.services.evaluation.run()
  restore()
  const renewed = await evaluated.renew(evaluated.secret, randomSecret(32))
  expect(renewed.status).toBe(401)
})

it('its role is what the provider says now', async () => {
  const { renew, secret } = await logIn('ada')
  provider.accounts.ada!.groups = ['watchers']
  service.clock.advance(10 * minuteMs)
  await service.services.evaluation.run()
  const { body } = await renew(secret, randomSecret(32))
  const kill = await service.call('POST', '/api/kill/nobody', { key: body.access, body: { reason: 'x' } })
  provider.accounts.ada!.groups = ['platform']
  expect(kill.status).toBe(403)
})

it('a login is allowed once, by the person who is signed in', async () => {
  const command = await begin()
  const ada = as(await signIn(service, 'ada'))
  const other = await allow(command.code, ada, 'root')
  expect([other.status, other.body.error]).toEqual([409, expect.stringContaining('sign out here first')])
  expect((await allow(command.code, ada, 'ada')).status).toBe(200)
  expect((await post('/approve', { code: command.code }, ada)).status).toBe(404)
  // The answer of a sign-in opens no command line, and the other way round.
  const second = await begin()
  const { body } = await post<{ sign_in: { url: string; secret: string } }>('/approve', { code: second.code }, ada)
  const back = await new ProviderBrowser().signIn(body.sign_in.url, 'ada', publicUrl)
  const answer = { answer: back.search.slice(1), secret: body.sign_in.secret }
  expect((await service.call('POST', '/api/sign-in/finish', { key: null, body: answer })).status).toBe(401)
})

it('the local admin key raises its alarm for a command line too, and other keys are refused with people_only', async () => {
  await using own = await openServiceWith(provider)
  const { begin, post } = commandLoginsOf(own)
  const session = as(await own.signIn())
  const other = as(await own.signIn((await own.createKey('operator')).key))
  await confirm(own, 'root')
  expect((await own.call('PUT', '/api/sign-in', { body: { people_only: true } })).status).toBe(200)
  const [first, second] = [await begin(), await begin()]
  expect((await post('/approve', { code: first.code }, session)).status).toBe(200)
  const { body } = await own.call<{ events: unknown[] }>('GET', '/api/events?event_type=admin_key_sign_in')
  expect(body.events).toHaveLength(1)
  expect((await post('/approve', { code: second.code }, other)).status).toBe(401)
})

it('stores no secret, and forgets what was not fetched', async () => {
  const { token, secret, code, access } = await logIn('ada')
  const waiting = await begin()
  const left = await begin()
  await post('/approve', { code: left.code }, as(await service.signIn()))
  const rows = async (table: string) => JSON.stringify(await service.rows(`select * from ${table}`))
  const stored = `${await rows('sessions')}${await rows('command_logins')}${await rows('audit_log')}${service.logged.join()}`
  for (const text of [token, secret, code, code.replace('-', ''), access, waiting.code, waiting.token]) {
    expect(stored).not.toContain(text)
  }
  service.clock.advance(10 * minuteMs + 1)
  await service.services.commandLogins.forgetStale()
  expect(await service.rows('select * from command_logins')).toEqual([])
})
