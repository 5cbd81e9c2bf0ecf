import { urlFault } from './setting-faults.ts'
import { refuse } from './values.ts'

const form = /^(rediss?)(\+sentinel)?:\/\/((?:[^@/?#]*@)?)([^@/?#]+)(?:\/([^/?#]*))?(?:\?([^#]*))?$/
const sentinelPort = 26_379
/** More would be a mistake: three to five sentinels are usual, and any node of a cluster leads to the others. */
const maxServers = 8

/** How the server in use is found. All URLs are of one server each. */
export type RedisUrl =
  | { kind: 'one'; url: string }
  /** Any node of a cluster: each passes messages on to all others. */
  | { kind: 'cluster'; nodes: string[] }
  /** `masterUrl` returns the URL of a master at an address. */
  | { kind: 'sentinel'; name: string; sentinels: string[]; masterUrl(host: string, port: number): string }

/** Returns the servers of a URL. Throws an Error that quotes nothing of it. */
export function redisUrl(url: string): RedisUrl {
  const [, scheme, isSentinel, login = '', hosts = '', path = '', query = ''] = form.exec(url) ?? []
  const names = hosts.split(',')
  const ofHost = (host: string, credentials = login) => `${scheme}://${credentials}${host}`
  const fault = scheme === undefined ? 'no form' : names.map((host) => urlFault(ofHost(host))).find(Boolean)
  if (scheme === undefined || fault === 'no form') {
    return refuse(
      'must be redis://<user>:<password>@<host>:<port>, with <host>:<port>,<host>:<port> for a cluster, or redis+sentinel://…/<master> for Sentinel; rediss… for TLS',
    )
  }
  if (fault) return refuse(fault)
  if (names.length > maxServers) return refuse(`must be a URL with at most ${maxServers} hosts`)
  if (!isSentinel) {
    if (names.length > 1) return { kind: 'cluster', nodes: names.map((host) => ofHost(host)) }
    return { kind: 'one', url }
  }
  if (path === '')
    return refuse('must be a URL that ends in the name of the master which the sentinels watch, as in …/mymaster')
  const password = new URLSearchParams(query).get('sentinel_password')
  const ownLogin = password === null ? '' : `:${encodeURIComponent(password)}@`
  const withPort = (host: string) => (/:\d+$/.test(host) ? host : `${host}:${sentinelPort}`)
  return {
    kind: 'sentinel',
    name: decodeURIComponent(path),
    sentinels: names.map((host) => ofHost(withPort(host), ownLogin)),
    masterUrl: (host, port) => ofHost(`${host.includes(':') ? `[${host}]` : host}:${port}`),
  }
}

/** Checks a URL of the backplane. */
export function backplaneUrl(value: string): string {
  redisUrl(value)
  return value
}
