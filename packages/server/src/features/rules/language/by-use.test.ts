import fc from 'fast-check'
import { expect, test } from 'vitest'
import { effort } from '../../../../../../test-servers/effort.ts'
import { ByUse, type Keyed } from './by-use.ts'

interface Member extends Keyed<Member> {
  made: number
}

test('the order of use is that of a map in which each used key is deleted and added', () => {
  const steps = fc.array(
    fc.tuple(fc.constantFrom('use', 'use', 'use', 'delete', 'oldest'), fc.constantFrom('a', 'b', 'c', 'd', 'e')),
    { maxLength: 60, size: 'max' },
  )
  fc.assert(
    fc.property(steps, (list) => {
      const members = new ByUse<Member>()
      const plain = new Map<string, number>()
      for (const [made, [what, name]] of list.entries()) {
        const key = what === 'oldest' ? (plain.keys().next().value ?? name) : name
        const known = members.get(key)
        if (what === 'use') {
          if (known) members.use(known)
          else members.add({ key, made, older: undefined, newer: undefined })
          const before = plain.get(key)
          plain.delete(key)
          plain.set(key, before ?? made)
        } else if (known) {
          if (what === 'oldest') expect(members.oldest).toBe(known)
          members.delete(known)
          plain.delete(key)
        }
        expect([...members].map((member) => [member.key, member.made])).toEqual([...plain])
        expect(members.size).toBe(plain.size)
        expect(members.oldest?.key).toBe(plain.keys().next().value)
      }
    }),
    { numRuns: effort(100, 50_000) },
  )
})
