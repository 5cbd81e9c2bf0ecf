import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import { hostname } from 'node:os'
import { isLoopback } from '@wardline/text'
import type { Config } from '../config.ts'
import { AppError } from '../errors.ts'

type HostConfig = Pick<Config, 'host' | 'allowedHosts' | 'publicUrl' | 'trustedProxies'>

/** The name or address of an authority (RFC 3986, section 3.2) without its port; undefined when it is none. */
export function hostOf(authority: string): string | undefined {
  const [, literal, name] = /^(?:\[([\da-f:.]+)\]|([^\s:/?#@[\]\\]+))(?::\d{0,5})?$/i.exec(authority) ?? []
  if (literal !== undefined) return isIP(literal) === 6 ? literal.toLowerCase() : undefined
  return name?.toLowerCase().replace(/\.$/, '')
}

/** Decides which hosts are served: a pure function of the configuration and the name of the machine. */
export function servedHosts(config: Omit<HostConfig, 'trustedProxies'>, machine: string): (host: string) => boolean {
  const { host: bound, allowedHosts = [], publicUrl } = config
  const isLocal = isLoopback(bound)
  const own = publicUrl === undefined ? [] : [hostOf(new URL(publicUrl).host)]
  // With a domain or without: os.hostname() gives either.
  const machines = isLocal ? [] : [machine, machine.split('.')[0]].map((name) => name?.toLowerCase())
  const names = new Set([
    bound.toLowerCase(),
    ...own,
    ...machines,
    ...allowedHosts.filter((name) => !name.startsWith('*')),
  ])
  const domains = allowedHosts.filter((name) => name.startsWith('*')).map((name) => name.slice(1))
  return (host) =>
    isLoopback(host) ||
    // An address cannot be pointed elsewhere by DNS, and health probes of orchestrators send it.
    (!isLocal && isIP(host) !== 0) ||
    names.has(host) ||
    domains.some((domain) => host.endsWith(domain) && host.length > domain.length)
}

const isRepeated = (rawHeaders: readonly string[]): boolean => {
  let count = 0
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!
    if (name.length === 4 && name.toLowerCase() === 'host') count += 1
  }
  return count > 1
}

const refused = () =>
  new AppError(
    'wrong_host',
    'This host name is not allowed: add it to WARDLINE_ALLOWED_HOSTS or set WARDLINE_PUBLIC_URL.',
  )

/**
 * A web page can point its own name at the address of this service and then read it as its own origin (DNS rebinding):
 * with the reader's place in the network, and without a key wherever none is asked for. Only known host names are
 * served. Throws AppError `wrong_host`, or `invalid` for a request with several.
 */
export function createHostCheck(config: HostConfig, machine = hostname()): (request: IncomingMessage) => void {
  const isServed = servedHosts(config, machine)
  const mayLackHost = !isLoopback(config.host)
  let accepted: string | undefined

  function assertServed(authority: string): void {
    const host = hostOf(authority)
    if (host === undefined || !isServed(host)) throw refused()
  }

  return ({ headers, rawHeaders, url = '' }) => {
    const { host } = headers
    // A proxy may put its own name for this service in the place of the one that the browser asked for.
    const forwarded = config.trustedProxies ? headers['x-forwarded-host'] : undefined
    if (forwarded !== undefined) for (const name of String(forwarded).split(',')) assertServed(name.trim())
    // The absolute form of a target counts more than the header (RFC 9112, section 3.2.2).
    if (url[0] !== '/' && url !== '*') assertServed(/^https?:\/\/([^/?#]*)/i.exec(url)?.[1] ?? '')
    if (isRepeated(rawHeaders)) throw new AppError('invalid', 'The request must have one Host header.')
    if (host !== undefined && host === accepted) return
    // Only old probes (HTTP/1.0) send none, and no browser can.
    if (host === undefined && mayLackHost) return
    assertServed(host ?? '')
    accepted = host
  }
}
