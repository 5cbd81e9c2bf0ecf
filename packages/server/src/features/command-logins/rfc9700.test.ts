import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { type IdentityProvider, startIdentityProvider } from '../../../../../test-servers/identity-provider.ts'
import { randomSecret } from '../../ids.ts'
import { codeOf, commandLoginsOf } from '../../testing/command-logins.ts'
import { accounts, as, openServiceWith, publicUrl, signIn } from '../../testing/people.ts'
import { adminKey, type TestService } from '../../testing/service.ts'
import { hashKey } from '../keys/key-format.ts'

/* The attacks of RFC 9700, section 4, on the logins of command lines, for which Wardline hands out tokens itself. */

const minuteMs = 60_000

let provider: IdentityProvider
let service: TestService
let { post, begin, allow, logIn, statusOf } = {} as ReturnType<typeof commandLoginsOf>
beforeAll(async () => {
  provider = await startIdentityProvider({ publicUrl, accounts: structuredClone(accounts) })
  service = await openServiceWith(provider)
  ;({ post, begin, allow, logIn, statusOf } = commandLoginsOf(service))
})
// Each attack has its own allowance of attempts and invalid tokens.
beforeEach(() => void service.clock.advance(minuteMs))
afterAll(async () => {
  await service?.[Symbol.asyncDispose]()
  await provider?.[Symbol.asyncDispose]()
})

/** Allows a login with a session of a key. Resolves with the address to which the browser is led. */
async function allowByKey(code: string): Promise<URL> {
  const { body } = await post<{ redirect_url: string }>('/approve', { code }, as(await service.signIn()))
  return new URL(body.redirect_url)
}

