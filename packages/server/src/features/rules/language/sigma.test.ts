import { describe, expect, test } from 'vitest'
import { logged } from '../../../testing/rules.ts'
import type { RuleEvent } from './fields.ts'
import { parseRules } from './rule.ts'
import { ruleStates, step } from './rule-state.ts'
import { exportSigma } from './sigma-export.ts'
import { importSigma } from './sigma-import.ts'
import { ValueMemory } from './value-memory.ts'

// The correlations have the form of the examples in the Sigma correlation specification, which is public domain
// (SigmaHQ/sigma-specification, sigma-correlation-rules-specification.md, version 2.1.0), in other words.

const blocked = `
title: Blocked connection
id: 11111111-2222-4333-8444-555555555555
name: blocked
logsource: {category: firewall}
detection:
  selection: {action: block}
  condition: selection
`
const commands = ['whoami', 'ipconfig', 'netstat']
  .map(
    (command) => `
title: Command ${command}
name: ran_${command}
logsource: {product: windows, category: process_creation}
detection:
  selection_command: {CommandLine|contains: ${command}}
  filter_admin: {User|startswith: 'svc-'}
  condition: selection_command and not 1 of filter_*
level: low
`,
  )
  .join('---')

const bruteForce = `
title: Guessed password
id: aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee
status: experimental
description: Many failed logins of a user, then one that succeeds
author: A. Author
date: 2026-01-01
correlation:
  type: temporal_ordered
  rules: [many_failures, success]
  group-by: [User]
  timespan: 10m
falsepositives: [Unlikely]
level: high
---
title: Many failures
name: many_failures
correlation:
  type: event_count
  rules: [failure]
  group-by: [User]
  timespan: 10m
  condition: {gte: 10}
---
title: Failure
name: failure
logsource: {product: windows, service: security}
detection:
  selection:
    EventID: [529, 4625]
  condition: selection
---
title: Success
name: success
logsource: {product: windows, service: security}
detection:
  selection:
    EventID: [528, 4624]
  condition: selection
`

function imported(...texts: string[]) {
  const result = importSigma(texts.map((text, index) => ({ name: `${index + 1}.yml`, text })))
  expect(result.faults).toEqual([])
  return { ...result, text: result.rules.map(({ text }) => text).join('---\n') }
}

/** The events at which the last rule of a text fires. */
function firedAt(text: string, events: readonly RuleEvent[]): number[] {
  const { rules, faults } = parseRules(text)
  expect(faults).toEqual([])
  const { rule } = rules.at(-1)!
  const state = ruleStates.start(rule)
  const history = new ValueMemory()
  return events.flatMap((event) => step(rule, state, event, history).map(({ seq }) => seq))
}

/** As imported, and as exported and imported again. */
function firedBothWays(text: string, events: readonly RuleEvent[]): number[] {
  const exported = exportSigma(text)
  expect(exported.faults).toEqual([])
  const once = firedAt(text, events)
  expect(firedAt(imported(exported.text).text, events)).toEqual(once)
  return once
}

const log = (metadata: Record<string, unknown>[], wait = 1_000) =>
  metadata.map((each, index) => logged({ seq: index + 1, at: index * wait, metadata: each }))

