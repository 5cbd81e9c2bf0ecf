import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import {
  type IdentityProvider,
  ProviderBrowser,
  startIdentityProvider,
} from '../../../../../test-servers/identity-provider.ts'
import { accounts, as, atProvider, finish, openServiceWith, publicUrl, signIn } from '../../testing/people.ts'
import type { TestService } from '../../testing/service.ts'
import { hashKey } from '../keys/key-format.ts'

/*
 * The attacks of RFC 9700, section 4, on Wardline as a client of the provider. Those on logins of command lines are in
 * command-logins/rfc9700.test.ts, those on the pages in e2e/browser/rfc9700.test.ts.
 */

const minuteMs = 60_000
const evilSite = 'https://evil.example'

let provider: IdentityProvider
let service: TestService
beforeAll(async () => {
  provider = await startIdentityProvider({ publicUrl, accounts: structuredClone(accounts) })
  service = await openServiceWith(provider)
})
// Each attack has its own allowance of attempts and invalid tokens.
beforeEach(() => void service.clock.advance(minuteMs))
afterAll(async () => {
  await service?.[Symbol.asyncDispose]()
  await provider?.[Symbol.asyncDispose]()
})

type Headers = Record<string, string>
const start = (headers: Headers = {}, body?: object) =>
  service.call<{ url: string; secret: string }>('POST', '/api/sign-in/start', {
    key: null,
    headers,
    ...(body ? { body } : {}),
  })

/** Sends a person to the provider with an address that an attacker has changed. */
async function atChanged(change: (parameters: URLSearchParams) => void) {
  const { body } = await start()
  const url = new URL(body.url)
  change(url.searchParams)
  const back = await new ProviderBrowser().signIn(url.href, 'ada', publicUrl)
  return { answer: back.search.slice(1), secret: body.secret }
}

/** Finishes a sign-in with an answer that an attacker has changed. */
async function refuses(
  change: (answer: URLSearchParams) => void | Promise<void>,
  attempt = atProvider(service, 'ada'),
) {
  const { answer, secret } = await attempt
  const changed = new URLSearchParams(answer)
  await change(changed)
  const refused = await finish(service, { answer: String(changed), secret })
  expect([refused.status, refused.headers['set-cookie']], refused.text).toEqual([401, undefined])
  return refused.body.error
}

/** Resolves with the tokens that the provider gives while something happens. */
async function tokensOf(during: () => Promise<unknown>): Promise<Record<string, string>> {
  let given: Record<string, string> = {}
  const restore = provider.changeAnswers('/token', (body) => {
    given = body as typeof given
    return body
  })
  await during().finally(restore)
  expect(Object.keys(given)).toEqual(expect.arrayContaining(['access_token', 'id_token', 'refresh_token']))
  return given
}

