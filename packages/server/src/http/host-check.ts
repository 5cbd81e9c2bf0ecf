import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import { hostname } from 'node:os'
import { isLoopback } from '@wardline/text'
import type { Config } from '../config/config.ts'
import { AppError } from '../errors.ts'

type HostConfig = Pick<Config, 'host' | 'allowedHosts' | 'publicUrl' | 'trustedProxies'>

/** Returns the host of an authority (RFC 3986, section 3.2) without its port; undefined if it is malformed. */
export function hostOf(authority: string): string | undefined {
  const [, literal, name] = /^(?:\[([\da-f:.]+)\]|([^\s:/?#@[\]\\]+))(?::\d{0,5})?$/i.exec(authority) ?? []
  if (literal !== undefined) return isIP(literal) === 6 ? literal.toLowerCase() : undefined
  return name?.toLowerCase().replace(/\.$/, '')
}

/** Returns a check whether a host is served, from the configuration and the machine's name. */
export function servedHosts(config: Omit<HostConfig, 'trustedProxies'>, machine: string): (host: string) => boolean {
  const { host: bound, allowedHosts = [], publicUrl } = config
  const isLocal = isLoopback(bound)
  const own = publicUrl === undefined ? [] : [hostOf(new URL(publicUrl).host)]
  // os.hostname() may return the name with or without a domain.
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
    // IP addresses are immune to DNS rebinding, and health probes of orchestrators use them.
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
 * Creates a check that serves only known host names, against DNS rebinding: a web page can point its own name at the
 * address of this service and read it as its own origin, from inside the user's network, wherever no key is required.
 * The check throws AppError `wrong_host`, or `invalid` for a request with several Host headers.
 */
export function createHostCheck(config: HostConfig): (request: IncomingMessage) => void {
  const isServed = servedHosts(config, hostname())
  const mayLackHost = !isLoopback(config.host)
  let accepted: string | undefined

  function assertServed(authority: string): void {
    const host = hostOf(authority)
    if (host === undefined || !isServed(host)) throw refused()
  }

  return ({ headers, rawHeaders, url = '' }) => {
    const { host } = headers
    // A proxy may replace the host requested by the browser with its own name for this service.
    const forwarded = config.trustedProxies ? headers['x-forwarded-host'] : undefined
    if (forwarded !== undefined) for (const name of String(forwarded).split(',')) assertServed(name.trim())
    // A target in absolute form takes precedence over the Host header (RFC 9112, section 3.2.2).
    if (url[0] !== '/' && url !== '*') assertServed(/^https?:\/\/([^/?#]*)/i.exec(url)?.[1] ?? '')
    if (isRepeated(rawHeaders)) throw new AppError('invalid', 'The request must have one Host header.')
    if (host !== undefined && host === accepted) return
    // Only old probes (HTTP/1.0) omit the header; browsers always send it.
    if (host === undefined && mayLackHost) return
    assertServed(host ?? '')
    accepted = host
  }
}
