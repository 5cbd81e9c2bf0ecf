import { createHmac, createPublicKey, createSign, generateKeyPairSync } from 'node:crypto'
import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import Provider, { type Adapter, type AdapterPayload, type Configuration } from 'oidc-provider'

/** Claims of one account, by its login. */
type Accounts = Record<string, Record<string, unknown>>

const clientId = 'wardline'
const clientSecret = 'the-secret-of-the-client-of-all-the-tests'

export interface IdentityProvider extends AsyncDisposable {
  issuer: string
  /** Claims that the next ID tokens have; tests change them. */
  accounts: Accounts
  /** Settings for a service below this public URL. */
  env(): Record<string, string>
  readonly provider: Provider
  /** Signs a JWT with the key of the provider. With `alg` HS256 its public key is the secret, with `none` there is no signature. */
  sign(claims: object, header?: { alg?: string; kid?: string }): string
  /** Signs with another key from now on, and publishes only that one. Returns `sign` with the earlier key. */
  rotateKeys(): IdentityProvider['sign']
  /** Bodies of the logout tokens that it sent. */
  logouts: string[]
  /** Answers requests for tokens so, until the returned function is called. */
  answerTokens(status: number, body: object, headers?: Record<string, string>): () => void
  /** Changes its answers at this path, which are JSON or a text, until the returned function is called. */
  changeAnswers(path: string, change: (body: Record<string, unknown>) => unknown): () => void
  /** Holds the answer to the next request for tokens, with what was true then, until `go` is called. */
  holdTokens(): { held: Promise<void>; go(): void }
  /** Lets every request fail until the returned function is called. */
  stop(): () => void
}

interface Options {
  /** Public URL of the service. */
  publicUrl: string
  accounts: Accounts
  /** Whether the groups are in the ID token; default: in userinfo only, as the specification says. */
  inIdToken?: boolean
  /** Gives no refresh tokens. */
  isWithoutRefresh?: boolean
  hasPushedRequests?: boolean
  /** Changes whatever else a test is about. */
  change?: (configuration: Configuration) => Configuration
}

const newKey = (kid: string) => ({ kid, privateKey: generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey })
/** Made once, because it takes longer than most tests. */
const usualKey = newKey('of-the-tests')

const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')

