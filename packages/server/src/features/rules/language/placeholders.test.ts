import { listLimits } from '@wardline/contract'
import { describe, expect, test } from 'vitest'
import { effort } from '../../../../../../test-servers/effort.ts'
import { compiled, logged } from '../../../testing/rules.ts'
import { explainMatch } from './explain.ts'
import { exportSigma, importSigma, lintRules, testRules } from './offline.ts'
import { parseRules } from './rule.ts'
import { ruleStates, step } from './rule-state.ts'
import { ValueMemory } from './value-memory.ts'

type Lists = Record<string, string[]>

function fires(detection: object, metadata: Record<string, unknown>, lists: Lists): boolean {
  const rule = compiled({ detection }, lists)
  return step(rule, ruleStates.start(rule), logged({ metadata }), new ValueMemory()).length > 0
}
/** Whether a selection of one field matches metadata with `a`. */
const matches = (field: string, value: unknown, a: unknown, lists: Lists): boolean =>
  fires({ one: { [field]: value }, condition: 'one' }, { a }, lists)

const refused = (detection: object, lists: Lists = {}): string =>
  parseRules(JSON.stringify({ title: 'x', severity: 'info', detection }), 1, new Map(Object.entries(lists)))
    .faults.map(({ sentence }) => sentence)
    .join(' ')
const refusedField = (field: string, value: unknown, lists?: Lists): string =>
  refused({ one: { [field]: value }, condition: 'one' }, lists)

