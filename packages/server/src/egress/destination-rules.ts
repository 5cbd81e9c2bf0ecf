import { isIP } from 'node:net'
import { isForbidden, type Ranges } from './address-guard.ts'

// Checks of a destination before a connection is opened. Each returns the predicate of a sentence, to which the caller
// adds the subject.

/**
 * Schemes of receivers with their default ports: RFC 9110, section 4.2; RFC 6409; RFC 8314; RFC 5425. Syslog over plain
 * TCP has no registered port; servers usually use 514. */
const schemePorts: Record<string, number> = {
  'https:': 443,
  'http:': 80,
  'smtp:': 587,
  'smtps:': 465,
  'tcp:': 514,
  'tls:': 6514,
}

export interface Target {
  /** Name, or address without brackets. */
  host: string
  port: number
  protocol: 'https' | 'http' | 'other'
}

/** Returns the target of a URL that passed `formFault`. */
export function targetOf({ protocol, hostname, port }: URL): Target {
  return {
    host: hostname.replace(/^\[(.*)\]$/, '$1'),
    port: port === '' ? schemePorts[protocol]! : Number(port),
    protocol: protocol === 'https:' || protocol === 'http:' ? (protocol.slice(0, -1) as 'https' | 'http') : 'other',
  }
}

/** Proxies and servers log credentials in HTTP URLs. Mail settings have no other place for credentials. */
export function formFault({ protocol, hostname, username, password }: URL): string | undefined {
  if (schemePorts[protocol] === undefined) return `must begin with ${Object.keys(schemePorts).join('//, ')}//.`
  if (hostname === '') return 'must name a host.'
  const isWithoutLogin = username === '' && password === ''
  return isWithoutLogin || /^smtps?:$/.test(protocol) ? undefined : 'must not contain a user or a password.'
}

/** Ports below 1024 belong to system services, which could take a POST or a line of syslog for a command. */
const systemPorts = { http: [80, 443], other: [25, 465, 514, 587, 601] }

export function portFault({ port, protocol }: Target): string | undefined {
  const ports = protocol === 'other' ? systemPorts.other : systemPorts.http
  return port >= 1024 || ports.includes(port)
    ? undefined
    : `must use port ${ports.join(', ')} or a port of at least 1024.`
}

/** All addresses of a name must be allowed, because any of them may be used. */
export function addressFault({ host, protocol }: Target, addresses: readonly string[], allowed: Ranges) {
  const forbidden = addresses.find((address) => isForbidden(address, allowed))
  if (forbidden !== undefined) {
    const verb = isIP(host) === 0 ? 'resolves' : 'leads'
    return `${verb} to ${forbidden}, which WARDLINE_ALERT_ALLOW_CIDRS does not allow.`
  }
  return protocol !== 'http' || addresses.every(allowed)
    ? undefined
    : 'must use https://: http:// is only allowed for addresses in WARDLINE_ALERT_ALLOW_CIDRS.'
}
