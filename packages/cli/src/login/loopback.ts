import { timingSafeEqual } from 'node:crypto'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { cutText, sanitize } from '@wardline/text'
import { Failure } from '../exit.ts'
import { newSecret } from '../service/logins.ts'

/** Time in which a person allows the login. */
const waitMs = 5 * 60_000

export interface Loopback {
  port: number
  state: string
  /**
   * Returns an address of this machine that leads the browser to the page, once. The arguments of the program that opens
   * it, which all users of the machine can read, thus lack the code of the page.
   */
  doorTo(page: string): string
  /**
   * Waits for the browser, finishes with its code, and leads it back to the page, so that its history has no code.
   * `service`: the origin that must have sent the browser here.
   */
  handOver(page: string, service: string, finish: (code: string) => Promise<void>): Promise<void>
  close(): void
}

/** Neither the next page nor the browser's cache gets the address. */
const noTrace = { 'referrer-policy': 'no-referrer', 'cache-control': 'no-store' }

const isSame = (given: string | null, expected: string): boolean =>
  given !== null &&
  Buffer.byteLength(given) === expected.length &&
  timingSafeEqual(Buffer.from(given), Buffer.from(expected))

/**
 * Listens on a free port of this machine for the browser, as RFC 8252, section 7.3 describes. Other pages and programs
 * can reach it, too: only the request with the state counts, and only the first.
 */
export async function listen(): Promise<Loopback> {
  const state = newSecret()
  const came = Promise.withResolvers<{ query: URLSearchParams; answer(to: string): void }>()
  let isUsed = false
  let door: { path: string; page: string } | undefined
  const server: Server = process.getBuiltinModule('node:http').createServer((request, response) => {
    const { port } = server.address() as AddressInfo
    const url = new URL(request.url ?? '/', 'http://127.0.0.1')
    const answer = (location: string) =>
      void response.writeHead(303, { location, connection: 'close', ...noTrace }).end()
    // A name that someone lets point to this machine would send another one.
    const isHere = request.method === 'GET' && request.headers.host === `127.0.0.1:${port}`
    if (isHere && door && isSame(url.pathname, door.path)) {
      answer(door.page)
      door = undefined
      return
    }
    const isOurs = isHere && url.pathname === '/' && isSame(url.searchParams.get('state'), state)
    if (!isOurs || isUsed) return void response.writeHead(404, { connection: 'close' }).end()
    isUsed = true
    came.resolve({ query: url.searchParams, answer })
  })
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    state,
    doorTo(page) {
      door = { path: `/${newSecret()}`, page }
      return `http://127.0.0.1:${(server.address() as AddressInfo).port}${door.path}`
    },
    async handOver(page, service, finish) {
      const timer = setTimeout(
        () => came.reject(new Failure('The login was not allowed within 5 minutes.', 'expired', 'failed')),
        waitMs,
      )
      const { query, answer } = await came.promise.finally(() => clearTimeout(timer))
      try {
        const code = query.get('code')
        if (code === null) throw new Failure('The login was refused on the page.', 'refused', 'refused')
        // A server that passes requests on to another one would get the code, and with it the session there (RFC 9207).
        const issuer = query.get('iss') ?? 'a server that does not say its address'
        if (issuer !== service) {
          throw new Failure(
            `The login was allowed at ${sanitize(cutText(issuer, 200))}, not at ${service}, and is given up: log in at the address of your service.`,
            'refused',
            'refused',
          )
        }
        await finish(code)
        answer(`${page}?done=true`)
      } catch (fault) {
        answer(`${page}?refused=true`)
        throw fault
      }
    },
    close() {
      server.close()
      server.closeIdleConnections()
    },
  }
}