/** Listens as a server of the attacker. Resolves with what it receives. */
async function attackerHears(during: (address: string) => Promise<void>): Promise<string[]> {
  const heard: string[] = []
  const server = createServer((request, response) => {
    heard.push(`${request.method} ${request.url} ${request.headers.authorization}`)
    response.end('{}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  await during(`http://127.0.0.1:${(server.address() as AddressInfo).port}/token`)
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  return heard
}

type Attack = [section: string, attack: string, defence: string, run: () => Promise<void>]

const attacks: Attack[] = [
  [
    '4.1',
    'the host of a request says where the provider returns browsers',
    'the address is that of WARDLINE_PUBLIC_URL',
    async () => {
      for (const headers of [{}, { host: 'evil.example' }, { 'x-forwarded-host': 'evil.example' }] as Headers[]) {
        const { status, body } = await start({ ...headers, forwarded: 'host=evil.example' })
        if (status === 201) {
          expect(new URL(body.url).searchParams.get('redirect_uri')).toBe(`${publicUrl}/auth/callback`)
        } else expect([400, 403, 421]).toContain(status)
      }
    },
  ],
  [
    '4.1',
    'another redirect address on the way to the provider',
    'only one is registered, and compared exactly',
    async () => {
      for (const other of [
        `${evilSite}/auth/callback`,
        `${publicUrl}.evil.example/auth/callback`,
        `${publicUrl}/auth/callback/../login`,
        `${publicUrl}/auth/callback?to=${evilSite}`,
      ]) {
        await expect(
          atChanged((parameters) => parameters.set('redirect_uri', other)),
          other,
        ).rejects.toThrow(/answers 400/)
      }
    },
  ],
  [
    '4.3',
    'a code in the history of a browser',
    'a code works once',
    async () => {
      const attempt = await atProvider(service, 'ada')
      expect((await finish(service, attempt)).status).toBe(201)
      expect((await finish(service, attempt)).status).toBe(401)
    },
  ],
  [
    '4.4',
    'the answer of another provider',
    '`iss` of the answer is verified before a code is sent, and must be there',
    async () => {
      await using evil = await startIdentityProvider({ publicUrl, accounts: structuredClone(accounts) })
      const asked: unknown[] = []
      evil.changeAnswers('/token', (body) => asked.push(body))
      const codes: string[] = []
      const restore = provider.changeAnswers('/token', (body) => {
        codes.push(JSON.stringify(body))
        return body
      })
      await using other = await openServiceWith(evil)
      const atEvil = new URLSearchParams((await atProvider(other, 'root')).answer)
      await refuses((answer) => {
        answer.set('code', atEvil.get('code')!)
        answer.set('iss', atEvil.get('iss')!)
      })
      await refuses((answer) => answer.set('iss', evil.issuer))
      await refuses((answer) => answer.append('iss', evil.issuer))
      await refuses((answer) => answer.delete('iss'))
      restore()
      expect([asked, codes]).toEqual([[], []])
    },
  ],
  [
    '4.5',
    'the code of another attempt, an invented one, and the ID token of another',
    'PKCE and nonce bind code and token to the attempt',
    async () => {
      const victim = new URLSearchParams((await atProvider(service, 'root')).answer)
      await refuses((answer) => answer.set('code', victim.get('code')!))
      await refuses((answer) => answer.set('code', 'invented'))
      const { id_token } = await tokensOf(() => signIn(service, 'root'))
      const restore = provider.changeAnswers('/token', (body) => ({ ...body, id_token }))
      expect(await refuses(() => {})).toBe('The ID token is of another attempt to sign in.')
      restore()
    },
  ],
  [
    '4.6',
    'a token in place of a code',
    'only codes are asked for, and answers with tokens are refused',
    async () => {
      const { access_token, id_token } = await tokensOf(() => signIn(service, 'root'))
      expect(new URL((await start()).body.url).searchParams.get('response_type')).toBe('code')
      for (const token of [{ access_token: access_token! }, { id_token: id_token! }, { response: id_token! }]) {
        await refuses((answer) => {
          answer.delete('code')
          for (const [name, value] of Object.entries(token)) answer.set(name, value)
        })
      }
    },
  ],
  [
    '4.7',
    'an answer that the attacker began',
    'state and secret are of one tab; pages of other sites are refused',
    async () => {
      await refuses((answer) => answer.set('state', 'A'.repeat(43)))
      await refuses((answer) => answer.delete('state'))
      await refuses((answer) => answer.append('state', 'B'.repeat(43)))
      await refuses((answer) => answer.set('error', 'access_denied'))
      const [victim, attacker] = [await atProvider(service, 'ada'), await atProvider(service, 'root')]
      for (const secret of [victim.secret, `v1.${'A'.repeat(200)}`]) {
        const error = await refuses(() => {}, Promise.resolve({ answer: attacker.answer, secret }))
        expect(error).toContain('began in another browser')
      }
      const headers = { origin: evilSite, 'sec-fetch-site': 'cross-site' }
      const finished = await service.call('POST', '/api/sign-in/finish', { key: null, headers, body: victim })
      expect([(await start(headers)).status, finished.status]).toEqual([403, 403])
    },
  ],
  [
    '4.8',
    'an authorization request without its challenge, or with a plain one',
    'the verifier is always sent, so that the provider refuses',
    async () => {
      await refuses(
        () => {},
        atChanged((parameters) => {
          parameters.delete('code_challenge')
          parameters.delete('code_challenge_method')
        }),
      ).catch((fault) => expect(String(fault)).toContain('the provider returned the browser'))
      await refuses(
        () => {},
        atChanged((parameters) => parameters.set('code_challenge', 'A'.repeat(43))),
      )
      expect(new URL((await start()).body.url).searchParams.get('code_challenge_method')).toBe('S256')
    },
  ],
  [
    '4.9',
    'tokens of the provider that leak here',
    'the access token is used once and not stored; the others are encrypted; none is logged or answered',
    async () => {
      let answer = ''
      const tokens = await tokensOf(async () => {
        answer = JSON.stringify(await finish(service, await atProvider(service, 'ada')))
      })
      const rows = await service.rows('select * from sessions')
      const seen = JSON.stringify([rows, await service.rows('select * from audit_log'), service.logged, answer])
      for (const name of ['access_token', 'id_token', 'refresh_token']) expect(seen).not.toContain(tokens[name])
    },
  ],
  [
    '4.10',
    'a token of the provider as a key of this service',
    'no token of the provider is accepted, for whichever client it is',
    async () => {
      const { access_token, id_token } = await tokensOf(() => signIn(service, 'root'))
      for (const token of [access_token!, id_token!]) {
        for (const headers of [{ 'x-monitor-key': token }, { authorization: `Bearer ${token}` }] as Headers[]) {
          expect((await service.call('GET', '/api/session', { key: null, headers })).status).toBe(401)
        }
      }
    },
  ],
  [
    '4.11',
    'an address in a request that leads to another site',
    'the service redirects nowhere, and answers with the address of the provider only',
    async () => {
      const headers = { accept: 'text/html' }
      for (const name of ['to', 'redirect_uri', 'redirect', 'next', 'return_to', 'state']) {
        const query = `?${name}=${encodeURIComponent(evilSite)}&error=x`
        const begun = await service.call('POST', `/api/sign-in/start${query}`, { key: null })
        expect(begun.text).not.toContain('evil.example')
        for (const path of ['/auth/login', '/auth/callback', '/auth/cli', '/login']) {
          expect((await service.call('GET', path + query, { key: null, headers })).headers.location).toBeUndefined()
        }
      }
    },
  ],
  [
    '4.12',
    'a redirect of the token endpoint that repeats the secret elsewhere',
    'no redirect is followed, and none is sent',
    async () => {
      const heard = await attackerHears(async (location) => {
        for (const status of [302, 307, 308]) {
          const attempt = await atProvider(service, 'ada')
          const restore = provider.answerTokens(status, {}, { location })
          const refused = await finish(service, attempt)
          restore()
          expect([401, 503], refused.text).toContain(refused.status)
        }
      })
      expect(heard).toEqual([])
      const opened = await finish(service, await atProvider(service, 'ada'))
      expect([opened.status, opened.headers.location]).toEqual([201, undefined])
    },
  ],
  [
    '4.13',
    'headers of a proxy that is not there',
    'they count only from WARDLINE_TRUSTED_PROXIES, and no header of a request says who the caller is',
    async () => {
      const headers = {
        'x-forwarded-for': '203.0.113.9',
        'x-real-ip': '203.0.113.9',
        'x-forwarded-user': 'root',
        'x-ssl-client-cert': 'root',
      }
      expect((await service.call('GET', '/api/session', { key: null, headers })).status).toBe(401)
      const opened = await service.call('POST', '/api/sign-in/finish', {
        key: null,
        headers,
        body: await atProvider(service, 'ada'),
      })
      expect(opened.status).toBe(201)
      expect(JSON.stringify(await service.rows('select address from sessions'))).not.toContain('203.0.113.9')
    },
  ],
  [
    '4.14',
    'a stored refresh token in the session of another person',
    'it is encrypted for its session',
    async () => {
      const ada = await signIn(service, 'ada')
      const [id, other] = [ada, await signIn(service, 'root')].map(({ cookie }) => hashKey(cookie.split('=')[1]!))
      const stored = () => service.rows<{ sealed: string }>(`select sealed from sessions where token_hash = '${other}'`)
      await service.execute(`update sessions set sealed = '${(await stored())[0]!.sealed}' where token_hash = '${id}'`)
      let refreshed = 0
      const restore = provider.changeAnswers('/token', (body) => {
        refreshed++
        return body
      })
      service.clock.advance(10 * minuteMs)
      await service.execute(`update sessions set due_at = null where token_hash <> '${id}'`)
      await service.services.evaluation.run()
      restore()
      expect(refreshed).toBe(0)
      const { body } = await service.call<{ scope: string }>('GET', '/api/session', as(ada))
      expect(body.scope).toBe('operator')
    },
  ],
  [
    '4.15',
    'a subject that is the id of a key or of another person',
    'people have a prefix, and an id of issuer and subject together',
    async () => {
      const { body: admin } = await service.call<{ key_id: string }>('GET', '/api/session')
      const { body } = await service.call<{ person: { id: string } }>(
        'GET',
        '/api/session',
        as(await signIn(service, 'root')),
      )
      for (const subject of [admin.key_id, body.person.id, 'system', `${provider.issuer} root`]) {
        provider.accounts[subject] = { name: 'root', email: 'root@example.com', groups: ['watchers'] }
        const opened = await service.call<{ scope: string; key_id: string; person: { id: string } }>(
          'GET',
          '/api/session',
          as(await signIn(service, subject)),
        )
        expect(opened.body.scope).toBe('viewer')
        expect([admin.key_id, body.person.id]).not.toContain(opened.body.person.id)
      }
    },
  ],
  [
    '4.17',
    'an answer that reaches a window instead of an address',
    'no response mode is asked for, so that the provider answers by a redirect',
    async () => {
      const { searchParams } = new URL((await start()).body.url)
      expect([searchParams.has('response_mode'), searchParams.has('web_message_uri')]).toEqual([false, false])
      await refuses(
        (answer) => answer.delete('code'),
        atChanged((parameters) => parameters.set('response_mode', 'query')),
      )
    },
  ],
]

it.each(attacks)('%s %s: %s', (_section, _attack, _defence, run) => run())

it('each section of RFC 9700 has an attack, and stands in the threat model', () => {
  const read = (path: string) => readFileSync(new URL(`../../../../../${path}`, import.meta.url), 'utf8')
  const others = ['packages/server/src/features/command-logins', 'e2e/browser'].map((folder) =>
    read(`${folder}/rfc9700.test.ts`),
  )
  const threats = read('SECURITY.md')
  for (let number = 1; number <= 17; number++) {
    const section = `4.${number}`
    const isRun = attacks.some(([of]) => of === section) || others.some((text) => text.includes(`'${section}',`))
    expect([section, isRun, threats.includes(`\n| ${section} | `)]).toEqual([section, true, true])
  }
})
