import { once } from 'node:events'
import type { RequestListener } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { createTestAuthority, type TestCertificate } from '../../../../test-servers/certificate.ts'
import { dataUriOf } from '../features/chain/data-uri.ts'

const dayMs = 86_400_000

/** The headers without which a page has a risk. */
export const safeHeaders = {
  'strict-transport-security': 'max-age=31536000',
  'content-security-policy': "default-src 'self'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
}

export const testAuthority = createTestAuthority()

/** Lets this process trust the authority of the tests. */
export function trustAuthority(): Disposable {
  const before = getCACertificates('default')
  setDefaultCACertificates([testAuthority.cert])
  return { [Symbol.dispose]: () => setDefaultCACertificates(before) }
}

/** A certificate of 127.0.0.1 that is valid for so many days. */
export const validCertificate = (days = 60) => testAuthority.issue(Date.now() - 30 * dayMs, Date.now() + days * dayMs)

export interface Site extends AsyncDisposable {
  /** Without a path. */
  url: string
}

/** Starts an HTTPS server on the loopback address. */
export async function startSite(
  answer: RequestListener,
  certificate: TestCertificate = validCertificate(),
): Promise<Site> {
  const server = createServer(certificate, answer)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await once(server.close(), 'close')
    },
  }
}

export interface TestAgent extends Site {
  /** Settings of a service of which this is the public address. */
  env: Record<string, string>
  /** What its registration file contains; a string is sent as it is. */
  file: Record<string, unknown> | string
  /** Paths that were asked for. */
  asked: string[]
}

/** Starts the site of an agent: its registration file, and pages without risk. */
export async function startAgent(): Promise<TestAgent> {
  const trusted = trustAuthority()
  const agent: Pick<TestAgent, 'file' | 'asked'> = { file: {}, asked: [] }
  const site = await startSite((request, response) => {
    agent.asked.push(request.url!)
    const isFile = request.url === '/.well-known/agent-registration.json'
    const { file } = agent
    response.writeHead(200, safeHeaders)
    response.end(isFile ? (typeof file === 'string' ? file : JSON.stringify(file)) : 'fine')
  })
  agent.file = registrationFile(`${site.url}/trust`)
  return Object.assign(agent, {
    url: site.url,
    env: { WARDLINE_PUBLIC_URL: site.url, WARDLINE_ALERT_ALLOW_CIDRS: '127.0.0.1/32' },
    async [Symbol.asyncDispose]() {
      trusted[Symbol.dispose]()
      await site[Symbol.asyncDispose]()
    },
  })
}

/** A registration file of ERC-8004 with one page. */
export const registrationFile = (endpoint: string) => ({
  type: 'https://eips.ethereum.org/EIPS/eip-8004#registration-v1',
  name: 'test',
  description: 'An agent of the tests',
  services: [{ name: 'web', endpoint }],
  registrations: [],
})

export const dataUri = (file: unknown): string => dataUriOf(typeof file === 'string' ? file : JSON.stringify(file))
