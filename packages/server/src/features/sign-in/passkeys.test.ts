import type { Passkey } from '@wardline/contract'
import { beforeEach, describe, expect, it } from 'vitest'
import { randomSecret } from '../../ids.ts'
import { type Deviation, TestAuthenticator } from '../../testing/authenticator.ts'
import { adminKey, openTestService, sessionOf, type TestService, type TestSession } from '../../testing/service.ts'
import { hashKey } from '../keys/key-format.ts'

const publicUrl = 'https://wardline.example'
const minute = 60_000

let service: TestService
beforeEach(async () => {
  service = await openTestService({ env: { WARDLINE_PUBLIC_URL: publicUrl } })
  return () => service[Symbol.asyncDispose]()
})

const as = ({ headers }: TestSession) => ({ key: null, headers: { ...headers, 'sec-fetch-site': 'same-origin' } })
interface Started {
  options: { challenge: string; allowCredentials: { id: string }[]; excludeCredentials: { id: string }[] }
  secret: string
}
const open = { key: null, headers: { 'sec-fetch-site': 'same-origin', origin: publicUrl } }
const start = async <Body = Started>(url: string, caller: object, body?: object) => {
  const answer = await service.call<Body>('POST', url, { ...caller, ...(body ? { body } : {}) })
  if (answer.status !== 201) throw new Error(answer.text)
  return answer.body
}

async function registered(session: TestSession, name: string, device: TestAuthenticator, deviation?: Deviation) {
  const { options, secret } = await start('/api/passkeys/start', as(session), { name })
  const body = { secret, credential: device.create(options, deviation) }
  return service.call<Passkey>('POST', '/api/passkeys', { ...as(session), body })
}

async function register(name = "Ada's laptop", device = new TestAuthenticator(publicUrl)) {
  const answer = await registered(await service.signIn(), name, device)
  expect(answer.status, answer.text).toBe(201)
  return { device, passkey: answer.body }
}

const finish = (body: object) =>
  service.call<{ secret: string; error: string }>('POST', '/api/sign-in/passkey/finish', { ...open, body })

async function signIn(device: TestAuthenticator): Promise<TestSession> {
  const { options, secret } = await start('/api/sign-in/passkey/start', open)
  const answer = await finish({ secret, credential: device.get(options) })
  if (answer.status !== 201) throw new Error(answer.text)
  return sessionOf(answer.headers, answer.body)
}

async function confirm(session: TestSession, device: TestAuthenticator, deviation?: Deviation) {
  const { options, secret } = await start('/api/session/confirm/start', as(session))
  const body = { secret, credential: device.get(options, deviation) }
  return service.call('POST', '/api/session/confirm', { ...as(session), body })
}

/** Returns the token of a command line that the session allows. */
async function commandLine(session: TestSession): Promise<string> {
  const [token, secret] = [randomSecret(32), randomSecret(32)]
  const { code } = await start<{ code: string }>(
    '/api/command-logins',
    { key: null },
    { challenge: hashKey(token), host: 'x' },
  )
  const approved = await service.call('POST', '/api/command-logins/approve', { ...as(session), body: { code } })
  expect(approved.status).toBe(200)
  const finished = await service.call<{ session: { access: string } }>('POST', '/api/command-logins/finish', {
    key: null,
    body: { token, secret },
  })
  return finished.body.session.access
}

const newKey = (session: TestSession) =>
  service.call('POST', '/api/keys', { ...as(session), body: { scope: 'viewer', name: 'x' } })
const whoami = (session: TestSession) => service.call<Record<string, unknown>>('GET', '/api/session', as(session))
const sessionsOf = (id: string) =>
  service.deps.database.db.selectFrom('sessions').selectAll().where('key_id', '=', id).execute()
const marks = () => service.deps.database.db.selectFrom('sign_ins').selectAll().execute()

