import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import {
  type IdentityProvider,
  ProviderBrowser,
  startIdentityProvider,
} from '../../../../../test-servers/identity-provider.ts'
import { accounts, as, atProvider, confirm, finish, openServiceWith, publicUrl, signIn } from '../../testing/people.ts'
import type { Method, TestService } from '../../testing/service.ts'

const minute = 60_000
const rule = (mode: string) => ({
  rule: `title: A rule\nmode: ${mode}\nseverity: warning\ndetection:\n  seen: { event_type: x }\n  condition: seen\ntests:\n  match:\n    - - { event_type: x }\n  no_match:\n    - - { event_type: y }\n`,
})

let provider: IdentityProvider
let service: TestService
beforeAll(async () => {
  provider = await startIdentityProvider({ publicUrl, accounts })
})
afterAll(() => provider[Symbol.asyncDispose]())
beforeEach(async () => {
  service = await openServiceWith(provider)
  for (const id of ['a', 'b']) await service.call('POST', '/api/heartbeat', { body: { instance_id: id, name: id } })
  await service.call('POST', '/api/kill/a', { body: { reason: 'x' } })
  return () => service[Symbol.asyncDispose]()
})

const changes: [string, Method, string, unknown][] = [
  ['a resume', 'POST', '/api/resume/a', undefined],
  [
    'a resume of many',
    'POST',
    '/api/containments',
    { action: 'resume', reason: 'x', selector: { instances: ['a'] }, confirm: 'resume 1 agent' },
  ],
  ['a new key', 'POST', '/api/keys', { scope: 'viewer', name: 'x' }],
  ['a table of roles', 'PUT', '/api/roles', { mappings: [{ group: 'admins', role: 'admin' }], version: 1 }],
  ['who may sign in', 'PUT', '/api/sign-in', { people_only: true }],
  [
    'a new decoy, whose value is shown',
    'POST',
    '/api/honeypots',
    { type: 'api_key', keyType: 'openai', instanceId: 'a', label: 'x' },
  ],
  ['a rule that enforces', 'POST', '/api/rules', rule('enforce')],
]

it.each(changes)('%s needs a confirmation of the last five minutes', async (_, method, path, body) => {
  const browser = new ProviderBrowser()
  const session = as(await signIn(service, 'root', browser))
  const given = body === undefined ? {} : { body }
  const refused = await service.call<{ error: string }>(method, path, { ...session, ...given })
  expect([refused.status, refused.headers['x-error-code']], refused.text).toEqual([401, 'fresh_confirmation_required'])
  const done = await service.call(method, path, { ...as(await confirm(service, 'root', browser)), ...given })
  expect([200, 201], done.text).toContain(done.status)
})

it.each<[string, Method, string, unknown]>([
  ['a kill', 'POST', '/api/kill/b', { reason: 'x' }],
  [
    'a suspension of many',
    'POST',
    '/api/containments',
    { action: 'suspend', reason: 'x', selector: { instances: ['b'] }, confirm: 'suspend 1 agent' },
  ],
  ['a rule that observes', 'POST', '/api/rules', rule('observe')],
])('%s needs none', async (_, method, path, body) => {
  const session = as(await signIn(service, 'root'))
  const done = await service.call(method, path, { ...session, body })
  expect([200, 201], done.text).toContain(done.status)
})

it('a confirmation lasts five minutes', async () => {
  const browser = new ProviderBrowser()
  await signIn(service, 'root', browser)
  const confirmed = as(await confirm(service, 'root', browser))
  service.clock.advance(6 * minute)
  const late = await service.call('POST', '/api/resume/a', confirmed)
  expect(late.headers['x-error-code']).toBe('fresh_confirmation_required')
})

it('a key has nothing to confirm', async () => {
  expect((await service.call('POST', '/api/resume/a')).status).toBe(200)
})

/** Changes the ID tokens of the provider. */
const changeClaims = (change: (claims: Record<string, unknown>) => object) =>
  provider.changeAnswers('/token', (body) => {
    const claims = JSON.parse(Buffer.from(String(body.id_token).split('.')[1]!, 'base64url').toString('utf8'))
    return { ...body, id_token: provider.sign({ ...claims, ...change(claims) }) }
  })

it.each<[string, (claims: Record<string, unknown>) => object, string]>([
  ['does not say when', () => ({ auth_time: undefined }), 'does not say when you signed in (auth_time)'],
  ['did not authenticate again', ({ iat }) => ({ auth_time: Number(iat) - 600 }), 'sign out there, then confirm again'],
])('a provider that %s confirms nothing, and the page names the way that is left', async (_, change, sentence) => {
  const browser = new ProviderBrowser()
  const session = as(await signIn(service, 'root', browser))
  const attempt = await atProvider(service, 'root', browser, '?confirm=true')
  const restore = changeClaims(change)
  const { status, body } = await finish(service, attempt)
  restore()
  expect([status, body.error]).toEqual([401, expect.stringContaining(sentence)])
  expect(body.error).toMatch(/make the change with the local admin key\.$/)
  expect((await service.call('GET', '/api/session', session)).status).toBe(200)
})

it('a provider that says the time only if it is asked for it by name confirms', async () => {
  await using byName = await startIdentityProvider({
    publicUrl,
    accounts,
    change: (configuration) => ({
      ...configuration,
      features: { ...configuration.features, claimsParameter: { enabled: true } },
    }),
  })
  await using other = await openServiceWith(byName)
  const { body } = await other.call<{ url: string; secret: string }>('POST', '/api/sign-in/start?confirm=true', {
    key: null,
  })
  const url = new URL(body.url)
  url.searchParams.delete('max_age')
  const back = await new ProviderBrowser().signIn(url.href, 'root', publicUrl)
  expect((await finish(other, { answer: back.search.slice(1), secret: body.secret })).status).toBe(201)
})

it.each([
  ['takes the parameter', true, true],
  ['does not say whether it takes it', undefined, true],
  ['takes none', false, false],
])('the time is asked for by name, to confirm, from a provider that %s', async (_, announced, isAsked) => {
  const restore = provider.changeAnswers('/.well-known/openid-configuration', (metadata) => ({
    ...metadata,
    claims_parameter_supported: announced,
  }))
  await using other = await openServiceWith(provider)
  const askedAt = async (query: string) => {
    const { body } = await other.call<{ url: string }>('POST', `/api/sign-in/start${query}`, { key: null })
    return new URL(body.url).searchParams.get('claims')
  }
  expect(await askedAt('?confirm=true')).toBe(isAsked ? '{"id_token":{"auth_time":{"essential":true}}}' : null)
  expect(await askedAt('')).toBeNull()
  restore()
})