describe('expand', () => {
  const lists: Lists = { admins: ['root', 'Bob'], 'dc-names': ['DC1', 'DC2'], nets: ['10.0.0.0/8', '2001:db8::/32'] }

  test.each<[string, unknown, unknown, boolean]>([
    // The form of the specification's examples: a name between percent signs, alone.
    ['metadata.a|expand', '%admins%', 'ROOT', true],
    ['metadata.a|expand', '%Admins%', 'bob', true],
    ['metadata.a|expand', '%admins%', 'roots', false],
    ['metadata.a|expand', '%admins%', '%admins%', false],
    ['metadata.a|expand', '%admins%', ['alice', 'bob'], true],
    ['metadata.a|expand', '%admins%', undefined, false],
    ['metadata.a|expand', ['%admins%', 'eve'], 'eve', true],
    ['metadata.a|expand', ['%admins%', '%dc-names%'], 'dc2', true],
    // Within a longer value, and several in one.
    ['metadata.a|expand', 'C:\\%admins%\\x', 'c:\\bob\\x', true],
    ['metadata.a|expand', 'C:\\%admins%\\x', 'c:\\eve\\x', false],
    ['metadata.a|expand', '%dc-names%\\%admins%', 'dc2\\root', true],
    ['metadata.a|expand', '%dc-names%\\%admins%', 'dc3\\root', false],
    ['metadata.a|expand', '*\\%admins%?', 'x\\root!', true],
    // Percent signs that name no list stay.
    ['metadata.a|expand', '100% %admins%', '100% bob', true],
    ['metadata.a|contains|expand', '%admins%', 'xx root xx', true],
    ['metadata.a|expand|contains', '-u %admins% ', 'sudo -u bob ls', true],
    ['metadata.a|startswith|expand', '%admins%@', 'root@host', true],
    ['metadata.a|startswith|expand', '%admins%@', 'x root@host', false],
    ['metadata.a|endswith|expand', '%admins%', 'uid=root', true],
    ['metadata.a|expand|cased', '%admins%', 'Bob', true],
    ['metadata.a|expand|cased', '%admins%', 'bob', false],
    ['metadata.a|expand|neq', '%admins%', 'eve', true],
    ['metadata.a|expand|neq', '%admins%', 'root', false],
    ['metadata.a|cidr|expand', '%nets%', '10.1.2.3', true],
    ['metadata.a|cidr|expand', '%nets%', '2001:db8::1', true],
    ['metadata.a|cidr|expand', '%nets%', '11.1.2.3', false],
    // Each of the values, by any entry of its list.
    ['metadata.a|contains|all|expand', ['%admins%', '%dc-names%'], 'bob on dc1', true],
    ['metadata.a|contains|all|expand', ['%admins%', '%dc-names%'], 'bob on dc3', false],
    ['metadata.a|contains|all|expand', ['%admins%', '%dc-names%'], 'bob and root', false],
    ['metadata.a|base64offset|contains|expand', '%dc-names%', Buffer.from('to DC2!').toString('base64'), true],
    ['metadata.a|contains|windash|expand', ' -u %admins%', 'x /u root', true],
    ['|expand', ['%admins%'], { deep: ['who is bob'] }, true],
  ])('%s: %j for %j is %s', (field, value, a, expected) => {
    expect(matches(field, value, a, lists)).toBe(expected)
  })

  test('host and domain take the hosts of a list', () => {
    const hosts = { hosts: ['files.example', '169.254.169.254'], domains: ['corp.example'] }
    expect(matches('metadata.a|host|expand', '%hosts%', 'https://FILES.example:8443/x', hosts)).toBe(true)
    expect(matches('metadata.a|host|expand', '%hosts%', 'a.files.example', hosts)).toBe(false)
    expect(matches('metadata.a|domain|expand', ['%domains%', 'x.example'], 'git.corp.example', hosts)).toBe(true)
    expect(matches('metadata.a|domain|expand', ['%domains%', 'x.example'], 'notcorp.example', hosts)).toBe(false)
    expect(refusedField('metadata.a|host|expand', '%hosts%', { hosts: ['a/b'] })).toMatch(/^host needs .* not a\/b\./)
  })

  // An entry of an allow list that had wildcards would allow what nobody entered.
  test.each<[string, string, string, boolean]>([
    ['*', '%l%', 'anything', false],
    ['*', '%l%', '*', true],
    ['a?c', '%l%', 'abc', false],
    ['a?c', '%l%', 'a?c', true],
    ['a*c\\', '%l%', 'a*c\\', true],
    ['\\*', '%l%', '\\*', true],
    ['\\*', '%l%', '*', false],
    // The backslash before the name must not escape the one that escapes the entry.
    ['*', 'C:\\%l%', 'c:\\anything', false],
    ['*', 'C:\\%l%', 'c:\\*', true],
    ['?', 'C:\\\\%l%', 'c:\\x', false],
    ['\\share', '\\%l%', '\\\\share', true],
    ['a\\', '%l%*', 'a\\b', true],
    ['%l%', 'x%l%', 'x%l%', true],
  ])('the entry %j in %j is text: it matches %j: %s', (entry, value, given, expected) => {
    expect(matches('metadata.a|expand', value, given, { l: [entry] })).toBe(expected)
  })

  test('the text of an entry alone is compared, in any value', () => {
    const signs = ['a', '*', '?', '\\', '%', 'b']
    let seed = 7
    const random = (max: number) => {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31
      return seed % max
    }
    const text = (length: number) => Array.from({ length }, () => signs[random(signs.length)]).join('')
    for (let round = 0; round < effort(600, 30_000); round += 1) {
      const [entry, given] = [text(1 + random(3)), text(random(5))]
      const prefix = text(random(3)).replaceAll('%', '').replaceAll(/[*?]/g, 'a')
      // Of two backslashes in the value one is left, as in any value.
      const before = prefix.replaceAll(/\\\\/g, '\\')
      expect(matches('metadata.a|expand', `${prefix}%l%`, before + entry, { l: [entry] }), `${prefix} ${entry}`).toBe(
        true,
      )
      expect(matches('metadata.a|expand', `${prefix}%l%`, given, { l: [entry] }), `${prefix} ${entry} ${given}`).toBe(
        given === before + entry,
      )
    }
  })

  test('an empty list matches nothing, so that not in it is everything', () => {
    expect(matches('metadata.a|expand', '%l%', 'x', { l: [] })).toBe(false)
    expect(matches('metadata.a|expand|neq', '%l%', 'x', { l: [] })).toBe(true)
    expect(matches('metadata.a|contains|all|expand', ['%l%', 'x'], 'x', { l: [] })).toBe(false)
    expect(matches('metadata.a|cidr|expand', '%l%', '10.0.0.1', { l: [] })).toBe(false)
    expect(matches('metadata.a|domain|expand', ['%l%', 'b.example'], 'b.example', { l: [] })).toBe(true)
  })

  // Selections are shared between rules by their text.
  test('a rule that is compiled after a change has the new entries, and the other one the old', () => {
    const document = { detection: { one: { 'metadata.a|expand': '%l%' }, condition: 'one' } }
    const [before, after] = [compiled(document, { l: ['x'] }), compiled(document, { l: ['y'] })]
    const event = logged({ metadata: { a: 'y' } })
    expect(before.predicates[0]!.matches(event)).toBe(false)
    expect(after.predicates[0]!.matches(event)).toBe(true)
  })

  test('an event type in a list is found by the index of types', () => {
    const rule = compiled({ detection: { one: { 'event_type|expand': '%t%' }, condition: 'one' } }, { t: ['Login'] })
    expect([...rule.predicates[0]!.names]).toEqual(['login'])
  })

  test.each<[string, unknown, RegExp, Lists?]>([
    ['metadata.a|expand', '%hosts%', /^There is no list hosts: `wardline lists create hosts` creates it; /],
    ['metadata.a|expand', 'x', /^expand needs the name of a list between percent signs, such as %allowed-hosts%\.$/],
    ['metadata.a|expand', '% x %', /^expand needs/],
    ['metadata.a|re|expand', '%l%', /^The modifiers re and expand cannot be combined\./],
    ['metadata.a|gt|expand', '%l%', /^The modifiers gt and expand/],
    ['metadata.a|exists|expand', '%l%', /^The modifiers exists and expand/],
    ['metadata.a|fieldref|expand', '%l%', /^The modifiers fieldref and expand/],
    ['time|hour|expand', '%l%', /^The modifiers hour and expand/],
    ['metadata.a|expand', `${'x'.repeat(990)}%l%`, /^A value has at most 1000 characters\./, { l: ['x'.repeat(20)] }],
    ['metadata.a|contains|expand', '%l%', /^A rule has at most 2000 values with contains/, { l: many(2_001) }],
  ])('%s: %j is refused: %s', (field, value, sentence, given) => {
    expect(refusedField(field, value, given)).toMatch(sentence)
  })

  // Two lists in one value multiply: without a limit, 3,000 times 3,000 values fill the heap.
  test('a rule uses at most 10,000 entries, each use counted', () => {
    const l = many(listLimits.entries)
    const selections = Object.fromEntries([1, 2, 3].map((n) => [`s${n}`, { [`metadata.a${n}|expand`]: '%l%' }]))
    expect(refused({ ...selections, condition: '1 of s*' }, { l })).toBe('')
    const more = { ...selections, s4: { 'metadata.b|expand': '%l%' }, condition: '1 of s*' }
    expect(refused(more, { l })).toBe('The lists of a rule have at most 10000 entries, each use counted.')
    const began = performance.now()
    expect(refusedField('metadata.a|expand', '%l%%l%%l%', { l })).toMatch(/at most 10000 entries/)
    expect(performance.now() - began).toBeLessThan(1_000)
  })

  // Each rule has its own copy: 500 rules with 10,000 entries each would take more than a gigabyte.
  test('entries beyond the first 1,000 of a rule count for their memory, whatever compares them', () => {
    const costOf = (count: number) =>
      compiled({ detection: { one: { 'event_type|expand': '%l%' }, condition: 'one' } }, { l: many(count) }).cost
    expect(costOf(1_000)).toBe(costOf(1))
    expect(costOf(3_000) - costOf(1_000)).toBe(2_000 * 300)
  })

  test('explanations mark what an entry matched', () => {
    const rule = compiled(
      { detection: { one: { 'metadata.a|contains|expand': ['no', 'cat %l%'] }, condition: 'one' } },
      { l: ['x', '/etc/*'] },
    )
    expect(explainMatch(rule, logged({ metadata: { a: 'now cat /etc/* | sh' } }))).toMatchObject([
      { field: 'metadata.a', start: 0, end: 2 },
    ])
    expect(explainMatch(rule, logged({ metadata: { a: 'do cat /etc/* | sh' } }))).toMatchObject([
      { field: 'metadata.a', start: 3, end: 13 },
    ])
  })
})

