import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import {
  type IdentityProvider,
  ProviderBrowser,
  startIdentityProvider,
} from '../../../../../test-servers/identity-provider.ts'
import { accounts, as, openServiceWith, publicUrl, signIn } from '../../testing/people.ts'
import type { TestService, TestSession } from '../../testing/service.ts'

const logoutEvent = 'http://schemas.openid.net/event/backchannel-logout'
const send = (service: TestService, body: string) =>
  service.call<{ error: string }>('POST', '/auth/backchannel-logout', {
    key: null,
    body,
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  })

const statusOf = async (service: TestService, session: TestSession) =>
  (await service.call('GET', '/api/session', as(session))).status

const claims = ({ issuer }: IdentityProvider, { clock }: TestService) => ({
  iss: issuer,
  aud: 'wardline',
  iat: Math.floor(clock.now() / 1_000),
  exp: Math.floor(clock.now() / 1_000) + 120,
  jti: 'one',
  sub: 'ada',
  events: { [logoutEvent]: {} },
})

describe('a logout token', () => {
  let provider: IdentityProvider
  let service: TestService
  let session: TestSession
  let browser: ProviderBrowser
  beforeEach(async () => {
    provider = await startIdentityProvider({ publicUrl, accounts })
    service = await openServiceWith(provider)
    browser = new ProviderBrowser()
    session = await signIn(service, 'ada', browser)
    return async () => {
      await service[Symbol.asyncDispose]()
      await provider[Symbol.asyncDispose]()
    }
  })
  it('of the provider ends the session of the browser', async () => {
    const { body } = await service.call<{ logout_url: string }>(
      'DELETE',
      '/api/session',
      as(await signIn(service, 'ada', browser)),
    )
    expect(await statusOf(service, session)).toBe(200)
    // As if the person pressed "sign out" there.
    await browser.signIn(body.logout_url, 'ada', publicUrl)
    expect(provider.logouts).toHaveLength(1)
    service.clock.advance(2_000)
    const answer = await send(service, provider.logouts[0]!)
    expect(answer.status, answer.text).toBe(200)
    expect(await statusOf(service, session)).toBe(401)
  })

  it('with a session of the provider ends those of the person whose name there is unknown', async () => {
    const { body } = await service.call<{ sessions: object[] }>('GET', '/api/sessions', as(session))
    expect(body.sessions).toHaveLength(1)
    await service.deps.database.db.updateTable('sessions').set({ provider_session: null }).execute()
    const token = provider.sign({ ...claims(provider, service), sid: 'its own name' })
    expect((await send(service, `logout_token=${token}`)).status).toBe(200)
    expect(await statusOf(service, session)).toBe(401)
  })

  it('sent again is not audited again', async () => {
    const token = `logout_token=${provider.sign(claims(provider, service))}`
    for (let sent = 0; sent < 3; sent++) expect((await send(service, token)).status).toBe(200)
    const { body } = await service.call<{ entries: object[] }>('GET', '/api/audit?action=session.end')
    expect(body.entries).toHaveLength(1)
  })

  it('is not needed to sign out here with tokens that cannot be decrypted', async () => {
    await service.deps.database.db.updateTable('sessions').set({ sealed: 'v1.AAAA' }).execute()
    expect((await service.call('DELETE', '/api/session', as(session))).body).toEqual({ ok: true })
    expect(await statusOf(service, session)).toBe(401)
  })

  it('ends the sessions of a person, those that began before it', async () => {
    const token = `logout_token=${provider.sign(claims(provider, service))}`
    // More than the clocks may differ.
    service.clock.advance(40_000)
    const later = await signIn(service, 'ada')
    expect((await send(service, token)).status).toBe(200)
    expect(await statusOf(service, session)).toBe(401)
    expect((await service.call('GET', '/api/session', as(later))).status).toBe(200)
  })
})

describe('a forged logout token', () => {
  let provider: IdentityProvider
  let service: TestService
  let session: TestSession
  beforeAll(async () => {
    provider = await startIdentityProvider({ publicUrl, accounts })
    service = await openServiceWith(provider)
    session = await signIn(service, 'ada')
  })
  afterAll(async () => {
    await service[Symbol.asyncDispose]()
    await provider[Symbol.asyncDispose]()
  })

  it.each<[string, (valid: ReturnType<typeof claims>) => string]>([
    ['of another issuer', (valid) => provider.sign({ ...valid, iss: 'https://evil.example' })],
    ['for another client', (valid) => provider.sign({ ...valid, aud: 'another' })],
    ['without the event', (valid) => provider.sign({ ...valid, events: {} })],
    ['with a nonce', (valid) => provider.sign({ ...valid, nonce: 'x' })],
    ['without a subject', (valid) => provider.sign({ ...valid, sub: undefined })],
    ['that is too old', (valid) => provider.sign({ ...valid, iat: valid.iat - 900, exp: valid.exp - 900 })],
    ['without a time', (valid) => provider.sign({ ...valid, iat: undefined })],
    [
      'signed by another key',
      (valid) => provider.sign(valid).replace(/[^.]+$/, (end) => end.split('').reverse().join('')),
    ],
    ['with an unknown key', (valid) => provider.sign(valid, { kid: 'another' })],
    ['that is not signed', (valid) => provider.sign(valid, { alg: 'none' }).replace(/[^.]+$/, '')],
    ['signed with the public key as a secret', (valid) => provider.sign(valid, { alg: 'HS256' })],
    ['that is no JWT', () => 'garbage'],
  ])('%s is refused', async (_, make) => {
    const answer = await send(service, `logout_token=${make(claims(provider, service))}`)
    expect([answer.status, answer.body.error]).toEqual([400, expect.stringContaining('The logout token is not valid')])
    expect(await statusOf(service, session)).toBe(200)
  })

  it('from the page of another site is refused, however many come, and delays nobody', async () => {
    const headers = {
      'content-type': 'application/x-www-form-urlencoded',
      origin: 'https://evil.example',
      'sec-fetch-site': 'cross-site',
    }
    for (let sent = 0; sent < 30; sent++) {
      const answer = await service.call('POST', '/auth/backchannel-logout', {
        key: null,
        body: 'logout_token=x',
        headers,
      })
      expect(answer.status).toBe(403)
      await send(service, 'logout_token=x')
    }
    expect(await statusOf(service, session)).toBe(200)
    await service.signIn()
  })

  it('is needed, and has a size', async () => {
    expect((await send(service, 'token=x')).status).toBe(400)
    expect((await send(service, `logout_token=${'x'.repeat(20_000)}`)).status).toBe(413)
  })
})