describe('Sigma correlations are imported and run:', () => {
  test('event_count: 100 blocked connections of a host within an hour', () => {
    const { text } = imported(
      blocked,
      `
title: Many blocked
correlation:
  type: event_count
  rules: [11111111-2222-4333-8444-555555555555]
  group-by: [ComputerName]
  timespan: 1h
  condition: {gte: 100}
`,
    )
    const events = log(
      Array.from({ length: 300 }, (_, index) => ({ action: 'BLOCK', ComputerName: `host-${index % 2}` })),
    )
    expect(firedBothWays(text, events)).toEqual([199, 200])
    expect(
      firedBothWays(
        text,
        log(
          events.map(({ row }) => row.metadata!),
          60_000,
        ),
      ),
    ).toEqual([])
  })

  test('value_count: more than three users from one computer to another', () => {
    const { text } = imported(
      blocked,
      `
title: Many users
correlation:
  type: value_count
  rules: [blocked]
  group-by: [ComputerName, WorkstationName]
  timespan: 1d
  condition: {field: User, gt: 3}
`,
    )
    const users = ['a', 'b', 'a', 'c', 'c', 'd', 'e']
    const events = log(users.map((User) => ({ action: 'block', ComputerName: 'x', WorkstationName: 'y', User })))
    expect(firedBothWays(text, events)).toEqual([6])
  })

  test.each([
    ['temporal', ['netstat', 'whoami', 'whoami', 'ipconfig'], [4]],
    ['temporal_ordered', ['netstat', 'whoami', 'ipconfig', 'netstat'], [4]],
    ['temporal_ordered', ['netstat', 'ipconfig', 'whoami'], []],
  ])('%s: %j by one user on one computer', (type, ran, expected) => {
    const { text } = imported(
      commands,
      `
title: Reconnaissance
correlation:
  type: ${type}
  rules: [ran_whoami, ran_ipconfig, ran_netstat]
  group-by: [ComputerName, User]
  timespan: 5m
`,
    )
    const by = (User: string) =>
      log(ran.map((command) => ({ CommandLine: `cmd /c ${command}`, ComputerName: 'x', User })))
    expect(firedBothWays(text, by('eve'))).toEqual(expected)
    expect(firedBothWays(text, by('svc-backup'))).toEqual([])
    expect(
      firedBothWays(
        text,
        log(
          by('eve').map(({ row }) => row.metadata!),
          160_000,
        ),
      ),
    ).toEqual([])
  })

  test('a chain: many failed logins, then one that succeeds', () => {
    const { text, notes } = imported(bruteForce)
    const failure = { EventID: 4625, User: 'eve' }
    const success = { EventID: 4624, User: 'eve' }
    expect(firedBothWays(text, log([...Array(10).fill(failure), success]))).toEqual([11])
    expect(firedBothWays(text, log([...Array(9).fill(failure), success]))).toEqual([])
    expect(firedBothWays(text, log([success, ...Array(10).fill(failure)]))).toEqual([])
    expect(firedBothWays(text, log([...Array(10).fill(failure), { ...success, User: 'bob' }]))).toEqual([])
    expect(notes).toContain('Failure: EventID is read as metadata.EventID.')
    expect(notes).toContain('Success: logsource is not supported; the rule checks every event.')
    const { document } = parseRules(text).rules[0]!.rule
    expect(document).toMatchObject({
      id: 'aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee',
      mode: 'observe',
      severity: 'critical',
    })
  })
})

test('aliases find a value in other fields of the events of other rules', () => {
  const text = `
title: An address that failed, then connected
correlation:
  type: temporal_ordered
  rules: [failed, connected]
  group-by: [ip, User]
  timespan: 1m
  aliases:
    ip: {failed: destination.ip, connected: source.ip}
---
title: Failed
name: failed
detection: {a: {Status: 500}, b: {destination.ip|exists: true}, condition: a and b}
---
title: Connected
name: connected
detection: {selection: {Kind: connection}, condition: selection}
`
  const failed = { Status: 500, User: 'eve', destination: { ip: 'x' } }
  const connected = (ip: string) => ({ Kind: 'connection', User: 'eve', source: { ip } })
  const ours = imported(text).text
  expect(firedBothWays(ours, log([failed, connected('y'), connected('x')]))).toEqual([3])
  expect(firedBothWays(ours, log([failed, { ...connected('x'), User: 'bob' }]))).toEqual([])
})