describe('a passkey of the local admin', () => {
  it('signs in as admin under its own name, which the audit log shows', async () => {
    expect((await service.call('GET', '/api/sign-in', open)).body).toMatchObject({ passkeys: false })
    const { device, passkey } = await register()
    expect(passkey).toMatchObject({ name: "Ada's laptop", last_used_at: null })
    expect((await service.call('GET', '/api/sign-in', open)).body).toMatchObject({ passkeys: true })
    const session = await signIn(device)
    expect((await whoami(session)).body).toMatchObject({
      key_id: passkey.id,
      name: "Ada's laptop",
      scope: 'admin',
      passkey: true,
      confirms_by: 'passkey',
      authenticated_at: new Date(service.clock.now()).toISOString(),
    })
    expect((await newKey(session)).status).toBe(201)
    const { body } = await service.call<{ entries: object[] }>('GET', '/api/audit?order=newest&limit=1')
    expect(body.entries[0]).toMatchObject({ action: 'key.create', actor: passkey.id, actor_name: "Ada's laptop" })
  })

  it('is registered only in a confirmed session of the local admin', async () => {
    const body = { name: 'x' }
    const status = async (caller: object) =>
      (await service.call('POST', '/api/passkeys/start', { ...caller, body })).status
    expect(await status({})).toBe(400)
    const other = await service.createKey('admin')
    expect(await status(as(await service.signIn(other.key)))).toBe(400)
    const link = await service.call<{ url: string }>('POST', '/api/login-links')
    const code = new URL(link.body.url).hash.slice(1)
    const redeemed = await service.call<{ secret: string }>('POST', '/api/login', { ...open, body: { code } })
    expect(await status(as(sessionOf(redeemed.headers, redeemed.body)))).toBe(401)
    const session = await service.signIn()
    expect(await status(as(session))).toBe(201)
    service.clock.advance(6 * minute)
    expect(await status(as(session))).toBe(401)
  })

  it('allows a command line only after a confirmation, which it then has', async () => {
    const { device } = await register()
    const session = await signIn(device)
    const [token, secret] = [randomSecret(32), randomSecret(32)]
    const asking = { challenge: hashKey(token), host: 'build-1', confirm: true }
    service.clock.advance(6 * minute)
    const { body } = await service.call<{ code: string }>('POST', '/api/command-logins', { key: null, body: asking })
    const approve = () =>
      service.call('POST', '/api/command-logins/approve', { ...as(session), body: { code: body.code } })
    const late = await approve()
    expect([late.status, late.headers['x-error-code']]).toEqual([401, 'fresh_confirmation_required'])
    expect((await confirm(session, device)).status).toBe(200)
    expect((await approve()).status).toBe(200)
    const finished = await service.call<{ session: { access: string } }>('POST', '/api/command-logins/finish', {
      key: null,
      body: { token, secret },
    })
    const key = finished.body.session.access
    expect((await service.call('POST', '/api/keys', { key, body: { scope: 'viewer', name: 'x' } })).status).toBe(201)
  })

  it('registers another one only after a confirmation, and at most ten are', async () => {
    const { device } = await register()
    const session = await signIn(device)
    service.clock.advance(6 * minute)
    const late = await service.call('POST', '/api/passkeys/start', { ...as(session), body: { name: 'x' } })
    expect(late.headers['x-error-code']).toBe('fresh_confirmation_required')
    expect((await confirm(session, device)).status).toBe(200)
    for (let count = 2; count <= 10; count++) {
      expect((await registered(session, `number ${count}`, new TestAuthenticator(publicUrl))).status).toBe(201)
    }
    const full = await service.call('POST', '/api/passkeys/start', { ...as(session), body: { name: 'x' } })
    expect([full.status, full.text]).toEqual([409, expect.stringContaining('10 passkeys')])
  })

  it('ends at once with its sessions when it is removed', async () => {
    const { device, passkey } = await register()
    const session = await signIn(device)
    expect((await service.call('DELETE', `/api/passkeys/${passkey.id}`)).status).toBe(200)
    expect((await whoami(session)).status).toBe(401)
    expect(await sessionsOf(passkey.id)).toEqual([])
    expect((await service.call('DELETE', `/api/passkeys/${passkey.id}`)).status).toBe(404)
    const audit = await service.call<{ entries: object[] }>(
      'GET',
      `/api/audit?actor=${encodeURIComponent(passkey.name)}`,
    )
    expect(audit.body.entries[0]).toMatchObject({ actor_name: passkey.name, action: 'session.create' })
  })

  it('ends with the key under which it was registered, and is one operator with it', async () => {
    service.clock.advance(1)
    const first = await openTestService({ env: { WARDLINE_PUBLIC_URL: publicUrl, WARDLINE_TWO_PERSON_RESUME: 'true' } })
    await service[Symbol.asyncDispose]()
    service = first
    const [ada, ben] = [await register('Ada'), await register('Ben')]
    await service.call('POST', '/api/heartbeat', { body: { instance_id: 'a', name: 'a' } })
    await service.call('POST', '/api/kill/a', { body: { reason: 'x' } })
    const resume = async (session: TestSession) => (await service.call('POST', '/api/resume/a', as(session))).status
    const session = await signIn(ada.device)
    expect(await resume(session)).toBe(409)
    expect(await resume(await signIn(ben.device))).toBe(409)
    expect((await service.call('POST', '/api/resume/a')).status).toBe(409)
    expect(
      (await service.call('POST', '/api/resume/a', { key: (await service.createKey('operator')).key })).status,
    ).toBe(200)
    // Another process of the deployment, whose WARDLINE_API_KEY was replaced.
    const replaced = await openTestService({
      dataDir: service.deps.config.dataDir,
      env: { WARDLINE_PUBLIC_URL: publicUrl, WARDLINE_API_KEY: `${adminKey}-another` },
      clock: service.clock,
    })
    try {
      expect((await replaced.call('GET', '/api/session', as(session))).status).toBe(401)
      expect((await replaced.call('GET', '/api/sign-in', open)).body).toMatchObject({ passkeys: false })
    } finally {
      await replaced[Symbol.asyncDispose]()
    }
  })

  it('confirms sessions of the local admin, which otherwise need none, and those of a passkey only itself', async () => {
    const before = await service.signIn()
    service.clock.advance(6 * minute)
    expect((await newKey(before)).status).toBe(201)
    const { device } = await register()
    expect((await newKey(before)).headers['x-error-code']).toBe('fresh_confirmation_required')
    expect((await service.call('POST', '/api/keys', { body: { scope: 'viewer', name: 'x' } })).status).toBe(201)
    expect((await confirm(before, device)).status).toBe(200)
    expect((await newKey(before)).status).toBe(201)
    const other = new TestAuthenticator(publicUrl)
    expect((await registered(before, 'Ben', other)).status).toBe(201)
    const session = await signIn(device)
    service.clock.advance(6 * minute)
    const { options } = await start('/api/session/confirm/start', as(session))
    expect(options.allowCredentials.map(({ id }) => id)).toEqual([device.id])
    expect((await confirm(session, other)).status).toBe(401)
    expect((await newKey(session)).status).toBe(401)
    expect((await service.call('POST', '/api/heartbeat', { body: { instance_id: 'a', name: 'a' } })).status).toBe(200)
    expect((await service.call('POST', '/api/kill/a', { ...as(session), body: { reason: 'x' } })).status).toBe(200)
  })

  it('is not registered, removed or used by a command line that was logged in, which is no browser', async () => {
    const { device, passkey } = await register()
    const session = await service.signIn()
    const confirming = await start('/api/session/confirm/start', as(session))
    const caller = { key: await commandLine(session) }
    const name = { name: 'x' }
    const unavailable = expect.stringContaining('in a browser')
    expect((await service.call('GET', '/api/passkeys', caller)).body).toMatchObject({ unavailable })
    const answer = (options: Started) => ({ secret: options.secret, credential: device.get(options.options) })
    const began = await start('/api/passkeys/start', as(session), name)
    const made = { secret: began.secret, credential: new TestAuthenticator(publicUrl).create(began.options) }
    const attempts = [
      ['POST', '/api/passkeys/start', name, 400],
      ['POST', '/api/passkeys', made, 400],
      ['POST', '/api/session/confirm/start', undefined, 400],
      ['POST', '/api/session/confirm', answer(confirming), 400],
      ['DELETE', `/api/passkeys/${passkey.id}`, undefined, 403],
    ] as const
    for (const [method, url, body, status] of attempts) {
      const refused = await service.call<{ error: string }>(method, url, { ...caller, ...(body ? { body } : {}) })
      expect([url, refused.status, refused.body.error]).toEqual([url, status, unavailable])
    }
    // It allows no other one either.
    const next = await service.call('POST', '/api/command-logins/approve', { ...caller, body: { code: 'BCDF-GHJK' } })
    expect(next.status).toBe(403)
  })

  it('is for emergencies beside people, with an alarm each time', async () => {
    await service[Symbol.asyncDispose]()
    const issuer = 'https://login.example'
    const provider = { WARDLINE_OIDC_ISSUER: issuer, WARDLINE_OIDC_CLIENT_ID: 'x', WARDLINE_OIDC_CLIENT_SECRET: 'y' }
    service = await openTestService({ env: { WARDLINE_PUBLIC_URL: publicUrl, ...provider } })
    const now = service.clock.now()
    const seen = { first_seen_at: now, signed_in_at: now, evaluated_at: now }
    const person = {
      issuer,
      subject: 's',
      name: 'Grace',
      email: null,
      role: 'admin',
      role_by: 'admins',
      groups: '[]',
    } as const
    await service.deps.database.db
      .insertInto('people')
      .values({ id: 'person-1', ...person, ...seen })
      .execute()
    const { device, passkey } = await register()
    const earlier = await signIn(device)
    expect((await service.call('PUT', '/api/sign-in', { body: { people_only: true } })).status).toBe(200)
    service.clock.advance(1_001)
    expect((await whoami(earlier)).status).toBe(200)
    await signIn(device)
    const { body } = await service.call<{ events: object[] }>('GET', '/api/events?type=admin_key_sign_in')
    const ofPasskey = { description: expect.stringContaining(`A passkey of the local admin (${passkey.name})`) }
    expect(body.events).toMatchObject([ofPasskey, ofPasskey, { description: expect.stringContaining('admin key (') }])
  })
})

