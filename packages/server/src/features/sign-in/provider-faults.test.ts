import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from 'vitest'
import { type IdentityProvider, startIdentityProvider } from '../../../../../test-servers/identity-provider.ts'
import { accounts, as, atProvider, finish, openServiceWith, publicUrl, signIn } from '../../testing/people.ts'
import type { TestService, TestSession } from '../../testing/service.ts'

const minuteMs = 60_000
const evil = 'https://evil.example'

let provider: IdentityProvider
let service: TestService
beforeAll(async () => {
  provider = await startIdentityProvider({ publicUrl, accounts: structuredClone(accounts) })
})
afterAll(() => provider[Symbol.asyncDispose]())
beforeEach(async () => {
  // Provider and libraries read the clock of the machine.
  vi.useFakeTimers({ toFake: ['Date'] })
  Object.assign(provider.accounts, structuredClone(accounts))
  service = await openServiceWith(provider)
})
afterEach(async () => {
  provider.stop()()
  vi.useRealTimers()
  await service[Symbol.asyncDispose]()
})

function pass(ms: number): void {
  service.clock.advance(ms)
  vi.setSystemTime(Date.now() + ms)
}

/** Lets ten minutes pass, after which the provider is asked again. */
async function evaluate(): Promise<void> {
  pass(10 * minuteMs)
  await service.services.evaluation.run()
  pass(1_001)
}

const scopeOf = async (session: TestSession) =>
  (await service.call<{ scope?: string }>('GET', '/api/session', as(session))).body.scope

const sendLogout = (token: string) =>
  service.call<{ error: string }>('POST', '/auth/backchannel-logout', {
    key: null,
    body: `logout_token=${token}`,
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  })

const logoutClaims = () => ({
  iss: provider.issuer,
  aud: 'wardline',
  iat: Math.floor(Date.now() / 1_000),
  exp: Math.floor(Date.now() / 1_000) + 120,
  jti: 'one',
  sub: 'ada',
  events: { 'http://schemas.openid.net/event/backchannel-logout': {} },
})

type Claims = Record<string, unknown> & { iat: number; exp: number }
const claimsOf = (token: unknown): Claims =>
  JSON.parse(Buffer.from(String(token).split('.')[1]!, 'base64url').toString('utf8'))

/** Replaces the ID tokens of the provider. Returns what restores them, and the tokens that were sent. */
function forge(make: (claims: Claims, token: string) => string) {
  const sent: string[] = []
  const restore = provider.changeAnswers('/token', (body) => {
    const id_token = make(claimsOf(body.id_token), String(body.id_token))
    sent.push(String(body.id_token), id_token, String(body.access_token), String(body.refresh_token))
    return { ...body, id_token }
  })
  return { sent, restore }
}

const shift = (seconds: number) => (claims: Claims) =>
  provider.sign({ ...claims, iat: claims.iat + seconds, exp: claims.iat + seconds + 1, auth_time: undefined })

const notPublished = 'a key that the provider does not publish'
let stolen: IdentityProvider['sign']

it.each<[string, (claims: Claims, token: string) => string, string]>([
  ['of another issuer', (claims) => provider.sign({ ...claims, iss: evil }), 'compare WARDLINE_OIDC_ISSUER'],
  ['for another client', (claims) => provider.sign({ ...claims, aud: 'other' }), 'compare WARDLINE_OIDC_CLIENT_ID'],
  [
    'that another client asked for',
    (claims) => provider.sign({ ...claims, aud: ['wardline', 'other'], azp: 'other' }),
    'compare WARDLINE_OIDC_CLIENT_ID',
  ],
  [
    'for several clients, that does not say which asked',
    (claims) => provider.sign({ ...claims, aud: ['wardline', 'other'] }),
    'is for another client',
  ],
  ['that is not signed', (claims) => provider.sign(claims, { alg: 'none' }), 'not valid'],
  ['signed with the public key as a secret', (claims) => provider.sign(claims, { alg: 'HS256' }), 'not valid'],
  ['with an unknown key', (claims) => provider.sign(claims, { kid: 'other' }), notPublished],
  ['signed with a key of another provider', (claims) => stolen(claims, { kid: 'of-the-tests' }), 'not valid'],
  [
    'whose claims were changed',
    (claims, token) =>
      token.replace(
        /\.[^.]+/,
        `.${Buffer.from(JSON.stringify({ ...claims, groups: ['admins', 'all'] })).toString('base64url')}`,
      ),
    'not valid',
  ],
  ['without a subject', (claims) => provider.sign({ ...claims, sub: undefined }), 'not valid'],
  ['that is no JWT', () => 'garbage', 'The provider does not answer|not valid'],
  [
    'of a clock that is 50 seconds behind',
    shift(-50),
    'The clocks of .* differ by (49|50|51) seconds, and 30 .*timedatectl',
  ],
  [
    'of a clock that is 50 seconds ahead',
    shift(50),
    'The clocks of .* differ by (49|50|51) seconds, and 30 .*timedatectl',
  ],
])('an ID token %s signs nobody in, ends no session before its hour, and is not logged', async (_, make, sentence) => {
  if (!stolen) {
    await using other = await startIdentityProvider({ publicUrl, accounts })
    other.rotateKeys()
    stolen = other.sign
  }
  const session = await signIn(service, 'ada')
  const attempt = await atProvider(service, 'root')
  const { sent, restore } = forge(make)
  const refused = await finish(service, attempt)
  expect([401, 503], refused.text).toContain(refused.status)
  expect([refused.body.error, refused.headers['set-cookie']]).toEqual([
    expect.stringMatching(new RegExp(sentence)),
    undefined,
  ])
  await evaluate()
  expect(await scopeOf(session)).toBe('operator')
  restore()
  const seen = service.logged.join('\n') + refused.text
  expect(seen).toContain('a person could not sign in')
  expect(seen).toContain('a session could not be evaluated')
  expect(sent.length).toBe(8)
  const secrets = [...sent, attempt.secret, new URLSearchParams(attempt.answer).get('code')!]
  for (const part of secrets.flatMap((secret) => secret.split('.'))) {
    if (part.length > 3) expect(seen).not.toContain(part)
  }
})

