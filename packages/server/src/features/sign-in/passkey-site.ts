import { isIP } from 'node:net'
import type { Config } from '../../config/config.ts'

/** What browsers bind a passkey to. */
export interface Site {
  /** Host name (WebAuthn Level 3, "relying party identifier"). */
  rpId: string
  origin: string
}

/** Where a request was sent. */
export interface Address {
  protocol: string
  host: string
}

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
 * WARDLINE_PUBLIC_URL only localhost is trusted: any other name in a request is chosen by who sends it.
 */
export function passkeySite({ publicUrl }: Pick<Config, 'publicUrl'>, { protocol, host }: Address): Site | string {
  if (publicUrl !== undefined) return siteOf(publicUrl, 'WARDLINE_PUBLIC_URL')
  const site = siteOf(`${protocol}://${host}`, 'this address')
  if (typeof site === 'string' || isLocalhost(site.rpId)) return site
  return 'Passkeys need WARDLINE_PUBLIC_URL, so that it is certain to which host name they belong.'
}

/** Returns the host name of the passkeys that can be used; undefined if none can. */
export function usableRpId({ publicUrl }: Pick<Config, 'publicUrl'>): string | undefined {
  if (publicUrl === undefined) return 'localhost'
  const site = siteOf(publicUrl, 'WARDLINE_PUBLIC_URL')
  return typeof site === 'string' ? undefined : site.rpId
}
