import { SocketAddress } from 'node:net'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { addressGroup } from './address-group.ts'

it.each([
  ['192.0.2.7', '192.0.2.7'],
  ['::ffff:192.0.2.7', '192.0.2.7'],
  ['::1', '0:0:0:0::/64'],
  ['::', '0:0:0:0::/64'],
  ['2001:db8::7', '2001:db8:0:0::/64'],
  ['2001:DB8:0001:2:ffff:ffff:ffff:ffff', '2001:db8:1:2::/64'],
  ['2001:db8:1:2::', '2001:db8:1:2::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ['64:ff9b::192.0.2.7', '64:ff9b:0:0::/64'],
  ['', ''],
])('counts %s as %s', (address, group) => {
  expect(addressGroup(address)).toBe(group)
})

// The owner of a /64 has practically unlimited addresses, and would get 20 attempts with each.
it('counts all addresses of a /64 as one, however they are written, and other networks separately', () => {
  const part = fc.integer({ min: 0, max: 0xffff })
  fc.assert(
    fc.property(fc.tuple(part, part, part, part), fc.tuple(part, part, part, part), part, (network, host, other) => {
      const text = (groups: number[]) => groups.map((group) => group.toString(16)).join(':')
      const address = text([...network, ...host])
      const short = new SocketAddress({ family: 'ipv6', address }).address
      const long = [...network, ...host].map((group) => group.toString(16).toUpperCase().padStart(4, '0')).join(':')
      const expected = `${text(network)}::/64`
      expect([address, short, long].map(addressGroup)).toEqual([expected, expected, expected])
      const elsewhere = [...network.slice(0, 3), other]
      expect(addressGroup(text([...elsewhere, ...host])) === expected).toBe(other === network[3])
    }),
  )
})