describe('an answer of a passkey', () => {
  const deviations: [string, Deviation][] = [
    ['from another origin', { origin: 'https://wardline.example.evil.example' }],
    ['from another port', { origin: `${publicUrl}:8443` }],
    ['for another host name', { rpId: 'evil.example' }],
    ['without a finger or PIN', { isUnverified: true }],
    ['in a frame of another origin', { crossOrigin: true }],
  ]
  it.each([...deviations, ['made to register', { type: 'webauthn.create' }] as [string, Deviation]])(
    '%s signs nobody in',
    async (_, deviation) => {
      const { device } = await register()
      const { options, secret } = await start('/api/sign-in/passkey/start', open)
      const answer = await finish({ secret, credential: device.get(options, deviation) })
      expect([answer.status, answer.body.error]).toEqual([401, expect.stringContaining('not accepted')])
      expect((await finish({ secret, credential: device.get(options) })).status).toBe(201)
    },
  )

  it.each([...deviations, ['with certificates', { certificates: true }] as [string, Deviation]])(
    '%s registers nothing',
    async (_, deviation) => {
      const device = new TestAuthenticator(publicUrl)
      expect((await registered(await service.signIn(), 'x', device, deviation)).status).toBe(401)
      // Otherwise the certificates would be verified, and the addresses in them called.
      if (deviation.certificates) expect(service.logged.join()).toContain('the credential has an attestation')
      expect((await service.call('GET', '/api/passkeys')).body).toEqual({
        passkeys: [],
        unavailable: expect.stringContaining('for the local admin'),
      })
    },
  )

  it('opens one session, also when it is sent twice at once', async () => {
    const { device } = await register()
    const { options, secret } = await start('/api/sign-in/passkey/start', open)
    const body = { secret, credential: device.get(options) }
    const both = await Promise.all([finish(body), finish(body)])
    expect(both.map(({ status }) => status).toSorted()).toEqual([201, 401])
    expect((await finish(body)).body.error).toContain('was used')
  })

  it('is accepted for five minutes, and stores nothing when its signature is wrong', async () => {
    const { device } = await register()
    const before = (await marks()).length
    const { options, secret } = await start('/api/sign-in/passkey/start', open)
    const tampered = device.get(options)
    tampered.response.signature = `${tampered.response.signature.slice(0, -4)}AAAA`
    expect((await finish({ secret, credential: tampered })).status).toBe(401)
    expect(await marks()).toHaveLength(before)
    service.clock.advance(5 * minute)
    expect((await finish({ secret, credential: device.get(options) })).body.error).toContain('has expired')
  })

  it('is worth nothing for another purpose, challenge, session, or with an edited secret', async () => {
    const { device } = await register()
    const session = await service.signIn()
    const confirming = await start('/api/session/confirm/start', as(session))
    const signing = await start('/api/sign-in/passkey/start', open)
    const again = await start('/api/sign-in/passkey/start', open)
    const status = async (secret: string, { options }: Started) =>
      (await finish({ secret, credential: device.get(options) })).status
    expect(await status(confirming.secret, confirming)).toBe(401)
    expect(await status(again.secret, signing)).toBe(401)
    expect(await status(`${signing.secret.slice(0, -4)}AAAA`, signing)).toBe(401)
    const credential = device.get(confirming.options)
    const sent = { secret: confirming.secret, credential }
    const other = await service.signIn()
    expect((await service.call('POST', '/api/session/confirm', { ...as(other), body: sent })).status).toBe(401)
    const wrong = { secret: signing.secret, credential: device.get(signing.options) }
    expect((await service.call('POST', '/api/session/confirm', { ...as(session), body: wrong })).status).toBe(401)
    expect((await service.call('POST', '/api/session/confirm', { ...as(session), body: sent })).status).toBe(200)
  })

  it('of a removed or unknown passkey, or of another key pair, is refused alike', async () => {
    const { device, passkey } = await register()
    await register('Ben')
    const other = new TestAuthenticator(publicUrl)
    const attempt = async (forge: (options: Started['options']) => object) => {
      const { options, secret } = await start('/api/sign-in/passkey/start', open)
      expect(options.allowCredentials).toEqual([])
      const { status, body } = await finish({ secret, credential: forge(options) })
      return [status, body.error]
    }
    const unknown = await attempt((options) => other.get(options))
    expect(unknown[0]).toBe(401)
    expect(await attempt((options) => ({ ...other.get(options), id: device.id }))).toEqual(unknown)
    await service.call('DELETE', `/api/passkeys/${passkey.id}`)
    expect(await attempt((options) => device.get(options))).toEqual(unknown)
  })

  it('whose counter went back is refused', async () => {
    const { device } = await register('counting', new TestAuthenticator(publicUrl, 5))
    await signIn(device)
    await signIn(device)
    for (const counter of [7, 6, 0]) {
      const { options, secret } = await start('/api/sign-in/passkey/start', open)
      const answer = await finish({ secret, credential: device.get(options, { counter }) })
      expect([answer.status, answer.body.error]).toEqual([401, expect.stringContaining('may have been copied')])
    }
    await signIn(device)
  })

  it('is refused from the page of another site', async () => {
    const { device } = await register()
    const foreign = { key: null, headers: { 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' } }
    expect((await service.call('POST', '/api/sign-in/passkey/start', foreign)).status).toBe(403)
    const { options, secret } = await start('/api/sign-in/passkey/start', open)
    const body = { secret, credential: device.get(options) }
    expect((await service.call('POST', '/api/sign-in/passkey/finish', { ...foreign, body })).status).toBe(403)
  })

  it('leaves neither challenge nor signature in the log', async () => {
    const { device } = await register()
    const { options, secret } = await start('/api/sign-in/passkey/start', open)
    const credential = device.get(options, { isUnverified: true })
    await finish({ secret, credential })
    const log = service.logged.join('\n')
    expect(log).toContain('a passkey was not accepted')
    for (const text of [secret, credential.response.signature]) expect(log).not.toContain(text)
  })
})
