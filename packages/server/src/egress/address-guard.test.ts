import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isForbidden, ranges } from './address-guard.ts'

const none = ranges([])
const forbidden = (address: string): boolean => isForbidden(address, none)

// An operator who may create channels could otherwise make the service connect to hosts that only the service can
// reach.
describe('without an allow-list', () => {
  it.each([
    // First and last address of each range of the registries.
    ['this network', '0.0.0.0', '0.255.255.255'],
    ['private, 24 bits', '10.0.0.0', '10.255.255.255'],
    ['shared by customers of a provider', '100.64.0.0', '100.127.255.255'],
    ['loopback', '127.0.0.0', '127.255.255.255'],
    ['link-local', '169.254.0.0', '169.254.255.255'],
    ['private, 20 bits', '172.16.0.0', '172.31.255.255'],
    ['protocol assignments', '192.0.0.0', '192.0.0.255'],
    ['documentation 1', '192.0.2.0', '192.0.2.255'],
    ['relays of 6to4', '192.88.99.0', '192.88.99.255'],
    ['private, 16 bits', '192.168.0.0', '192.168.255.255'],
    ['benchmarks', '198.18.0.0', '198.19.255.255'],
    ['documentation 2', '198.51.100.0', '198.51.100.255'],
    ['documentation 3', '203.0.113.0', '203.0.113.255'],
    ['multicast', '224.0.0.0', '239.255.255.255'],
    ['reserved', '240.0.0.0', '255.255.255.254'],
    ['metadata of clouds', '169.254.169.254', '100.100.100.200'],
    ['metadata of Oracle and Azure', '192.0.0.192', '168.63.129.16'],
    ['broadcast', '255.255.255.255', '255.255.255.255'],
    ['unspecified and loopback', '::', '::1'],
    ['IPv4-compatible', '::127.0.0.1', '::8.8.8.8'],
    ['mapped', '::ffff:127.0.0.1', '::ffff:a00:1'],
    ['translated', '::ffff:0:127.0.0.1', '::ffff:0:8.8.8.8'],
    ['NAT64 to private addresses', '64:ff9b::10.0.0.1', '64:ff9b::a9fe:a9fe'],
    ['local NAT64', '64:ff9b:1::', '64:ff9b:1:ffff:ffff:ffff:ffff:ffff'],
    ['discard', '100::', '100::ffff:ffff:ffff:ffff'],
    ['dummy', '100:0:0:1::', '100:0:0:1:ffff:ffff:ffff:ffff'],
    ['protocol assignments of IPv6', '2001::', '2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['Teredo', '2001::1', '2001:0:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['benchmarks of IPv6', '2001:2::', '2001:2:0:ffff:ffff:ffff:ffff:ffff'],
    ['ORCHID', '2001:10::', '2001:2f:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['documentation of IPv6', '2001:db8::', '2001:db8:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['6to4', '2002:7f00:1::', '2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['documentation of IPv6, newer', '3fff::', '3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['segment routing', '5f00::', '5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['unique local', 'fc00::', 'fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['metadata of AWS and Google by IPv6', 'fd00:ec2::254', 'fd20:ce::254'],
    ['link-local of IPv6', 'fe80::', 'febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['site-local', 'fec0::', 'feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['multicast of IPv6', 'ff00::', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['unassigned', '1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff', '4000::'],
    ['with a zone', 'fe80::1%eth0', '::1%lo'],
    ['no address', 'localhost', ''],
    ['no address either', '0x7f.1', '127.1'],
  ])('%s is forbidden', (_, first, last) => {
    expect([forbidden(first), forbidden(last)]).toEqual([true, true])
  })

  it.each([
    // Neighbours of those ranges, so that a wrong prefix length is detected.
    ['1.0.0.0', '9.255.255.255', '11.0.0.0', '100.63.255.255', '100.128.0.0', '126.255.255.255', '128.0.0.0'],
    ['169.253.255.255', '169.255.0.0', '172.15.255.255', '172.32.0.0', '191.255.255.255', '192.0.1.0', '192.0.3.0'],
    ['192.88.98.255', '192.88.100.0', '192.167.255.255', '192.169.0.0', '198.17.255.255', '198.20.0.0'],
    [
      '198.51.99.255',
      '198.51.101.0',
      '203.0.112.255',
      '203.0.114.0',
      '223.255.255.255',
      '168.63.129.15',
      '168.63.129.17',
    ],
    ['2000::', '2001:200::', '2001:db7:ffff::', '2001:db9::', '2001:ffff::', '2003::', '3ffe:ffff::', '3fff:1000::'],
    ['::ffff:8.8.8.8', '64:ff9b::8.8.8.8', '2606:4700:4700::1111', '2a00:1450::1%eth0'],
  ])('%s and other neighbours of these ranges are allowed', (...addresses) => {
    expect(addresses.filter(forbidden)).toEqual([])
  })

  // The system connects a mapped address by IPv4, and NAT64 translates its prefix to the same address.
  it('IPv4 addresses embedded in IPv6 get the same result as IPv4', () => {
    fc.assert(
      fc.property(fc.ipV4(), (address) => {
        const spellings = [`::ffff:${address}`, `64:ff9b::${address}`]
        expect(spellings.map(forbidden)).toEqual(spellings.map(() => forbidden(address)))
        expect(forbidden(`::${address}`)).toBe(true)
      }),
    )
  })
})

describe('an allow-list', () => {
  const within = (allow: string[], address: string): boolean => !isForbidden(address, ranges(allow))

  it('allows its addresses, including the IPv6 forms of IPv4', () => {
    for (const address of ['10.1.0.0', '10.1.255.255', '::ffff:10.1.2.3', '64:ff9b::a01:203']) {
      expect(within(['10.1.0.0/16'], address), address).toBe(true)
    }
    expect(within(['fd00:1::/32'], 'fd00:1::7')).toBe(true)
    expect(within(['fe80::/10'], 'fe80::1%eth0')).toBe(true)
    expect(within(['127.0.0.1', '::1'], '127.0.0.1')).toBe(true)
    expect(within(['127.0.0.1', '::1'], '::1')).toBe(true)
  })

  it('allows no other addresses', () => {
    for (const address of ['10.0.255.255', '10.2.0.0', '127.0.0.1', '::ffff:10.2.0.0', 'fd00::7', '::10.1.2.3']) {
      expect(within(['10.1.0.0/16', 'fd00:1::/32'], address), address).toBe(false)
    }
    expect(within(['127.0.0.1'], '127.0.0.0')).toBe(false)
    expect(within(['127.0.0.1'], '127.0.0.2')).toBe(false)
    expect(within(['::1'], '::2')).toBe(false)
  })

  it('of a whole family does not allow the other family', () => {
    expect(within(['::/0'], '127.0.0.1')).toBe(false)
    expect(within(['0.0.0.0/0'], '::1')).toBe(false)
    expect(within(['0.0.0.0/0'], '127.0.0.1')).toBe(true)
    expect(within(['::/0'], 'fe80::1')).toBe(true)
  })

  it('allows no text that is not an address', () => {
    for (const text of ['localhost', '', '127.1', '0x7f000001', '1.2.3.4.5', ':::']) {
      expect(within(['0.0.0.0/0', '::/0'], text), text).toBe(false)
    }
  })
})
