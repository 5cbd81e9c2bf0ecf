import type { ExceptionBody } from '@wardline/contract'
import { expect, test } from 'vitest'
import { withException } from './exception-text.ts'
import { readRule } from './rule-text.ts'

const added = (text: string, body: ExceptionBody): string => {
  const result = withException(text, readRule(text).rule.document, body)
  readRule(result)
  return result
}
const until = '2027-01-31'
const agents = { exception: { who: { instances: ['build-1'] }, reason: 'Builds: it "runs" shells', until } }
const entry = '{ "who": { "instances": ["build-1"] }, "reason": "Builds: it \\"runs\\" shells", "until": "2027-01-31" }'
const filter = (selection: string, fields: Record<string, string>) => ({ filter: { selection, fields } })

const rule = `# Of the team
title: Reads # a comment
severity: warning
detection:
  read:
    tool: read
  other: { tool: x }
  # The condition
  condition: read or other
`

test('adds agents to a rule without exceptions, and leaves the rest as it was written', () => {
  expect(added(rule, agents)).toBe(`${rule}exceptions:\n  - ${entry}\n`)
  const tested = `${rule}tests:\n  match:\n    - - { metadata: { tool: read } }\n  no_match:\n    - - {}\n`
  expect(added(tested, agents)).toBe(tested.replace('tests:', `exceptions:\n  - ${entry}\ntests:`))
})

test.each([
  [
    'exceptions:\n  - who: { tags: [a:b] }\n    reason: x\n    until: 2027-01-01\nresponse:\n  - { action: alert }\n',
    `    until: 2027-01-01\n  - ${entry}\nresponse:`,
  ],
  [
    'exceptions: [{ who: { tags: [a:b] }, reason: x, until: 2027-01-01 }] # few\n',
    `until: 2027-01-01 }, ${entry}] # few\n`,
  ],
  ['exceptions: [] # none\n', `exceptions: [${entry}] # none\n`],
])('adds agents after the exceptions of %j', (more, expected) => {
  expect(added(`${rule}${more}`, agents)).toContain(expected)
})

test('adds a filter to the conditions that name the selection', () => {
  const text = added(rule, filter('read', { instance_id: 'a', 'metadata.hosts': 'x*.example' }))
  expect(text).toBe(
    rule.replace(
      'condition: read or other',
      '_filter_1: { "instance_id": "a", "metadata.hosts": "x\\\\*.example" }\n  condition: (read or other) and not _filter_1',
    ),
  )
  const twice = added(text, filter('other', { source: 'b' }))
  expect(twice).toContain('condition: (read or other) and not _filter_1 and not _filter_2')
})

test('adds a filter to steps of a correlation, in any style of YAML', () => {
  const detection = 'detection:\n  a: { tool: a }\n  b: { tool: b }\n'
  const head = `title: T\nseverity: info\n${detection}`
  const steps = `correlation:\n  type: temporal\n  timespan: 5m\n  rules:\n    - "a"\n    - b\n`
  expect(added(head + steps, filter('a', { source: 's' }))).toContain(
    '  _filter_1: { "source": "s" }\n  a: { tool: a }\n  b: { tool: b }\ncorrelation:\n  type: temporal\n  timespan: 5m\n  rules:\n    - "a and not _filter_1"\n    - b\n',
  )
  const folded = `title: T\nseverity: info\n${detection}  condition: >-\n    a or\n    b\n`
  expect(added(folded, filter('b', { source: 's' }))).toContain('condition: (a or b) and not _filter_1\n')
})

test('adds both to a rule in JSON', () => {
  const document = { title: 'T', severity: 'info', detection: { a: { tool: 'a' }, condition: 'a' } }
  for (const space of [0, 2]) {
    const text = added(added(JSON.stringify(document, null, space), agents), filter('a', { source: 's' }))
    expect(JSON.parse(text)).toEqual({
      ...document,
      exceptions: [agents.exception],
      detection: { a: { tool: 'a' }, _filter_1: { source: 's' }, condition: 'a and not _filter_1' },
    })
  }
})

test('refuses what it cannot write', () => {
  const all = rule.replace('read or other', 'all of *')
  expect(() => added(all, filter('read', { source: 's' }))).toThrow('names all selections by a pattern')
  expect(() => added(rule, filter('nothing', { source: 's' }))).toThrow('No condition of the rule names')
  expect(() => added(rule, {})).toThrow('either exception or filter')
  // It would end the rule, or hide an agent without reason and end.
  expect(() => added(rule, filter('read', { instance_id: 'a', tool: 'read' }))).toThrow(
    'Every event that read matches has tool: read: except the agent, with a reason and an end, or switch the rule off.',
  )
  expect(() => added(added(rule, agents), agents)).toThrow('has this exception already')
})

// Values come from agents: none may leave its place in the text.
test.each(['": x\n  evil: 1', '\u2028\u0085\ufeff', "'}, b: [", '\\', '{{ }} # ', '*a?', '\0', '1.0', 'null'])(
  'keeps %j a value',
  (value) => {
    const text = added(rule, filter('read', { 'metadata.command': value }))
    const { detection } = readRule(text).rule.document
    expect(detection._filter_1).toEqual({ 'metadata.command': value.replace(/[*?\\]/g, '\\$&') })
  },
)
