import { timingSafeEqual } from 'node:crypto'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Failure } from '../exit.ts'
import { newSecret } from '../service/logins.ts'

/** Time in which a person allows the login. */
const waitMs = 5 * 60_000

export interface Loopback {
  port: number
  state: string
  /** Waits for the browser, finishes with its code, and leads it back to the page, so that its history has no code. */
  handOver(page: string, finish: (code: string) => Promise<void>): Promise<void>
  close(): void
}

const isSame = (given: string | null, expected: string): boolean =>
  given?.length === expected.length && timingSafeEqual(Buffer.from(given), Buffer.from(expected))

/**
 * Listens on a free port of this machine for the browser, as RFC 8252, section 7.3 describes. Other pages and programs
 * can reach it, too: only the request with the state counts, and only the first.
 */
export async function listen(): Promise<Loopback> {
  const state = newSecret()
  const came = Promise.withResolvers<{ query: URLSearchParams; answer(to: string): void }>()
  let isUsed = false
  const server: Server = process.getBuiltinModule('node:http').createServer((request, response) => {
    const { port } = server.address() as AddressInfo
    const url = new URL(request.url ?? '/', 'http://127.0.0.1')
    const isOurs =
      request.method === 'GET' &&
      // A name that someone lets point to this machine would send another one.
      request.headers.host === `127.0.0.1:${port}` &&
      url.pathname === '/' &&
      isSame(url.searchParams.get('state'), state)
    if (!isOurs || isUsed) return void response.writeHead(404, { connection: 'close' }).end()
    isUsed = true
    came.resolve({
      query: url.searchParams,
      answer: (location) =>
        void response.writeHead(303, { location, connection: 'close', 'referrer-policy': 'no-referrer' }).end(),
    })
  })
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    state,
    async handOver(page, finish) {
      const timer = setTimeout(
        () => came.reject(new Failure('The login was not allowed within 5 minutes.', 'expired', 'failed')),
        waitMs,
      )
      const { query, answer } = await came.promise.finally(() => clearTimeout(timer))
      try {
        const code = query.get('code')
        if (code === null) throw new Failure('The login was refused on the page.', 'refused', 'refused')
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
