import type { OpenSession, Person } from '@wardline/contract'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type IdentityProvider, startIdentityProvider } from '../../../../../test-servers/identity-provider.ts'
import { accounts, as, atProvider, finish, openServiceWith, publicUrl, signIn } from '../../testing/people.ts'
import { openTestService, type TestService, type TestSession } from '../../testing/service.ts'

describe('a person signs in', () => {
  let provider: IdentityProvider
  let service: TestService
  beforeAll(async () => {
    provider = await startIdentityProvider({ publicUrl, accounts: structuredClone(accounts) })
  })
  afterAll(() => provider[Symbol.asyncDispose]())
  beforeEach(async () => {
    Object.assign(provider.accounts, structuredClone(accounts))
    service = await openServiceWith(provider)
    return () => service[Symbol.asyncDispose]()
  })

  it('with the role of their group, under their own name', async () => {
    const session = await signIn(service, 'ada')
    const { body } = await service.call<Record<string, unknown>>('GET', '/api/session', as(session))
    expect(body).toMatchObject({
      scope: 'operator',
      name: 'Ada Lovelace',
      person: { name: 'Ada Lovelace', issuer: provider.issuer, role: 'operator' },
    })
    // The provider says the time only if it is asked for.
    expect(body.authenticated_at).toBeUndefined()
  })

  it('and is named in the audit log, not by a key', async () => {
    await service.call('POST', '/api/heartbeat', { body: { instance_id: 'agent-1', name: 'agent-1' } })
    const session = await signIn(service, 'ada')
    const kill = await service.call('POST', '/api/kill/agent-1', { ...as(session), body: { reason: 'a test' } })
    expect(kill.status, kill.text).toBe(200)
    const { body } = await service.call<{ entries: Record<string, unknown>[] }>(
      'GET',
      '/api/audit?action=instance.suspend',
    )
    expect(body.entries[0]).toMatchObject({ actor_name: 'Ada Lovelace', actor: expect.stringMatching(/^person-/) })
  })

  it('and not without a group that has a role', async () => {
    const answer = await finish(service, await atProvider(service, 'eve'))
    expect([answer.status, answer.body.error]).toEqual([
      403,
      'None of your groups has a role in this service: ask its admin.',
    ])
    expect(answer.headers['set-cookie']).toBeUndefined()
    const { body } = await service.call<{ people: Person[] }>('GET', '/api/people')
    expect(body.people).toMatchObject([{ name: 'Eve', role: null, sessions: 0 }])
    const { body: detail } = await service.call<{ groups: string[] }>('GET', `/api/people/${body.people[0]!.id}`)
    expect(detail.groups).toEqual(['everybody'])
  })

  it('and a role that changed is audited', async () => {
    await signIn(service, 'ada')
    provider.accounts.ada!.groups = ['admins']
    service.clock.advance(1_000)
    await signIn(service, 'ada')
    const { body } = await service.call<{ entries: object[] }>('GET', '/api/audit?action=person.role')
    expect(body.entries).toMatchObject([
      { before: null, after: { role: 'operator', by: 'platform' } },
      { before: { role: 'operator' }, after: { role: 'admin', by: 'admins' } },
    ])
  })

  it('within ten minutes', async () => {
    const attempt = await atProvider(service, 'ada')
    service.clock.advance(10 * 60_000)
    expect((await finish(service, attempt)).status).toBe(401)
  })

  it('and no secret of it is logged or stored in clear', async () => {
    const attempt = await atProvider(service, 'ada')
    await finish(service, { ...attempt, answer: `${attempt.answer}x` })
    const session = await signIn(service, 'ada')
    const rows = JSON.stringify(await service.deps.database.db.selectFrom('sessions').selectAll().execute())
    for (const text of [attempt.secret, session.secret, new URLSearchParams(attempt.answer).get('code')!]) {
      expect(service.logged.join('\n')).not.toContain(text)
      expect(rows).not.toContain(text)
    }
    expect(rows).not.toContain('eyJ')
  })

  it('and lists and ends own sessions, an admin all', async () => {
    const [first, second] = [await signIn(service, 'ada'), await signIn(service, 'ada')]
    const { body } = await service.call<{ sessions: OpenSession[] }>('GET', '/api/sessions', as(second))
    expect(body.sessions.map(({ current, device }) => [current, device])).toContainEqual([
      true,
      'a browser of the tests',
    ])
    const root = await signIn(service, 'root')
    const own = (await service.call<{ sessions: OpenSession[] }>('GET', '/api/sessions', as(root))).body.sessions[0]!
    expect((await service.call('DELETE', `/api/sessions/${own.id}`, as(first))).status).toBe(404)
    const other = body.sessions.find(({ current }) => !current)!
    expect((await service.call('DELETE', `/api/sessions/${other.id}`, as(second))).status).toBe(200)
    expect((await service.call('GET', '/api/session', as(first))).status).toBe(401)
    const { people } = (await service.call<{ people: Person[] }>('GET', '/api/people', as(root))).body
    const ada = people.find(({ name }) => name === 'Ada Lovelace')!
    expect(ada).toMatchObject({ role: 'operator', role_by: 'platform', sessions: 1 })
    expect((await service.call('DELETE', `/api/people/${ada.id}/sessions`, as(root))).body).toEqual({
      ok: true,
      ended: 1,
    })
    expect((await service.call('GET', '/api/session', as(second))).status).toBe(401)
  })
})

