import { isIP } from 'node:net'
import type { Config } from '../../config/config.ts'

/** What browsers bind a passkey to. */
export interface Site {
  /** Host name (WebAuthn Level 3, "relying party identifier"). */
  rpId: string
  origin: string
}

/** Where a request says that it was sent, and where it arrived. */
export interface Address {
  protocol: string
  host: string
  socket: { localPort?: number | undefined }
}

const standardPorts: Record<string, number> = { 'http:': 80, 'https:': 443 }

const isLocalhost = (name: string): boolean => name === 'localhost' || name.endsWith('.localhost')

/** Returns the site of an address, or why it has none. */
function siteOf(address: string, what: string): Site | string {
  if (!URL.canParse(address)) return `${what} is not an address.`
  const { hostname, protocol, origin } = new URL(address)
  if (isIP(hostname.replace(/^\[|\]$/g, '')) !== 0) {
    return `A passkey belongs to a host name, and ${what} is an IP address: set WARDLINE_PUBLIC_URL to a host name with https://.`
  }
  if (protocol !== 'https:' && !isLocalhost(hostname)) {
    return `Browsers use passkeys only with https:// and on localhost, and ${what} is http://.`
  }
  return { rpId: hostname, origin }
}

/**
 * Returns the site of the service, or in a sentence why passkeys cannot be used at this address. Without
 * WARDLINE_PUBLIC_URL only localhost is trusted, with the port at which the request arrived: any other name or port in a
 * request is chosen by who sends it, such as another program of this machine, whose pages are of the host localhost too.
 */
export function passkeySite(
  { publicUrl }: Pick<Config, 'publicUrl'>,
  { protocol, host, socket }: Address,
): Site | string {
  if (publicUrl !== undefined) return siteOf(publicUrl, 'WARDLINE_PUBLIC_URL')
  const site = siteOf(`${protocol}://${host}`, 'this address')
  if (typeof site === 'string') return site
  const url = new URL(site.origin)
  const port = url.port === '' ? standardPorts[url.protocol] : Number(url.port)
  if (site.rpId === usableRpId({ publicUrl }) && port === socket.localPort) return site
  return 'Passkeys need WARDLINE_PUBLIC_URL, except at http://localhost with the port of the service.'
}

/** Returns the host name of the passkeys that can be used; undefined if none can. */
export function usableRpId({ publicUrl }: Pick<Config, 'publicUrl'>): string | undefined {
  if (publicUrl === undefined) return 'localhost'
  const site = siteOf(publicUrl, 'WARDLINE_PUBLIC_URL')
  return typeof site === 'string' ? undefined : site.rpId
}