function signWith({ privateKey, kid }: typeof usualKey): IdentityProvider['sign'] {
  return (claims, header = {}) => {
    const { alg } = { alg: 'RS256', ...header }
    const signed = `${encode({ alg, kid, ...header })}.${encode(claims)}`
    const secret = createPublicKey(privateKey).export({ type: 'spki', format: 'pem' })
    if (alg === 'none') return `${signed}.`
    if (alg === 'HS256') return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`
    return `${signed}.${createSign('sha256').update(signed).sign(privateKey, 'base64url')}`
  }
}

const claimNames = ['groups', 'roles', 'name', 'email', 'email_verified', '_claim_names', 'hasgroups', 'realm_access']

/** Keeps sessions and codes longer than a provider, which is another one after it has swapped its keys. */
function makeAdapters(): (model: string) => Adapter {
  const rows = new Map<string, AdapterPayload>()
  return (model) => {
    const nameOf = (id: string) => `${model}:${id}`
    const find = async (id: string) => rows.get(nameOf(id))
    const findBy = async (isMeant: (row: AdapterPayload) => boolean) =>
      [...rows].find(([name, row]) => name.startsWith(nameOf('')) && isMeant(row))?.[1]
    return {
      find,
      findByUid: (uid) => findBy((row) => row.uid === uid),
      findByUserCode: (code) => findBy((row) => row.userCode === code),
      upsert: async (id, row) => void rows.set(nameOf(id), row),
      destroy: async (id) => void rows.delete(nameOf(id)),
      consume: async (id) => void Object.assign((await find(id))!, { consumed: Math.floor(Date.now() / 1_000) }),
      async revokeByGrantId(grantId) {
        for (const [name, row] of rows) if (row.grantId === grantId) rows.delete(name)
      },
    }
  }
}

/** It warns of what only a provider in production must not do. */
function quietly<Result>(work: () => Result): Result {
  const { warn } = console
  console.warn = () => {}
  try {
    return work()
  } finally {
    console.warn = warn
  }
}

/** Starts oidc-provider, an OpenID Connect provider, on a free port. */
export async function startIdentityProvider({
  publicUrl,
  accounts,
  inIdToken = true,
  isWithoutRefresh = false,
  hasPushedRequests = false,
  change = (configuration) => configuration,
}: Options): Promise<IdentityProvider> {
  const logouts: string[] = []
  let answer: RequestListener = (_request, response) => response.writeHead(503).end()
  const server: Server = createServer((request, response) => answer(request, response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const configuration: Configuration = {
    clients: [
      {
        client_id: clientId,
        client_secret: clientSecret,
        redirect_uris: [`${publicUrl}/auth/callback`],
        post_logout_redirect_uris: [`${publicUrl}/login`],
        backchannel_logout_uri: `${issuer}/received-logout`,
        backchannel_logout_session_required: true,
        grant_types: ['authorization_code', 'refresh_token'],
      },
    ],
    claims: { openid: ['sub', ...claimNames], profile: [], email: [] },
    conformIdTokenClaims: !inIdToken,
    scopes: ['openid', 'profile', 'email', 'offline_access'],
    findAccount: (_context, id) => ({
      accountId: id,
      claims: () => ({ sub: id, ...accounts[id] }),
    }),
    issueRefreshToken: () => !isWithoutRefresh,
    features: {
      devInteractions: { enabled: true },
      backchannelLogout: { enabled: true },
      pushedAuthorizationRequests: { enabled: hasPushedRequests },
    },
    adapter: makeAdapters(),
    // Its own refuses addresses of this machine, such as that of the logout tokens.
    fetch: (url, options) => fetch(url, { ...options, dispatcher: undefined } as RequestInit),
    cookies: { keys: ['the key of the cookies of all the tests'] },
    ttl: {
      AccessToken: 3_600,
      IdToken: 3_600,
      RefreshToken: 86_400,
      Session: 86_400,
      Grant: 86_400,
      Interaction: 3_600,
    },
  }
  let key = usualKey
  const withKey = () => {
    const keys = [{ ...key.privateKey.export({ format: 'jwk' }), kid: key.kid, use: 'sig', alg: 'RS256' }]
    return quietly(() => new Provider(issuer, change({ ...configuration, jwks: { keys } })))
  }
  let provider = withKey()
  const usual: RequestListener = (request, response) => {
    if (request.url !== '/received-logout') return void provider.callback()(request, response)
    let body = ''
    request.setEncoding('utf8').on('data', (part) => {
      body += part
    })
    request.on('end', () => {
      logouts.push(body)
      response.end()
    })
  }
  answer = usual
  return {
    issuer,
    accounts,
    get provider() {
      return provider
    },
    logouts,
    sign: (claims, header) => signWith(key)(claims, header),
    rotateKeys() {
      const earlier = signWith(key)
      key = newKey(`${key.kid}-later`)
      provider = withKey()
      return earlier
    },
    env: () => ({
      WARDLINE_PUBLIC_URL: publicUrl,
      WARDLINE_OIDC_ISSUER: issuer,
      WARDLINE_OIDC_CLIENT_ID: clientId,
      WARDLINE_OIDC_CLIENT_SECRET: clientSecret,
    }),
    answerTokens(status, body, headers = {}) {
      answer = (request, response) => {
        if (request.url !== '/token') return void usual(request, response)
        response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
      }
      return () => {
        answer = usual
      }
    },
    changeAnswers(path, change) {
      answer = (request, response) => {
        if (request.url === path) {
          const end = response.end.bind(response) as (text: string) => ServerResponse
          response.end = ((text: string) => {
            const answered = change(JSON.parse(String(text)))
            const changed = typeof answered === 'string' ? answered : JSON.stringify(answered)
            response.setHeader('content-length', Buffer.byteLength(changed))
            return end(changed)
          }) as typeof response.end
        }
        usual(request, response)
      }
      return () => {
        answer = usual
      }
    },
    holdTokens() {
      const [held, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      answer = (request, response) => {
        if (request.url !== '/token') return void usual(request, response)
        answer = usual
        const end = response.end.bind(response)
        response.end = ((...given: Parameters<typeof end>) => {
          held.resolve()
          void released.promise.then(() => end(...given))
          return response
        }) as typeof end
        usual(request, response)
      }
      return { held: held.promise, go: released.resolve }
    },
    stop() {
      answer = (_request, response) => response.writeHead(503).end()
      return () => {
        answer = usual
      }
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** A browser at the provider: keeps its cookies and follows its redirects. */
export class ProviderBrowser {
  readonly #cookies = new Map<string, string>()

  /** Opens an address of the provider, signs in if it asks, and returns the address to which it sends the browser back. */
  async signIn(url: string, login: string, publicUrl: string): Promise<URL> {
    let next = url
    let form: URLSearchParams | undefined
    for (let step = 0; step < 20; step++) {
      const answer = await fetch(next, {
        method: form ? 'POST' : 'GET',
        redirect: 'manual',
        headers: { cookie: [...this.#cookies].map(([name, value]) => `${name}=${value}`).join('; ') },
        ...(form ? { body: form } : {}),
      })
      for (const cookie of answer.headers.getSetCookie()) {
        const [name = '', value = ''] = cookie.split(';')[0]!.split('=')
        if (value === '') this.#cookies.delete(name)
        else this.#cookies.set(name, value)
      }
      form = undefined
      const location = answer.headers.get('location')
      if (location !== null) {
        const target = new URL(location, next)
        if (target.href.startsWith(publicUrl)) return target
        next = target.href
        continue
      }
      const page = await answer.text()
      const action = /action="([^"]+)"/.exec(page)?.[1]
      if (action === undefined) throw new Error(`The provider answers ${answer.status}: ${page.slice(0, 2_000)}`)
      next = new URL(action, next).href
      const hidden = [...page.matchAll(/type="hidden" name="(\w+)" value="([^"]*)"/g)].map(
        ([, name = '', value = '']): [string, string] => [name, value],
      )
      form = new URLSearchParams([...hidden, ['login', login], ['password', 'any'], ['logout', 'yes']])
    }
    throw new Error('The provider redirects without an end.')
  }
}
