import { once } from 'node:events'
import { Agent as HttpAgent, request as httpRequest, type RequestOptions } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { connect as connectTcp, isIP, type LookupFunction, type Socket } from 'node:net'
import { connect as connectTls, TLSSocket } from 'node:tls'
import { ranges } from './address-guard.ts'
import { readAnswer } from './answer.ts'
import { addressFault, formFault, portFault, type Target, targetOf } from './destination-rules.ts'
import { EgressError, type FetchedAnswer, type OutboundRequest, type ReadingEgress } from './egress.ts'
import { egressError } from './failure.ts'
import { addressesOf, askSystem, type Resolve } from './resolve.ts'

export interface EgressOptions {
  /** Whether addresses and ports are restricted. They are for URLs from the API, not for those from the environment. */
  guarded: boolean
  /** CIDRs of private addresses that are allowed even if `guarded`. */
  allow: readonly string[]
  deadlineMs?: number
  resolve?: Resolve
}

/**
 * From name resolution to the last byte of the response. Chat services answer within 3 s, receivers with a cold start
 * within 10 s.
 */
const longestMs = 15_000

/** Twice the 8 KiB that servers typically accept from clients. */
const maxHeaderBytes = 16 * 1024
/** A receiver has reason to send one or two interim responses, such as 100 and 103. */
const maxInterim = 8

const pool = {
  keepAlive: true,
  // A channel sends one or two messages at a time.
  maxFreeSockets: 2,
  // Servers close idle connections after 5 s or more; a request on a connection that is closing fails.
  timeout: 4_000,
}

/** Returns connection options that allow only these addresses and require a certificate of the host. */
function routeTo(host: string, addresses: readonly string[]) {
  const lookup: LookupFunction = (_name, _options, callback) =>
    callback(
      null,
      addresses.map((address) => ({ address, family: isIP(address) })),
    )
  return {
    host,
    lookup,
    // Alternates between IPv4 and IPv6. The timeout is longer than the retransmission of a lost packet takes.
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: 2_000,
    // RFC 6066, section 3: server_name contains neither an address nor a trailing dot.
    servername: isIP(host) === 0 ? host.replace(/\.$/, '') : '',
    rejectUnauthorized: true,
  }
}

function readUrl(text: string): URL {
  const url = URL.parse(text)
  if (url === null) throw new EgressError('The URL of the receiver is not valid.')
  const fault = formFault(url) ?? (/^https?:$/.test(url.protocol) ? undefined : 'must begin with https:// or http://.')
  if (fault !== undefined) throw new EgressError(`The URL of ${url.hostname || 'the receiver'} ${fault}`)
  return url
}

function certificateOf(socket: Socket): FetchedAnswer['certificate'] {
  if (!(socket instanceof TLSSocket)) return undefined
  const { valid_from, valid_to } = socket.getPeerCertificate()
  return { from: Date.parse(valid_from), until: Date.parse(valid_to) }
}

function exchange(protocol: Target['protocol'], options: RequestOptions, body: string): Promise<FetchedAnswer> {
  return new Promise((resolve, reject) => {
    const request = (protocol === 'https' ? httpsRequest : httpRequest)(options)
    let interim = { count: 0, bytes: 0 }
    // Node limits the headers of each 1xx response but not their number, so only the deadline would end them.
    request.on('information', ({ rawHeaders }) => {
      const bytes = rawHeaders.reduce((sum, text) => sum + text.length, interim.bytes)
      interim = { count: interim.count + 1, bytes }
      if (interim.count <= maxInterim && bytes <= maxHeaderBytes) return
      request.destroy(Object.assign(new Error('too many interim answers'), { code: 'HPE_HEADER_OVERFLOW' }))
    })
    request.on('response', (response) => {
      const certificate = options.method === 'GET' ? certificateOf(response.socket) : undefined
      resolve(readAnswer(response).then((answer) => ({ ...answer, certificate })))
    })
    // These have no effect after the response, but an error without a listener would end the process.
    request.on('error', reject)
    // The only event after a response that switches the protocol (101).
    request.on('close', () => reject(Object.assign(new Error('no answer'), { code: 'ECONNRESET' })))
    request.end(body)
  })
}

/**
 * Creates the client for outbound connections. A name is resolved once per request or connection. If `guarded`, all
 * addresses are checked and only these are connected to. Node's proxy settings from the environment are not used.
 */
export function createEgress(options: EgressOptions): ReadingEgress {
  const { guarded, allow, deadlineMs = longestMs, resolve = askSystem } = options
  const allowed = ranges(allow)
  const agents = { http: new HttpAgent(pool), https: new HttpsAgent(pool) }

  async function openRoute(target: Target, end: AbortSignal) {
    const { host } = target
    const subject = isIP(host) === 0 ? host : 'The URL'
    const closed = guarded ? portFault(target) : undefined
    if (closed !== undefined) throw new EgressError(`${subject} ${closed}`, 'forbidden')
    const addresses = await addressesOf(host, resolve, end)
    const forbidden = guarded ? addressFault(target, addresses, allowed) : undefined
    if (forbidden !== undefined) throw new EgressError(`${subject} ${forbidden}`, 'forbidden')
    return routeTo(host, addresses)
  }

  async function inTime<T>(host: string, signal: AbortSignal | undefined, work: (end: AbortSignal) => Promise<T>) {
    const deadline = AbortSignal.timeout(deadlineMs)
    const end = signal === undefined ? deadline : AbortSignal.any([deadline, signal])
    try {
      return await work(end)
    } catch (fault) {
      if (end.aborted && end.reason === deadline.reason) {
        throw new EgressError(`${host} did not answer within ${deadlineMs / 1_000} seconds.`)
      }
      if (end.aborted) throw new EgressError(`${host} did not answer before the attempt was cancelled.`)
      throw egressError(fault, host)
    }
  }

  async function request(
    { url: text, headers, body }: OutboundRequest,
    method: 'GET' | 'POST' | 'PATCH',
    signal?: AbortSignal,
  ) {
    const url = readUrl(text)
    const target = targetOf(url)
    return inTime(target.host, signal, async (end) => {
      const route = await openRoute(target, end)
      const { port, protocol } = target
      const pooled = protocol === 'https' ? agents.https : agents.http
      const options = {
        ...route,
        port,
        method,
        path: `${url.pathname}${url.search}`,
        headers: { ...headers, host: url.host, 'accept-encoding': 'identity' },
        agent: method === 'GET' ? (false as const) : pooled,
        maxHeaderSize: maxHeaderBytes,
        insecureHTTPParser: false,
        signal: end,
      }
      return exchange(protocol, options, body)
    })
  }

  return {
    post: ({ url, headers, body, method = 'POST' }, signal) =>
      request(
        { url, headers: { ...headers, 'content-length': String(Buffer.byteLength(body)) }, body },
        method,
        signal,
      ),

    get: ({ url, headers }, signal) => request({ url, headers, body: '' }, 'GET', signal),

    connect({ host, port, tls }, signal) {
      return inTime(host, signal, async (end) => {
        const route = { ...(await openRoute({ host, port, protocol: 'other' }, end)), port }
        const socket = tls ? connectTls(route) : connectTcp(route)
        // The connection may fail before the caller adds a listener.
        socket.on('error', () => {})
        try {
          await once(socket, tls ? 'secureConnect' : 'connect', { signal: end })
        } catch (fault) {
          socket.destroy()
          throw fault
        }
        return socket
      })
    },

    close() {
      for (const agent of Object.values(agents)) agent.destroy()
    },
  }
}
