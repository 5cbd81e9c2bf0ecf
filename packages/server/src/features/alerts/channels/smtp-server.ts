import { BlockList, isIP } from 'node:net'
import { receiverUrl } from './receiver-url.ts'

export interface SmtpServer {
  host: string
  port: number
  /** TLS from the first byte, by `smtps://`. */
  secure: boolean
  /** Null without a user in the URL. */
  login: { user: string; pass: string } | null
  /** On this machine: nobody is between, and its certificate is usually made by itself. */
  isLoopback: boolean
}

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8, 'ipv4')
loopback.addAddress('::1', 'ipv6')

function isLoopback(host: string): boolean {
  const family = isIP(host)
  // RFC 6761, section 6.3: this name never leads anywhere else.
  return family === 0 ? host === 'localhost' : loopback.check(host, family === 6 ? 'ipv6' : 'ipv4')
}

/** A password that was pasted with a % of its own stays as it is. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** Reads `smtp(s)://<user>:<password>@<host>:<port>`; the ports are 587 (RFC 6409) and 465 (RFC 8314) unless told. */
export function smtpServer(text: string): SmtpServer {
  const url = receiverUrl(text)
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1').toLowerCase()
  const secure = url.protocol === 'smtps:'
  return {
    host,
    port: url.port === '' ? (secure ? 465 : 587) : Number(url.port),
    secure,
    login: url.username === '' ? null : { user: decoded(url.username), pass: decoded(url.password) },
    isLoopback: isLoopback(host),
  }
}
