import { isIPv6 } from 'node:net'

/**
 * Returns the unit by which limits count addresses: an IPv4 address, or the /64 of an IPv6 address. A subscriber can
 * choose any address within a /64.
 */
export function addressGroup(given: string): string {
  const address = given.replace(/^::ffff:(?=\d+\.)/i, '')
  if (!isIPv6(address)) return address
  const [head = '', tail] = address.toLowerCase().split('%', 1)[0]!.split('::')
  const first = head === '' ? [] : head.split(':')
  const last = tail === undefined || tail === '' ? [] : tail.split(':')
  // A dotted IPv4 suffix counts as two groups.
  const count = first.length + last.length + (last.at(-1)?.includes('.') ? 1 : 0)
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - count)
  const groups = [...first, ...Array<string>(zeros).fill('0'), ...last].slice(0, 4)
  return `${groups.map((group) => group.replace(/^0+(?=.)/, '')).join(':')}::/64`
}