describe('the groups are asked for again', () => {
  let provider: IdentityProvider
  let service: TestService
  beforeEach(async () => {
    provider = await startIdentityProvider({ publicUrl, accounts: structuredClone(accounts) })
    service = await openServiceWith(provider)
    return async () => {
      await service[Symbol.asyncDispose]()
      await provider[Symbol.asyncDispose]()
    }
  })
  const status = async (session: TestSession) => {
    service.clock.advance(1_001)
    const { status, body } = await service.call<{ scope?: string }>('GET', '/api/session', as(session))
    return [status, body.scope]
  }
  /** Keeps the session in use while time passes. */
  async function pass(session: TestSession, minutes: number): Promise<void> {
    for (let minute = 0; minute < minutes; minute += 10) {
      service.clock.advance(10 * 60_000)
      await service.call('GET', '/api/session', as(session))
      await service.services.evaluation.run()
    }
  }

  it('every ten minutes, and a new role applies', async () => {
    const session = await signIn(service, 'ada')
    provider.accounts.ada!.groups = ['watchers']
    service.clock.advance(9 * 60_000)
    await service.services.evaluation.run()
    expect(await status(session)).toEqual([200, 'operator'])
    await pass(session, 10)
    expect(await status(session)).toEqual([200, 'viewer'])
    await pass(session, 60)
    expect(await status(session)).toEqual([200, 'viewer'])
  })

  it.each<[string, () => void]>([
    [
      'without a group that has a role',
      () => {
        provider.accounts.ada!.groups = ['everybody']
      },
    ],
    [
      'whose grant the provider revoked',
      () => {
        provider.provider.RefreshToken.find = async () => undefined
      },
    ],
  ])('and end the sessions of a person %s', async (_, change) => {
    const session = await signIn(service, 'ada')
    change()
    await pass(session, 10)
    expect(await status(session)).toEqual([401, undefined])
    const { body } = await service.call<{ entries: { action: string }[] }>('GET', '/api/audit?limit=5')
    expect(body.entries.map(({ action }) => action)).toContainEqual(
      expect.stringMatching(/^(person\.role|session\.end)$/),
    )
  })

  it('and keep a session for an hour while the provider is away', async () => {
    const session = await signIn(service, 'ada')
    const start = provider.stop()
    await pass(session, 50)
    expect((await status(session))[0]).toBe(200)
    await pass(session, 20)
    expect((await status(session))[0]).toBe(401)
    start()
    expect((await status(await signIn(service, 'ada')))[0]).toBe(200)
  })

  it.each<[string, number, object]>([
    ['too many requests', 429, { error: 'too_many_requests' }],
    ['a client that is refused', 400, { error: 'invalid_client' }],
    ['a scope that it no longer knows', 400, { error: 'invalid_scope' }],
    ['a fault of the provider', 500, {}],
  ])('and %s say nothing about a person', async (_, code, body) => {
    const session = await signIn(service, 'ada')
    const start = provider.answerTokens(code, body)
    await pass(session, 30)
    expect((await status(session))[0]).toBe(200)
    start()
    provider.accounts.ada!.groups = ['watchers']
    await pass(session, 20)
    expect(await status(session)).toEqual([200, 'viewer'])
  })

  it('and end a session whose provider is no longer configured, or is another one', async () => {
    const session = await signIn(service, 'ada')
    const shared = { dataDir: service.deps.config.dataDir, clock: service.clock }
    await using without = await openTestService(shared)
    const on = (one: TestService) => one.call('GET', '/api/session', as(session))
    for (let minute = 0; minute < 60; minute += 20) {
      expect((await on(without)).status).toBe(200)
      service.clock.advance(20 * 60_000 + 1_000)
      await without.services.evaluation.run()
    }
    expect((await on(without)).status).toBe(401)
    const later = await signIn(service, 'ada')
    await using other = await startIdentityProvider({ publicUrl, accounts })
    await using changed = await openTestService({ ...shared, env: other.env() })
    service.clock.advance(10 * 60_000)
    await changed.services.evaluation.run()
    service.clock.advance(1_001)
    expect((await changed.call('GET', '/api/session', as(later))).status).toBe(401)
  })

  it('and an answer that comes late changes nothing that was said later', async () => {
    const early = await signIn(service, 'root')
    service.clock.advance(10 * 60_000)
    const release = provider.holdTokens()
    const evaluating = service.services.evaluation.run()
    await release.held
    provider.accounts.root!.groups = ['watchers']
    service.clock.advance(1_000)
    const later = await signIn(service, 'root')
    expect(await status(later)).toEqual([200, 'viewer'])
    release.go()
    await evaluating
    expect(await status(later)).toEqual([200, 'viewer'])
    expect(await status(early)).toEqual([200, 'viewer'])
  })

  it('and keep a session whose provider came back in time', async () => {
    const session = await signIn(service, 'ada')
    const start = provider.stop()
    await pass(session, 50)
    start()
    await pass(session, 60)
    expect((await status(session))[0]).toBe(200)
  })
})

