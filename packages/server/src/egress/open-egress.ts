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
  /** Whether addresses and ports are judged: for URLs given by API, not for those of the operator's environment. */
  guarded: boolean
  /** CIDRs of private addresses that may be sent to although it is guarded. */
  allow: readonly string[]
  deadlineMs?: number
  resolve?: Resolve
}

/** From resolving to the last byte of the answer. Chats answer within 3 s, and a receiver that has to be started within 10. */
const longestMs = 15_000

/** Twice the 8 KiB that servers allow clients. */
const maxHeaderBytes = 16 * 1024
/** A receiver has reason for one or two answers before the answer, such as 100 and 103. */
const maxInterim = 8

const pool = {
  keepAlive: true,
  // A channel sends one or two at a time.
  maxFreeSockets: 2,
  // Servers close idle connections after 5 s or more; one that closes while it is used costs a try.
  timeout: 4_000,
}

/** Options of a connection that can end only at one of these addresses, and must prove to be of the host. */
function routeTo(host: string, addresses: readonly string[]) {
  const lookup: LookupFunction = (_name, _options, callback) =>
    callback(
      null,
      addresses.map((address) => ({ address, family: isIP(address) })),
    )
  return {
    host,
    lookup,
    // Names with IPv4 and IPv6 addresses are tried in turns. Longer than a lost packet takes to be sent again.
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: 2_000,
    // RFC 6066, section 3: neither an address nor the dot at the end.
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
    // 1xx: each is a whole head, and nothing ends them but the deadline.
    request.on('information', ({ rawHeaders }) => {
      const bytes = rawHeaders.reduce((sum, text) => sum + text.length, interim.bytes)
      interim = { count: interim.count + 1, bytes }
      if (interim.count <= maxInterim && bytes <= maxHeaderBytes) return
      request.destroy(Object.assign(new Error('endless interim answers'), { code: 'HPE_HEADER_OVERFLOW' }))
    })
    request.on('response', (response) => {
      const certificate = options.method === 'GET' ? certificateOf(response.socket) : undefined
      resolve(readAnswer(response).then((answer) => ({ ...answer, certificate })))
    })
    // After the answer neither matters, but an error without a listener would end the process.
    request.on('error', reject)
    // All that comes of an answer that changes the protocol (101).
    request.on('close', () => reject(Object.assign(new Error('no answer'), { code: 'ECONNRESET' })))
    request.end(body)
  })
}

/**
 * The way out. A name is resolved once for each request or connection; where it is guarded all of its addresses are
 * judged, and a connection can end at none but those. Node's own way through proxies of the environment is not taken.
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

  async function request({ url: text, headers, body }: OutboundRequest, method: 'GET' | 'POST', signal?: AbortSignal) {
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
        agent: method === 'POST' ? pooled : (false as const),
        maxHeaderSize: maxHeaderBytes,
        insecureHTTPParser: false,
        signal: end,
      }
      return exchange(protocol, options, body)
    })
  }

  return {
    post: ({ url, headers, body }, signal) =>
      request(
        { url, headers: { ...headers, 'content-length': String(Buffer.byteLength(body)) }, body },
        'POST',
        signal,
      ),

    get: ({ url, headers }, signal) => request({ url, headers, body: '' }, 'GET', signal),

    connect({ host, port, tls }, signal) {
      return inTime(host, signal, async (end) => {
        const route = { ...(await openRoute({ host, port, protocol: 'other' }, end)), port }
        const socket = tls ? connectTls(route) : connectTcp(route)
        // The caller may not have added its listener when the connection breaks.
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