it('clocks may differ by less than 30 seconds, and a confirmation lasts no longer for that', async () => {
  for (const seconds of [-25, 25]) {
    const { restore } = forge(shift(seconds))
    expect(await scopeOf(await signIn(service, 'ada'))).toBe('operator')
    restore()
  }
  const { restore } = forge((claims) => provider.sign({ ...claims, auth_time: claims.iat + 3_600 }))
  const session = as(await signIn(service, 'root'))
  restore()
  const { body } = await service.call<{ authenticated_at: string }>('GET', '/api/session', session)
  expect(Date.parse(body.authenticated_at)).toBe(service.clock.now())
})

it('a session without good answers ends after an hour', async () => {
  const session = await signIn(service, 'ada')
  const { restore } = forge((claims) => provider.sign({ ...claims, aud: 'other' }))
  for (let minutes = 0; minutes < 50; minutes += 10) {
    await evaluate()
    expect(await scopeOf(session)).toBe('operator')
  }
  await evaluate()
  expect(await scopeOf(session)).toBeUndefined()
  restore()
})

it.each([
  ['a refused grant', 'invalid_grant', undefined],
  ['a person who has to sign in again', 'interaction_required', undefined],
  ['a client that may not refresh', 'unauthorized_client', 'operator'],
  ['an error that is not known', 'something_else', 'operator'],
])('%s at a refresh ends a session only if it is about the person', async (_, error, scope) => {
  const session = await signIn(service, 'ada')
  const restore = provider.answerTokens(400, { error })
  await evaluate()
  restore()
  expect(await scopeOf(session)).toBe(scope)
})

it('a refresh that answers for another person ends the session', async () => {
  const session = await signIn(service, 'ada')
  const { restore } = forge((claims) => provider.sign({ ...claims, sub: 'root', groups: ['admins'] }))
  await evaluate()
  restore()
  expect(await scopeOf(session)).toBeUndefined()
})

it('keys that the provider swaps are used without a restart, and earlier ones refused', async () => {
  const [ada, root] = [await signIn(service, 'ada'), await signIn(service, 'root')]
  expect((await sendLogout(provider.sign({ ...logoutClaims(), sub: 'nobody' }))).status).toBe(200)
  const earlier = provider.rotateKeys()
  provider.accounts.root!.groups = ['watchers']
  pass(minuteMs)
  expect(await scopeOf(await signIn(service, 'ada'))).toBe('operator')
  await evaluate()
  expect(await scopeOf(root)).toBe('viewer')
  const attempt = await atProvider(service, 'ada')
  const { restore } = forge((claims) => earlier(claims))
  const forged = await finish(service, attempt)
  restore()
  expect([forged.status, forged.body.error]).toEqual([401, expect.stringContaining(notPublished)])
  const refused = await sendLogout(earlier(logoutClaims()))
  expect([refused.status, await scopeOf(ada)], refused.text).toEqual([400, 'operator'])
  const ended = await sendLogout(provider.sign(logoutClaims()))
  pass(1_001)
  expect([ended.status, await scopeOf(ada)], ended.text).toEqual([200, undefined])
})

it.each([
  ['no keys', () => ({ keys: [] }), notPublished],
  ['keys that are cut off', () => '{"keys":[{"kty":"RSA","e":"AQAB","n":"', 'does not answer|not valid'],
  ['a key without its parts', () => ({ keys: [{ kty: 'RSA', kid: provider.sign({}) }] }), notPublished],
])('%s refuse sign-ins until the provider publishes them again', async (_, change, sentence) => {
  const attempt = await atProvider(service, 'ada')
  const restore = provider.changeAnswers('/jwks', change)
  const refused = await finish(service, attempt)
  const logout = await sendLogout(provider.sign(logoutClaims()))
  restore()
  expect([401, 503]).toContain(refused.status)
  expect(refused.body.error).toMatch(new RegExp(sentence))
  expect([400, 503], logout.text).toContain(logout.status)
  pass(minuteMs)
  expect(await scopeOf(await signIn(service, 'ada'))).toBe('operator')
})

it('a provider that names another issuer is refused before anyone signs in', async () => {
  const restore = provider.changeAnswers('/.well-known/openid-configuration', (body) => ({ ...body, issuer: evil }))
  await using other = await openServiceWith(provider)
  const { status, body } = await other.call<{ error: string }>('POST', '/api/sign-in/start', { key: null })
  restore()
  expect([status, body.error]).toEqual([503, expect.stringContaining('compare WARDLINE_OIDC_ISSUER')])
})

it('a code and a state that were used are refused', async () => {
  const attempt = await atProvider(service, 'ada')
  expect((await finish(service, attempt)).status).toBe(201)
  expect((await finish(service, attempt)).status).toBe(401)
  const next = await atProvider(service, 'ada')
  const answer = new URLSearchParams(next.answer)
  answer.set('code', new URLSearchParams(attempt.answer).get('code')!)
  const refused = await finish(service, { answer: String(answer), secret: next.secret })
  expect([refused.status, refused.body.error]).toEqual([401, expect.stringContaining('invalid_grant')])
})