describe('without a refresh token', () => {
  it('a session ends after an hour', async () => {
    await using provider = await startIdentityProvider({ publicUrl, accounts, isWithoutRefresh: true })
    await using service = await openServiceWith(provider)
    const session = await signIn(service, 'ada')
    for (let minute = 0; minute < 50; minute += 10) {
      service.clock.advance(10 * 60_000)
      expect((await service.call('GET', '/api/session', as(session))).status).toBe(200)
    }
    service.clock.advance(10 * 60_000)
    expect((await service.call('GET', '/api/session', as(session))).status).toBe(401)
  })
})

describe('the provider', () => {
  it.each([
    ['userinfo only', { inIdToken: false }],
    ['pushed requests', { hasPushedRequests: true }],
  ])('may send groups and requests otherwise: %s', async (_, options) => {
    await using provider = await startIdentityProvider({ publicUrl, accounts, ...options })
    await using service = await openServiceWith(provider)
    const session = await signIn(service, 'ada')
    expect((await service.call<{ scope: string }>('GET', '/api/session', as(session))).body.scope).toBe('operator')
  })

  it('ends a session here and is ended with it', async () => {
    await using provider = await startIdentityProvider({ publicUrl, accounts })
    await using service = await openServiceWith(provider)
    const session = await signIn(service, 'ada')
    const { body } = await service.call<{ logout_url: string }>('DELETE', '/api/session', as(session))
    const url = new URL(body.logout_url)
    expect(url.origin).toBe(provider.issuer)
    expect(url.searchParams.get('post_logout_redirect_uri')).toBe(`${publicUrl}/login`)
    expect(url.searchParams.get('id_token_hint')).toMatch(/^eyJ/)
  })

  it('that is away refuses with a sentence, and keys open sessions', async () => {
    await using provider = await startIdentityProvider({ publicUrl, accounts })
    await using service = await openServiceWith(provider)
    provider.stop()
    const { status, body } = await service.call<{ error: string }>('POST', '/api/sign-in/start', { key: null })
    expect([status, body.error]).toEqual([503, expect.stringContaining(provider.issuer)])
    await service.signIn()
  })

  it('that is not configured is no fault of a page', async () => {
    await using service = await openTestService()
    expect((await service.call('GET', '/api/sign-in', { key: null })).body).toEqual({
      provider: null,
      people_only: false,
      passkeys: false,
    })
    expect((await service.call('POST', '/api/sign-in/start', { key: null })).status).toBe(409)
    expect(
      (
        await service.call('POST', '/auth/backchannel-logout', {
          key: null,
          body: 'logout_token=x',
          headers: { 'content-type': 'application/x-www-form-urlencoded' },
        })
      ).status,
    ).toBe(409)
  })
})

describe('only people', () => {
  it('is refused until an admin has signed in, then keys open no sessions but the local admin key, with an alarm', async () => {
    await using provider = await startIdentityProvider({ publicUrl, accounts })
    await using service = await openServiceWith(provider)
    const { key } = await service.createKey('operator')
    const refused = await service.call('PUT', '/api/sign-in', { body: { people_only: true } })
    expect(refused.status).toBe(409)
    await signIn(service, 'ada')
    expect((await service.call('PUT', '/api/sign-in', { body: { people_only: true } })).status).toBe(409)
    // Nobody could sign in otherwise yet.
    await service.signIn()
    const events = async () =>
      (await service.call<{ events: object[] }>('GET', '/api/events?type=admin_key_sign_in')).body.events.length
    expect(await events()).toBe(0)
    await signIn(service, 'root')
    await service.signIn(key)
    const earlier = await service.signIn(key)
    const named = await service.call('POST', '/api/keys', { body: { scope: 'admin', name: 'first admin' } })
    expect(named.status).toBe(400)
    const local = await service.signIn()
    expect((await service.call('PUT', '/api/sign-in', { body: { people_only: true } })).status).toBe(200)
    service.clock.advance(1_001)
    expect((await service.call('GET', '/api/session', as(earlier))).status).toBe(401)
    expect((await service.call('GET', '/api/session', as(local))).status).toBe(200)
    await expect(service.signIn(key)).rejects.toThrow('Only people sign in here')
    expect((await service.call('GET', '/api/status', { key })).status).toBe(200)
    expect(await events()).toBe(1)
    await service.signIn()
    expect(await events()).toBe(2)
    expect((await service.call('PUT', '/api/sign-in', { body: { people_only: false } })).status).toBe(200)
    await service.signIn(key)
  })
})
