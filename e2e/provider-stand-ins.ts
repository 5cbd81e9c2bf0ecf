import { type IncomingMessage, type RequestListener, type ServerResponse, STATUS_CODES } from 'node:http'
import { signed } from '../examples/enforcement/sigv4.ts'

/** What a provider does with the next requests. */
type Mood = 'well' | 'down' | 'silent' | 'unauthorized' | 'throttled'

/** A provider of identities with one identity, as its documentation describes its answers. */
export interface StandIn {
  identity: string
  isDisabled: boolean
  mood: Mood
  /** Reads after each change that still show the state before it. */
  staleReads: number
  /** How many of those reads are still to come. */
  unseen(): number
  /** Changes that were requested. */
  changes: string[]
  /** Settings of the receiver. */
  env(url: string): Record<string, string>
  answer: RequestListener
}

interface Request {
  /** Method and path with the query. */
  line: string
  headers: IncomingMessage['headers']
  body: string
}
type Reply = [status: number, body?: object | string, headers?: Record<string, string>]

interface Described {
  identity: string
  env: StandIn['env']
  unauthorized: Reply
  throttled(): Reply
  /** Answers a request. `read` is the state as reads see it, `change` makes it so. */
  reply(request: Request, state: { read(): boolean; change(name: string, isDisabled: boolean): void }): Reply
}

export const secretOf = (provider: string) => `${provider}-secret-5f3a9c`

function send(response: ServerResponse, [status, body = '', headers = {}]: Reply): void {
  const isText = typeof body === 'string'
  response.writeHead(status, { 'content-type': isText ? 'text/xml' : 'application/json', ...headers })
  response.end(isText ? body : JSON.stringify(body))
}

function standIn(described: Described): StandIn {
  let stale = 0
  const made: StandIn = {
    identity: described.identity,
    isDisabled: false,
    mood: 'well',
    staleReads: 0,
    unseen: () => stale,
    changes: [],
    env: described.env,
    async answer(request, response) {
      const body = Buffer.concat(await request.toArray()).toString()
      if (made.mood === 'silent') return
      if (made.mood === 'down') return request.socket.destroy()
      if (made.mood === 'unauthorized') return send(response, described.unauthorized)
      if (made.mood === 'throttled') return send(response, described.throttled())
      const { method, url, headers } = request
      const reply = described.reply(
        { line: `${method} ${url}`, headers, body },
        {
          read() {
            if (stale === 0) return made.isDisabled
            stale -= 1
            return !made.isDisabled
          },
          change(name, isDisabled) {
            made.changes.push(name)
            made.isDisabled = isDisabled
            stale = made.staleReads
          },
        },
      )
      send(response, reply)
    },
  }
  return made
}

const unknown = (line: string): Reply => [404, { error: `${STATUS_CODES[404]}: ${line}` }]

// LiteLLM: keys and, in `litellmSwitch`, the kill switch of an agent.

const litellmFault = (status: number, message: string, type: string): Reply => [
  status,
  { error: { message, type, param: 'None', code: String(status) } },
]
const litellm = {
  env: (url: string) => ({ LITELLM_URL: url, LITELLM_KEY: secretOf('litellm') }),
  unauthorized: litellmFault(401, 'Authentication Error, Invalid proxy server token passed', 'auth_error'),
  throttled: () => [429, { error: { message: 'Too many', type: 'x', code: '429' } }, { 'retry-after': '17' }] as Reply,
}
const isAdmin = ({ headers }: Request) => headers.authorization === `Bearer ${secretOf('litellm')}`

export const litellmKey = () => {
  const key = '88dc28d0f030c55ed4ab77ed8faf098196cb1c05df778539800c9f1243fe6b4b'
  return standIn({
    ...litellm,
    identity: key,
    reply(request, { read, change }) {
      if (!isAdmin(request)) return litellm.unauthorized
      if (request.line === `GET /key/info?key=${key}`) {
        // A key that was never blocked has no value.
        return [200, { key, info: { key_alias: 'bot', blocked: read() || null } }]
      }
      const [, verb] = /^POST \/key\/(block|unblock)$/.exec(request.line) ?? []
      if (verb === undefined) return unknown(request.line)
      if (JSON.parse(request.body).key !== key) return litellmFault(404, 'Key not found', 'not_found_error')
      change(verb, verb === 'block')
      return [200, { token: key, blocked: verb === 'block' }]
    },
  })
}