test('a rule alone keeps its selections, and a list of conditions means one of them', () => {
  const text = `
title: Alone
detection:
  a: {event_type: tool_call, tags: env:prod}
  b: {Image|endswith: '\\\\evil.exe'}
  condition: [a, b]
level: medium
`
  const { text: ours } = imported(text)
  expect(parseRules(ours).rules[0]!.rule.document).toMatchObject({
    severity: 'warning',
    detection: {
      a: { event_type: 'tool_call', tags: 'env:prod' },
      b: { 'metadata.Image|endswith': '\\\\evil.exe' },
      condition: 'a or b',
    },
  })
})

test('rules of a correlation are printed by themselves only where it asks for that', () => {
  const count = (generate: string) => `
title: Many
correlation: {type: event_count, rules: [blocked], timespan: 5m, condition: {gte: 5}}
${generate}`
  expect(parseRules(imported(blocked, count('')).text).rules).toHaveLength(1)
  expect(parseRules(imported(blocked, count('generate: true')).text).rules).toHaveLength(2)
})

describe('what is not supported is refused by name and place:', () => {
  const base = (detection: string) => `title: x\nname: x\ndetection:\n${detection}\n`
  const correlation = (lines: string) => `${blocked}---\ntitle: y\ncorrelation:\n${lines}\n`
  test.each([
    [
      base('  a: {Image|expand: "%x%"}\n  condition: a'),
      '1.yml:4:7 There is no list x: `wardline lists create x` creates it',
    ],
    [base('  a: {Image|base64: "a*b"}\n  condition: a'), '1.yml:4:7 base64 needs a text without wildcards.'],
    [base('  a: {Image|fieldref: [x]}\n  condition: a'), '1.yml:4:7 fieldref needs the name of a field.'],
    [base('  a: [null]\n  condition: a'), '1.yml:4:3 A selection is a map of fields, a keyword'],
    [base('  a: {Image: x}\n  condition: a | count() > 5'), '1.yml:5:16 Aggregations after |'],
    [base('  a: {Image: x}\n  timeframe: 5m\n  condition: a'), '1.yml:5:3 timeframe is not supported'],
    ['title: x\nfilter: {rules: [x], a: {Image: x}, condition: a}\n', '1.yml:2:18 The rule x is in none of the files.'],
    ['title: x\naction: global\n', '1.yml:2:1 Collections by action are not supported'],
    [
      correlation('  type: value_median\n  rules: [blocked]\n  timespan: 5m'),
      ':12:3 Correlations of type value_median are not supported',
    ],
    [
      correlation('  type: temporal\n  rules: [blocked, nobody]\n  timespan: 5m'),
      'The rule nobody is in none of the files.',
    ],
    [
      correlation('  type: temporal\n  rules: [blocked]\n  timespan: 5m\n  aliases: {ip: source}'),
      'aliases is a map of names, each a map of rules to fields.',
    ],
    [
      correlation('  type: temporal\n  rules: [blocked]\n  timespan: 2w'),
      'timespan is a whole number followed by s, m, h or d, not 2w.',
    ],
    [
      correlation('  type: event_count\n  rules: [blocked]\n  timespan: 5m\n  condition: {neq: 5}'),
      'With neq alone the count passes every other number',
    ],
    [`${blocked}---${blocked}`, 'blocked names two rules.'],
    ['title: y\nname: y\ncorrelation: {type: temporal, rules: [y], timespan: 5m}\n', 'refer to each other'],
  ])('%#', (text, expected) => {
    const { faults, rules } = importSigma([{ name: '1.yml', text }])
    expect(
      faults.map(({ file, line, column, sentence }) => `${file}:${line}:${column} ${sentence}`).join('\n'),
    ).toContain(expected)
    // Only the rule that the correlation names may be converted.
    expect(rules.map(({ title }) => title).filter((title) => title !== 'Blocked connection')).toEqual([])
  })

  test('correlations that name each other', () => {
    const text = ['a', 'b']
      .map(
        (name, index) =>
          `title: ${name}\nname: ${name}\ncorrelation: {type: event_count, rules: [${['b', 'a'][index]}], timespan: 5m, condition: {gte: 2}}\n`,
      )
      .join('---\n')
    expect(importSigma([{ name: '1.yml', text }]).faults.length).toBeGreaterThan(0)
  })

  test('new_value is no correlation of Sigma, and what Sigma does not support is named', () => {
    const rule = { title: 'x', severity: 'info', detection: { a: { event_type: 'x' }, condition: 'a' } }
    const newValue = { ...rule, correlation: { type: 'new_value', field: 'tool', timespan: '7d' } }
    expect(exportSigma(JSON.stringify(newValue)).faults.map(({ sentence }) => sentence)).toEqual([
      'Sigma has no correlation of type new_value.',
    ])
    const responding = { ...rule, response: [{ action: 'suspend' }], cooldown: '5m' }
    expect(exportSigma(JSON.stringify(responding)).notes).toEqual([
      'x: Sigma does not support response, cooldown: left out.',
    ])
  })
})

