import { isIP } from 'node:net'
import { isForbidden, type Ranges } from './address-guard.ts'

// What is asked of a destination before anything is sent. Each rule gives the predicate of a sentence about what is
// broken, to be put behind whatever names the destination.

/**
 * Schemes of receivers with their ports: RFC 9110, section 4.2; RFC 6409; RFC 8314; RFC 5425. For syslog over plain TCP none is registered, and 514 is what
 * servers are set up with. */
const schemePorts: Record<string, number> = {
  'https:': 443,
  'http:': 80,
  'smtp:': 587,
  'smtps:': 465,
  'tcp:': 514,
  'tls:': 6514,
}

export interface Target {
  /** A name, or an address without brackets. */
  host: string
  port: number
  protocol: 'https' | 'http' | 'other'
}

/** A URL that passed `formFault`, as what it leads to. */
export function targetOf({ protocol, hostname, port }: URL): Target {
  return {
    host: hostname.replace(/^\[(.*)\]$/, '$1'),
    port: port === '' ? schemePorts[protocol]! : Number(port),
    protocol: protocol === 'https:' || protocol === 'http:' ? (protocol.slice(0, -1) as 'https' | 'http') : 'other',
  }
}

/** A login of HTTP in a URL gets into logs on its way; mail servers have no other place for it. */
export function formFault({ protocol, hostname, username, password }: URL): string | undefined {
  if (schemePorts[protocol] === undefined) return `must begin with ${Object.keys(schemePorts).join('//, ')}//.`
  if (hostname === '') return 'must name a host.'
  const isWithoutLogin = username === '' && password === ''
  return isWithoutLogin || /^smtps?:$/.test(protocol) ? undefined : 'must not contain a user or a password.'
}

/** Below 1024 are the services of the system: a POST, or a line of syslog, could be a command to one of those. */
const systemPorts = { http: [80, 443], other: [25, 465, 514, 587, 601] }

export function portFault({ port, protocol }: Target): string | undefined {
  const ports = protocol === 'other' ? systemPorts.other : systemPorts.http
  return port >= 1024 || ports.includes(port)
    ? undefined
    : `must be reached by port ${ports.join(', ')} or one from 1024 on.`
}

/** Of several addresses all must be allowed: which one is connected to is chance. */
export function addressFault({ host, protocol }: Target, addresses: readonly string[], allowed: Ranges) {
  const forbidden = addresses.find((address) => isForbidden(address, allowed))
  if (forbidden !== undefined) {
    const verb = isIP(host) === 0 ? 'resolves' : 'leads'
    return `${verb} to ${forbidden}, which WARDLINE_ALERT_ALLOW_CIDRS does not allow.`
  }
  return protocol !== 'http' || addresses.every(allowed)
    ? undefined
    : 'must be reached by https://: plain http:// is only for addresses that WARDLINE_ALERT_ALLOW_CIDRS names.'
}