/** Its state is that of the agent's webhook: `isDisabled` once it has stopped. */
export const litellmSwitch = () => {
  const agent = '41c54c9e-4327-47c0-8582-cbe848cc6131'
  const made: { webhookStatus: number } & StandIn = Object.assign(
    standIn({
      ...litellm,
      identity: agent,
      reply(request, { change }) {
        if (!isAdmin(request)) return litellm.unauthorized
        if (request.line !== `POST /v1/agents/${agent}/kill_switch`) return unknown(request.line)
        const { webhookStatus } = made
        const isDone = webhookStatus < 300
        change('fire', isDone)
        const fired = { agent_id: agent, url: 'https://runtime.example/kill', method: 'POST' }
        return [isDone ? 200 : 502, { ...fired, status_code: webhookStatus, response_body: '', error: null }]
      },
    }),
    { webhookStatus: 202 },
  )
  return made
}

// Okta: https://developer.okta.com/docs/reference/error-codes

const oktaFault = (status: number, errorCode: string, errorSummary: string, headers = {}): Reply => [
  status,
  { errorCode, errorSummary, errorLink: errorCode, errorId: 'oae7f', errorCauses: [] },
  headers,
]
const oktaThrottled = () =>
  oktaFault(429, 'E0000047', 'API call exceeded rate limit due to too many requests.', {
    'x-rate-limit-limit': '600',
    'x-rate-limit-remaining': '0',
    'x-rate-limit-reset': String(Math.floor(Date.now() / 1_000) + 17),
  })

function okta(identity: string, path: string, [off, on]: [string, string], disabledStatus: string) {
  const unauthorized = oktaFault(401, 'E0000011', 'Invalid token provided')
  const described: Described = {
    identity,
    env: (url) => ({ OKTA_URL: url, OKTA_TOKEN: secretOf('okta') }),
    unauthorized,
    throttled: oktaThrottled,
    reply({ line, headers }, { read, change }) {
      if (headers.authorization !== `SSWS ${secretOf('okta')}`) return unauthorized
      if (line === `GET ${path}/${identity}`) return [200, { id: identity, status: read() ? disabledStatus : 'ACTIVE' }]
      if (line === `POST ${path}/${identity}/lifecycle/${off}`) change(off, true)
      else if (line === `POST ${path}/${identity}/lifecycle/${on}`) change(on, false)
      else if (line === `DELETE /api/v1/users/${identity}/sessions?oauthTokens=true`) {
        if (made.sessionFaults-- > 0) return oktaFault(500, 'E0000009', 'Internal Server Error')
        made.changes.push('sessions')
        return [204]
      } else return oktaFault(404, 'E0000007', 'Not found: Resource not found')
      // AI agents change later, and name an operation to ask.
      if (identity.startsWith('wlp')) return [202, '', { location: '/workload-principals/api/v1/operations/op-1' }]
      return [200, {}]
    },
  }
  /** `sessionFaults`: how often the end of sessions still fails. */
  const made: { sessionFaults: number } & StandIn = Object.assign(standIn(described), { sessionFaults: 0 })
  return made
}
export const oktaApp = () => okta('0oa1gjh63g214q0Hq0g4', '/api/v1/apps', ['deactivate', 'activate'], 'INACTIVE')
export const oktaUser = () => okta('00ub0oNGTSWTBKOLGLNR', '/api/v1/users', ['suspend', 'unsuspend'], 'SUSPENDED')
export const oktaAgent = () =>
  okta('wlpcFogtKCrK9aYq3fgV', '/workload-principals/api/v1/ai-agents', ['deactivate', 'activate'], 'INACTIVE')

// Microsoft: the token endpoint and Graph at one address.

