import { BlockList, isIP } from 'node:net'

/** Whether a text is an address within the ranges. */
export type Ranges = (address: string) => boolean

/**
 * IPv4-mapped addresses (RFC 4291, section 2.5.5.2), which the system connects by IPv4, and the well-known prefix of
 * NAT64 (RFC 6052, section 2.1), through which networks without IPv4 reach all IPv4 addresses.
 */
const prefixesOfIPv4 = ['::ffff:', '64:ff9b::']

/** Parses CIDRs or single addresses. An IPv4 range includes the IPv6 addresses that embed one of its addresses. */
export function ranges(cidrs: readonly string[]): Ranges {
  // A single BlockList would match IPv4 addresses in `::/0`.
  const [ofIPv4, ofIPv6] = [new BlockList(), new BlockList()]
  for (const cidr of cidrs) {
    const [network = '', bits] = cidr.split('/')
    if (isIP(network) === 6) {
      ofIPv6.addSubnet(network, Number(bits ?? 128), 'ipv6')
      continue
    }
    const length = Number(bits ?? 32)
    ofIPv4.addSubnet(network, length, 'ipv4')
    for (const prefix of prefixesOfIPv4) ofIPv6.addSubnet(`${prefix}${network}`, 96 + length, 'ipv6')
  }
  // BlockList ignores the zone of an address, such as `%eth0`.
  return (address) => {
    const family = isIP(address)
    if (family === 0) return false
    return family === 6 ? ofIPv6.check(address, 'ipv6') : ofIPv4.check(address, 'ipv4')
  }
}

/**
 * Special-purpose ranges, which contain no receivers of alerts, from
 * https://www.iana.org/assignments/iana-ipv4-special-registry and
 * https://www.iana.org/assignments/iana-ipv6-special-registry. The few globally reachable addresses in them serve
 * protocols.
 */
const special = ranges([
  '0.0.0.0/8', // this network; connects to this machine
  '10.0.0.0/8', // private
  '100.64.0.0/10', // shared by customers of a provider; metadata of Alibaba Cloud
  '127.0.0.0/8', // loopback
  '169.254.0.0/16', // link-local; metadata of most clouds
  '172.16.0.0/12', // private
  '192.0.0.0/24', // protocol assignments; metadata of Oracle Cloud
  '192.0.2.0/24', // documentation
  '192.88.99.0/24', // relays of 6to4
  '192.168.0.0/16', // private
  '198.18.0.0/15', // benchmarks
  '198.51.100.0/24', // documentation
  '203.0.113.0/24', // documentation
  '224.0.0.0/4', // multicast
  '240.0.0.0/4', // reserved, and broadcast
  '168.63.129.16', // in no registry: Azure's platform endpoint for its machines
  '2001::/23', // protocol assignments, Teredo among them
  '2001:db8::/32', // documentation
  '2002::/16', // 6to4, which ends at any IPv4 address
  '3fff::/20', // documentation
])

/**
 * Addresses that a receiver can have: assigned IPv6 (https://www.iana.org/assignments/ipv6-address-space), IPv4, and
 * IPv6 that embeds IPv4. Excludes loopback, link-local, site-local, unique local (metadata of AWS and Google),
 * multicast, IPv4-compatible and local NAT64 (64:ff9b:1::/48, RFC 8215).
 */
const assigned = ranges(['2000::/3', '0.0.0.0/0'])

/** Whether URLs from the API must not lead to the address. Any text that is not an address is forbidden. */
export const isForbidden = (address: string, allowed: Ranges): boolean =>
  !allowed(address) && (special(address) || !assigned(address))