describe('a folder of Sigma rules', () => {
  const rule = (name: string, detection: string, more = '') =>
    `title: ${name}\nid: 00000000-0000-4000-8000-00000000000${name.length}\nlogsource: {product: linux}\n${more}detection: ${detection}\nlevel: high\n`

  test('is converted file by file, and what was changed is said', () => {
    const texts = [
      rule('One', '{a: {Details|contains: 00000429}, condition: a}', 'regression_tests_path: x\nsimulation: {a: b}\n'),
      rule('Broken', '{a: {Image|expand: "%x%"}, condition: a}'),
      rule('Three', '{a: {event_type: login}, "select.it": {User|fieldref: Owner}, condition: a and select.it}'),
    ]
    const { rules, faults, notes } = importSigma(texts.map((text, index) => ({ name: `${index + 1}.yml`, text })))
    expect(rules.map(({ title }) => title)).toEqual(['One', 'Three'])
    expect(faults).toMatchObject([{ file: '2.yml', sentence: expect.stringContaining('There is no list x') }])
    expect(rules[0]!.text).toContain('metadata.Details|contains: "00000429"')
    expect(rules[1]!.text).toContain('condition: a and select_it')
    expect(rules[1]!.text).toContain('metadata.User|fieldref: metadata.Owner')
    expect(notes).toContain('One: regression_tests_path, simulation: left out, as no part of Sigma.')
    expect(notes).toContain("Three: event_type is a field of Wardline's events.")
  })

  test('has filters that become part of the rules that they name', () => {
    const filter = `title: Admins\nlogsource: {product: linux}\nfilter:\n  rules: [00000000-0000-4000-8000-000000000003]\n  admin: {User|startswith: adm_}\n  condition: not admin\n`
    const { text, notes } = imported(rule('One', '{a: {Image: x}, condition: a}'), filter)
    const events = log([
      { Image: 'x', User: 'bob' },
      { Image: 'x', User: 'adm_1' },
    ])
    expect(firedAt(text, events)).toEqual([1])
    expect(notes).toContain('One: the filter Admins is part of it.')
  })
})

// Readers of YAML 1.1 take these for booleans, dates and numbers.
test('exported texts stay texts for readers of YAML 1.1', () => {
  const values = ['no', 'on', '2026-01-05', '1:30', '1_000', '~']
  const rule = { title: 'x', severity: 'info', detection: { a: { 'metadata.a': values }, condition: 'a' } }
  const { text } = exportSigma(JSON.stringify(rule))
  for (const value of values) expect(text).toMatch(new RegExp(`["']${value}["']`))
})

test('what only Wardline can say is refused by the export', () => {
  const rule = (detection: object) => JSON.stringify({ title: 'x', severity: 'info', detection })
  expect(exportSigma(rule({ a: { 'metadata.hosts|domain': 'evil.example' }, condition: 'a' })).faults).toMatchObject([
    { sentence: 'Sigma has no modifier domain.' },
  ])
})