function many(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `entry ${index}`)
}

describe('rules in files', () => {
  const text = `title: Other host
severity: warning
detection:
  call: { event_type: tool_call, metadata.hosts|exists: true }
  known: { metadata.hosts|domain|expand: '%Known-Hosts%' }
  condition: call and not known
tests:
  match: [[{ event_type: tool_call, metadata: { hosts: [evil.example] } }]]
  no_match: [[{ event_type: tool_call, metadata: { hosts: [git.corp.example] } }]]
`
  const lists = new Map([['known-hosts', ['corp.example']]])

  test('are checked and tested with lists', () => {
    expect(lintRules(text, 0, lists).faults).toEqual([])
    expect(testRules(text, lists)).toMatchObject({ rules: [{ passed: 2, failed: [] }], faults: [] })
    expect(lintRules(text).faults).toMatchObject([
      { line: 5, sentence: expect.stringContaining('no list known-hosts') },
    ])
  })

  test('are exported with the names of the lists that they need, and imported with these lists only', () => {
    const { text: sigma, notes, faults } = exportSigma(text.replace('|domain', ''))
    expect(faults).toEqual([])
    expect(notes).toContain('Other host: needs the lists known-hosts.')
    expect(sigma).toContain('metadata.hosts|expand')
    expect(importSigma([{ name: 'a.yml', text: sigma }]).faults).toMatchObject([
      { file: 'a.yml', sentence: expect.stringContaining('There is no list known-hosts') },
    ])
    const imported = importSigma([{ name: 'a.yml', text: sigma }], lists)
    expect(imported.faults).toEqual([])
    expect(imported.rules[0]!.text).toContain('%Known-Hosts%')
  })
})
