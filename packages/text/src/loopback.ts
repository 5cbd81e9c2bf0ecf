import { isIPv4 } from 'node:net'

/**
 * Whether a host name or address, IPv6 with or without brackets, reaches only this machine. A name that merely begins
 * with 127. may lead anywhere.
 */
export const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || host === '[::1]' || (isIPv4(host) && host.startsWith('127.'))