it.each<[section: string, attack: string, defence: string, run: () => Promise<void>]>([
  [
    '4.1',
    'a command line that names where the browser is led',
    'it names a port of 127.0.0.1 and a state, nothing else',
    async () => {
      for (const asked of [
        { loopback: { port: 80, state: randomSecret(32), host: 'evil.example' } },
        { loopback: 'http://evil.example/' },
        { redirect_uri: 'http://evil.example/' },
        { loopback: { port: 0, state: randomSecret(32) } },
        { loopback: { port: 80, state: '@evil.example/#' } },
      ]) {
        const asking = { challenge: hashKey(randomSecret(32)), host: 'x', ...asked }
        expect((await post('', asking)).status, JSON.stringify(asked)).toBe(400)
      }
    },
  ],
  [
    '4.3',
    'an access token in an address',
    'it is accepted in no address',
    async () => {
      const { access } = await logIn('ada')
      for (const name of ['access_token', 'key', 'x-monitor-key', 'code']) {
        expect((await service.call('GET', `/api/session?${name}=${access}`, { key: null })).status).toBe(401)
      }
    },
  ],
  [
    '4.4',
    'a server that passes the login of a command line on to another Wardline',
    'the browser brings `iss`, which the command line compares',
    async () => {
      const command = await begin()
      const { searchParams } = await allowByKey(command.code)
      expect([searchParams.get('iss'), searchParams.get('state')]).toEqual([publicUrl, command.state])
    },
  ],
  [
    '4.5',
    'the code of a command line without its token, its token without the code, and both twice',
    'the token that the command line chose is the verifier; the code comes only to its machine',
    async () => {
      const [victim, thief] = [await begin(), await begin()]
      const code = codeOf((await allowByKey(victim.code)).href)
      const nothing = [
        await thief.finish({ code }),
        await post('/finish', { token: randomSecret(32), secret: randomSecret(32), code }),
        await victim.finish(),
        await victim.finish({ code: randomSecret(32) }),
      ]
      expect(nothing.map(({ body }) => 'session' in body)).toEqual([false, false, false, false])
      expect((await victim.finish({ code })).status).toBe(200)
      expect((await victim.finish({ code })).status).toBe(401)
    },
  ],
  [
    '4.5',
    'the code of a login that was refused, or is too late',
    'a code ends after ten minutes, and with a refusal',
    async () => {
      const [late, unfetched, refused] = [await begin(), await begin(), await begin()]
      const person = as(await service.signIn())
      const { body } = await post<{ redirect_url: string }>('/deny', { code: refused.code }, person)
      expect(new URL(body.redirect_url).searchParams.get('error')).toBe('access_denied')
      const code = codeOf((await allowByKey(unfetched.code)).href)
      service.clock.advance(10 * minuteMs)
      expect((await post('/approve', { code: late.code }, person)).status).toBe(404)
      for (const answer of [await late.finish(), await unfetched.finish({ code }), await refused.finish()]) {
        expect(answer.status).toBe(401)
      }
    },
  ],
  [
    '4.7',
    'a page, a key or a command line that allows a command line',
    'only a page of the service does, with both halves of its session',
    async () => {
      const { headers } = as(await service.signIn())
      const { access } = await logIn('root')
      const command = await begin()
      for (const path of ['/find', '/approve', '/deny']) {
        for (const [caller, status] of [
          [{ key: null, headers: { ...headers, 'sec-fetch-site': 'cross-site' } }, 403],
          [{ key: null, headers: { cookie: headers.cookie, 'sec-fetch-site': 'same-origin' } }, 401],
          [{ key: adminKey }, 403],
          [{ key: access }, 403],
          [{ key: access, headers }, 403],
          [{ key: null }, 401],
        ] as const) {
          expect((await post(path, { code: command.code }, caller)).status, path).toBe(status)
        }
      }
      expect((await post('/find', { code: command.code }, { key: null, headers })).status).toBe(200)
      // Nor may a page begin one in the name of the person who visits it.
      const page = { key: null, headers: { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' } }
      expect((await post('', { challenge: hashKey('x'), host: 'x' }, page)).status).toBe(403)
    },
  ],
  [
    '4.8',
    'a login of a command line without a challenge',
    'a challenge is needed, and is a SHA-256',
    async () => {
      for (const challenge of [undefined, '', 'plain', randomSecret(32)]) {
        expect((await post('', { challenge, host: 'x' })).status, challenge).toBe(400)
      }
    },
  ],
  [
    '4.10',
    'a copied access token of a command line',
    'it lasts ten minutes, ends with its session, and opens nothing that lasts longer',
    async () => {
      const { access, token, secret } = await logIn('root')
      expect((await service.call('POST', '/api/session', { key: access })).status).toBe(401)
      expect((await service.call('POST', '/api/login-links', { key: access })).status).toBe(401)
      // Nor does what renews it serve as a browser: it would skip the short life of the access.
      const headers = { cookie: `wardline=${token}`, 'wardline-session': secret }
      expect((await service.call('GET', '/api/session', { key: null, headers })).status).toBe(401)
      const ended = await logIn('root')
      await service.call('DELETE', '/api/session', { key: ended.access })
      expect([await statusOf(access), await statusOf(ended.access)]).toEqual([200, 401])
      service.clock.advance(10 * minuteMs)
      expect(await statusOf(access)).toBe(401)
    },
  ],
  [
    '4.14',
    'a copy of what renews a command line',
    'it is replaced at each use, a second use ends the session, and a thief cannot keep it in use',
    async () => {
      const { access, renew, secret } = await logIn('ada')
      const next = randomSecret(32)
      expect((await renew(secret, next)).status).toBe(200)
      const replayed = await renew(secret, randomSecret(32))
      expect([replayed.status, replayed.body.error]).toEqual([401, expect.stringContaining('has ended')])
      expect([await statusOf(access), (await renew(next, randomSecret(32))).status]).toEqual([401, 401])
      const { body } = await service.call<{ entries: { reason: string }[] }>('GET', '/api/audit?action=session.end')
      expect(body.entries.at(-1)!.reason).toContain('a second time')
      for (const isReplaced of [false, true]) {
        const copied = await logIn('ada')
        const later = randomSecret(32)
        if (isReplaced) expect((await copied.renew(copied.secret, later)).status).toBe(200)
        expect((await copied.renew(randomSecret(32), isReplaced ? later : copied.secret)).status).toBe(401)
        expect(await statusOf(copied.access)).toBe(401)
      }
    },
  ],
  [
    '4.11',
    'a login that leads the browser to another site',
    'it is led to 127.0.0.1',
    async () => {
      const command = await begin()
      const { body } = await allow(command.code, as(await signIn(service, 'ada')), 'ada')
      expect(new URL(body.redirect_url!).origin).toBe('http://127.0.0.1:43210')
    },
  ],
])('%s %s: %s', (_section, _attack, _defence, run) => run())
