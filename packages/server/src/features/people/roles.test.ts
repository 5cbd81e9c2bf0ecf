import { expect, describe as group, it } from 'vitest'
import { describe, readGroups, refusalOf, roleOf } from './roles.ts'

const many = (count: number) => Array.from({ length: count }, (_, index) => `group-${index}`)

group('groups are read', () => {
  it.each<[string, Record<string, unknown>, string, ReturnType<typeof readGroups>]>([
    ['Entra', { groups: ['0c3f', '91ab'] }, 'groups', { groups: ['0c3f', '91ab'] }],
    [
      'Entra with too many',
      { _claim_names: { groups: 'src1' }, _claim_sources: {} },
      'groups',
      { groups: [], doubt: 'omitted' },
    ],
    ['Entra, implicit flow', { hasgroups: true }, 'groups', { groups: [], doubt: 'omitted' }],
    ['Entra app roles', { roles: ['Operator'] }, 'roles', { groups: ['Operator'] }],
    ['Okta', { groups: many(99) }, 'groups', { groups: many(99) }],
    ['Okta, cut off', { groups: many(100) }, 'groups', { groups: many(100), doubt: 'truncated' }],
    ['Google', { hd: 'example.com' }, 'groups', { groups: [], doubt: 'missing' }],
    ['Keycloak', { groups: ['/eng/platform'] }, 'groups', { groups: ['/eng/platform'] }],
    ['Keycloak realm roles', { realm_access: { roles: ['ops'] } }, 'realm_access.roles', { groups: ['ops'] }],
    ['a name with dots', { 'https://example.com/groups': ['a'] }, 'https://example.com/groups', { groups: ['a'] }],
    ['Dex', { groups: ['org:team'] }, 'groups', { groups: ['org:team'] }],
    ['SecureAuth', { groups: 'a, b,,c' }, 'groups', { groups: ['a', 'b', 'c'] }],
    ['one text', { groups: 'ops' }, 'groups', { groups: ['ops'] }],
    ['no groups', { groups: [] }, 'groups', { groups: [] }],
    ['garbage', { groups: [1, null, { name: 'x' }, 'y'.repeat(300), 'z'] }, 'groups', { groups: ['z'] }],
    ['a group with spaces', { groups: ['\u00a0root '] }, 'groups', { groups: ['\u00a0root '] }],
    ['an object', { groups: { admin: true } }, 'groups', { groups: [] }],
    ['an inherited name', {}, 'constructor.name', { groups: [], doubt: 'missing' }],
    ['a flood', { groups: many(2_000) }, 'groups', { groups: many(1_000), doubt: 'truncated' }],
  ])('as %s sends them', (_, claims, path, groups) => {
    expect(readGroups(claims, path)).toEqual(groups)
  })

  it('from the source that has them', () => {
    const sources = [
      { sub: 'x', hasgroups: true },
      { sub: 'x', groups: ['a'] },
    ]
    expect(describe(sources, 'groups')).toMatchObject({ groups: ['a'], name: 'x' })
    expect(describe([{ sub: 'x' }, { sub: 'x', hasgroups: true }], 'groups')).toMatchObject({ doubt: 'omitted' })
  })
})

group('a role', () => {
  const mappings = [
    { group: 'everybody', role: 'viewer' as const },
    { group: 'ops', role: 'operator' as const },
    { group: 'root', role: 'admin' as const },
    { email: 'Eva@Example.com', role: 'admin' as const },
  ]
  const person = (claims: Record<string, unknown>) => describe([{ sub: 'x', ...claims }], 'groups')
  const granted = (claims: Record<string, unknown>) => roleOf(mappings, person(claims))

  it('is the highest of the groups, and says which gave it', () => {
    expect(granted({ groups: ['everybody', 'root', 'ops'] })).toEqual({ role: 'admin', by: 'root', team: null })
    expect(granted({ groups: ['everybody', 'ops'] })).toEqual({ role: 'operator', by: 'ops', team: null })
  })

  it('is for the tags of all groups that give it, or for all agents if one of them is', () => {
    const teams = [
      { group: 'payments', role: 'operator' as const, tags: ['team:payments', 'pci'] },
      { group: 'search', role: 'operator' as const, tags: ['team:search', 'pci'] },
      { group: 'on-call', role: 'operator' as const },
      { group: 'everybody', role: 'viewer' as const },
    ]
    const teamOf = (...groups: string[]) => roleOf(teams, person({ groups }))?.team
    expect(teamOf('payments')).toEqual(['pci', 'team:payments'])
    expect(teamOf('search', 'payments', 'everybody')).toEqual(['pci', 'team:payments', 'team:search'])
    expect(teamOf('payments', 'on-call')).toBeNull()
    expect(teamOf('on-call', 'payments')).toBeNull()
  })

  it('is never a default', () => {
    for (const groups of [[], ['Everybody'], ['*'], [' ops x']]) expect(granted({ groups })).toBeUndefined()
  })

  it('by mail address needs one that the provider verified', () => {
    const email = 'eva@example.com'
    expect(granted({ email, email_verified: true })).toEqual({ role: 'admin', by: 'Eva@Example.com', team: null })
    for (const verified of [undefined, false, 'false', 'yes', 1]) {
      expect(
        granted({ email, ...(verified === undefined ? {} : { email_verified: verified }) }),
        String(verified),
      ).toBeUndefined()
    }
  })

  it('by mail address compares what the provider verified, exactly', () => {
    const email = 'bosk@example.com'
    const one = [{ email, role: 'admin' as const }]
    const by = (...sources: Record<string, unknown>[]) => roleOf(one, describe(sources as never, 'groups'))
    expect(by({ sub: 'x', email: 'BOSK@example.com', email_verified: 'true' })).toBeDefined()
    expect(by({ sub: 'x', email }, { sub: 'x', email: 'else@example.com', email_verified: true })).toBeUndefined()
    for (const like of ['\u200bbosk@example.com', 'bos\u212a@example.com', ' bosk@example.com', 'bosk@example.com\n']) {
      expect(by({ sub: 'x', email: like, email_verified: true }), JSON.stringify(like)).toBeUndefined()
    }
  })

  it.each<[string, Record<string, unknown>, string]>([
    ['omitted', { hasgroups: true }, 'left your groups out'],
    ['cut off', { groups: many(100) }, 'may be cut off'],
    ['missing', {}, 'sends no claim groups'],
    ['of an unverified mail address', { email: 'eva@example.com' }, 'mail address is verified'],
    ['others', { groups: ['x'] }, 'None of your groups has a role'],
  ])('that is refused says why: groups %s', (_, claims, sentence) => {
    expect(refusalOf(mappings, person(claims), 'groups')).toContain(sentence)
  })

  it('that is refused before there is a table says so', () => {
    expect(refusalOf([], person({ groups: ['x'] }), 'groups')).toContain('No group has a role yet')
  })
})