const graphFault = (status: number, code: string, message: string, headers = {}): Reply => [
  status,
  { error: { code, message, innerError: { date: '2026-01-15T12:00:30', 'request-id': 'a15c7ea4' } } },
  headers,
]
function entra(type: string, cast: string): StandIn {
  const identity = '5d5c4d3c-0f9c-4e0f-8b3b-5f1e5b6d7a81'
  const path = `/v1.0/servicePrincipals/${identity}`
  return standIn({
    identity,
    env: (url) => ({
      ENTRA_LOGIN_URL: url,
      GRAPH_URL: url,
      ENTRA_TENANT: 'contoso.example',
      ENTRA_CLIENT_ID: 'e5e1-client',
      ENTRA_CLIENT_SECRET: secretOf('entra'),
    }),
    unauthorized: graphFault(401, 'InvalidAuthenticationToken', 'Access token has expired or is not yet valid.'),
    throttled: () => graphFault(429, 'TooManyRequests', 'Please try again later.', { 'retry-after': '17' }),
    reply({ line, headers, body }, { read, change }) {
      if (line === 'POST /contoso.example/oauth2/v2.0/token') {
        const form = new URLSearchParams(body)
        const isKnown = form.get('client_secret') === secretOf('entra') && form.get('client_id') === 'e5e1-client'
        if (!isKnown || form.get('grant_type') !== 'client_credentials' || !form.get('scope')?.endsWith('/.default')) {
          return [401, { error: 'invalid_client', error_description: 'AADSTS7000215: Invalid client secret.' }]
        }
        return [200, { token_type: 'Bearer', expires_in: 3599, access_token: secretOf('token') }]
      }
      if (headers.authorization !== `Bearer ${secretOf('token')}`) {
        return graphFault(401, 'InvalidAuthenticationToken', 'Access token is empty.')
      }
      if (line === `GET ${path}?$select=id,accountEnabled`) {
        return [200, { '@odata.type': type, id: identity, accountEnabled: !read() }]
      }
      // Elsewhere the permission to enable and disable does not suffice.
      if (line !== `PATCH ${path}${cast}`)
        return graphFault(403, 'Authorization_RequestDenied', 'Insufficient privileges')
      const { accountEnabled } = JSON.parse(body)
      change(accountEnabled ? 'enable' : 'disable', !accountEnabled)
      return [204]
    },
  })
}
export const entraPrincipal = () => entra('#microsoft.graph.servicePrincipal', '')
export const entraAgent = () => entra('#microsoft.graph.agentIdentity', '/microsoft.graph.agentIdentity')

// AWS IAM answers in XML, and cuts lists.

const iamFault = (status: number, code: string, message: string): Reply => [
  status,
  `<ErrorResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/"><Error><Type>Sender</Type><Code>${code}</Code><Message>${message}</Message></Error></ErrorResponse>`,
]
const denyAll = 'arn:aws:iam::aws:policy/AWSDenyAll'
const memberOf = (arn: string) => `<member><PolicyName>x</PolicyName><PolicyArn>${arn}</PolicyArn></member>`

export const awsRole = () =>
  standIn({
    identity: 'support-bot',
    env: (url) => ({
      AWS_IAM_URL: `${url}/`,
      AWS_ACCESS_KEY_ID: 'AKIDEXAMPLE',
      AWS_SECRET_ACCESS_KEY: secretOf('aws'),
    }),
    unauthorized: iamFault(403, 'InvalidClientTokenId', 'The security token included in the request is invalid.'),
    throttled: () => iamFault(400, 'Throttling', 'Rate exceeded'),
    reply({ line, headers, body }, { read, change }) {
      const date = String(headers['x-amz-date']).replace(/^(....)(..)(..T..)(..)(..Z)$/, '$1-$2-$3:$4:$5')
      const host = String(headers.host)
      const key = { id: 'AKIDEXAMPLE', secret: secretOf('aws') }
      const expected = signed({ host, region: 'us-east-1', service: 'iam', body }, key, Date.parse(date))
      if (line !== 'POST /' || headers.authorization !== expected.authorization) {
        return iamFault(403, 'SignatureDoesNotMatch', 'The request signature does not match.')
      }
      const form = new URLSearchParams(body)
      const action = form.get('Action')
      if (form.get('RoleName') !== 'support-bot') return iamFault(404, 'NoSuchEntity', 'The role cannot be found.')
      if (action === 'ListAttachedRolePolicies') {
        const isSecond = form.get('Marker') === 'AAE='
        const members = isSecond ? (read() ? memberOf(denyAll) : '') : memberOf('arn:aws:iam::1:policy/bot')
        const rest = isSecond
          ? '<IsTruncated>false</IsTruncated>'
          : '<IsTruncated>true</IsTruncated><Marker>AAE=</Marker>'
        return [200, `<R><AttachedPolicies>${members}</AttachedPolicies>${rest}</R>`]
      }
      if (form.get('PolicyArn') !== denyAll || (action !== 'AttachRolePolicy' && action !== 'DetachRolePolicy')) {
        return iamFault(403, 'AccessDenied', 'not authorized')
      }
      change(action, action === 'AttachRolePolicy')
      return [200, `<${action}Response><ResponseMetadata/></${action}Response>`]
    },
  })
