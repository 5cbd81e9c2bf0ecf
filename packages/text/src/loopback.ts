import { isIPv4 } from 'node:net'

/**
 * Whether a host name or address is loopback. Accepts IPv6 with or without brackets. A name that merely starts with
 * 127. may resolve to any address.
 */
export const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || host === '[::1]' || (isIPv4(host) && host.startsWith('127.'))

/** Replaces the address of a service that listens on all interfaces with loopback. */
export const reachableUrl = (url: string): string =>
  url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:')
