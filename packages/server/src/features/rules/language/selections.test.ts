import { ruleLimits } from '@wardline/contract'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { effort } from '../../../../../../test-servers/effort.ts'
import { compiled, faultsOf, logged } from '../../../testing/rules.ts'
import type { RuleEvent } from './fields.ts'
import { ruleStates, step } from './rule-state.ts'
import { ValueMemory } from './value-memory.ts'

const fires = (detection: object, event: RuleEvent, more: object = {}): boolean => {
  const rule = compiled({ detection, ...more })
  return step(rule, ruleStates.start(rule), event, new ValueMemory()).length > 0
}
/** Whether a selection of one field matches metadata with `a`. */
const matches = (field: string, value: unknown, a: unknown): boolean =>
  fires({ one: { [field]: value }, condition: 'one' }, logged({ metadata: { a } }))

// The interpreter: slow, and written from the specification without a look at the compiled one.

type Value = string | number | boolean | null
type Selection = Record<string, Value | Value[]>
type Ast = { name: string } | { not: Ast } | { join: 'and' | 'or'; left: Ast; right: Ast }

/** A value of Sigma as a regular expression. */
function expressionOf(value: string, before: string, after: string): RegExp {
  let source = ''
  for (let at = 0; at < value.length; at += 1) {
    const isEscape = value[at] === '\\' && '*?\\'.includes(value[at + 1] ?? 'x')
    if (isEscape) at += 1
    if (value[at] === '*' && !isEscape) source += '.*'
    else if (value[at] === '?' && !isEscape) source += '.'
    else source += value.slice(at, at + 1).replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')
  }
  return new RegExp(`^${before}${source}${after}$`, 'isu')
}

function fieldOf(event: RuleEvent, name: string): unknown {
  if (name === 'tags') return event.tags.length === 0 ? undefined : event.tags
  if (!name.startsWith('metadata.')) return (event.row as Record<string, unknown>)[name] ?? undefined
  let value: unknown = event.row.metadata
  for (const part of name.split('.').slice(1)) {
    if (typeof value !== 'object' || value === null) return undefined
    value = Object.getOwnPropertyDescriptor(value, part)?.value
  }
  return value
}

function isOne(given: unknown, modifier: string, value: Value): boolean {
  if (Array.isArray(given)) return given.some((each) => isOne(each, modifier, value))
  if (given === null || given === undefined || typeof given === 'object') return false
  const text = String(value)
  switch (modifier) {
    case 'contains':
      return expressionOf(text, '.*', '.*').test(String(given))
    case 'startswith':
      return expressionOf(text, '', '.*').test(String(given))
    case 'endswith':
      return expressionOf(text, '.*', '').test(String(given))
    case 're':
      return new RegExp(text, 'u').test(String(given))
    case 'gt':
      return typeof given === 'number' && given > Number(value)
    case 'lte':
      return typeof given === 'number' && given <= Number(value)
    default:
      return expressionOf(text, '', '').test(String(given))
  }
}

function interpretSelection(selection: Selection, event: RuleEvent): boolean {
  return Object.entries(selection).every(([key, value]) => {
    const [name = '', modifier = '', ...others] = key.split('|')
    const given = fieldOf(event, name)
    if (modifier === 'exists') return (given !== undefined) === value
    if (value === null) return given === undefined || given === null
    const values = [value].flat() as Value[]
    const isAll = modifier === 'all' || others.includes('all')
    return isAll
      ? values.every((each) => isOne(given, modifier, each))
      : values.some((each) => isOne(given, modifier, each))
  })
}

function interpret(ast: Ast, detection: Record<string, Selection | Selection[]>, event: RuleEvent): boolean {
  if ('name' in ast) return [detection[ast.name]!].flat().some((map) => interpretSelection(map, event))
  if ('not' in ast) return !interpret(ast.not, detection, event)
  const left = interpret(ast.left, detection, event)
  const right = interpret(ast.right, detection, event)
  return ast.join === 'and' ? left && right : left || right
}

const printed = (ast: Ast): string =>
  'name' in ast
    ? ast.name
    : 'not' in ast
      ? `not (${printed(ast.not)})`
      : `(${printed(ast.left)}) ${ast.join} (${printed(ast.right)})`

const text = fc.string({ unit: fc.constantFrom('a', 'A', 'b', '.', '/', 'é', 'É', '😀', '-', '\\'), maxLength: 4 })
const pattern = fc.string({
  unit: fc.constantFrom('a', 'B', 'b', '.', '*', '?', '\\', 'é', '😀'),
  minLength: 1,
  maxLength: 5,
})
const own = fc.constantFrom('event_type', 'source', 'metadata.a', 'metadata.b.c', 'tags', 'session_id')
const anyOf = (value: fc.Arbitrary<Value>) => fc.oneof(value, fc.array(value, { minLength: 1, maxLength: 3 }))
const entry: fc.Arbitrary<[string, Value | Value[]]> = fc.oneof(
  fc.tuple(own, anyOf(fc.oneof(pattern, fc.integer({ min: 0, max: 3 }), fc.boolean()))),
  fc.tuple(own, fc.constant(null)),
  fc.tuple(
    own.map((name) => `${name}|exists`),
    fc.boolean(),
  ),
  fc.tuple(
    fc.tuple(own, fc.constantFrom('contains', 'startswith', 'endswith')).map((parts) => parts.join('|')),
    anyOf(pattern),
  ),
  fc.tuple(
    own.map((name) => `${name}|contains|all`),
    fc.array(pattern, { minLength: 2, maxLength: 3 }),
  ),
  fc.tuple(
    own.map((name) => `${name}|all`),
    fc.array(pattern, { minLength: 2, maxLength: 2 }),
  ),
  fc.tuple(
    own.map((name) => `${name}|re`),
    fc.constantFrom('^a', 'a+b?', '[aA]\\.', 'b$', '^.{2}$', '(a|b)+'),
  ),
  fc.tuple(
    fc.tuple(own, fc.constantFrom('gt', 'lte')).map((parts) => parts.join('|')),
    fc.integer({ min: 0, max: 3 }),
  ),
)
const selection: fc.Arbitrary<Selection> = fc
  .array(entry, { minLength: 1, maxLength: 3 })
  .map((entries) => Object.fromEntries(entries))
const names = ['one', 'two', 'three']
const detections = fc.tuple(
  ...names.map(() => fc.oneof(selection, fc.array(selection, { minLength: 1, maxLength: 2 }))),
)
const { ast: asts } = fc.letrec<{ ast: Ast }>((tie) => ({
  ast: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom(...names).map((name) => ({ name })),
    tie('ast').map((not) => ({ not })),
    fc.record({ join: fc.constantFrom('and' as const, 'or' as const), left: tie('ast'), right: tie('ast') }),
  ),
}))
const given = fc.oneof(
  text,
  fc.integer({ min: 0, max: 4 }),
  fc.boolean(),
  fc.constant(null),
  fc.array(text, { maxLength: 2 }),
)
const events = fc
  .record({
    event_type: fc.constantFrom('a', 'ab', 'b'),
    source: text,
    session_id: fc.option(text),
    tags: fc.array(fc.constantFrom('a', 'b.a', 'ab'), { maxLength: 2 }),
    metadata: fc.option(
      fc.record({ a: given, b: fc.oneof(fc.record({ c: given }, { requiredKeys: [] }), text) }, { requiredKeys: [] }),
    ),
  })
  .map((row) => logged(row))

describe('a compiled detection', () => {
  test('says of every event what the interpreter of the specification says', () => {
    fc.assert(
      fc.property(detections, asts, fc.array(events, { minLength: 1, maxLength: 10 }), (selections, ast, log) => {
        const all = Object.fromEntries(selections.map((each, index) => [names[index]!, each]))
        // Each selection must be used.
        const used: Ast = names.reduce<Ast>(
          (left, name) => ({ join: 'or', left, right: { join: 'and', left: { name }, right: { not: { name } } } }),
          ast,
        )
        const rule = compiled({ detection: { ...all, condition: printed(used) } })
        const fired = log.map((event) => step(rule, ruleStates.start(rule), event, new ValueMemory()).length > 0)
        expect(fired).toEqual(log.map((event) => interpret(ast, all, event)))
      }),
      { numRuns: effort(300, 200_000) },
    )
  })

  test('binds not before and, and before or', () => {
    const detection = { a: { 'metadata.a': 1 }, b: { 'metadata.b': 1 }, c: { 'metadata.c': 1 } }
    for (const [a, b, c] of [
      [0, 0, 0],
      [0, 0, 1],
      [0, 1, 0],
      [0, 1, 1],
      [1, 0, 0],
      [1, 0, 1],
      [1, 1, 0],
      [1, 1, 1],
    ] as const) {
      const event = logged({ metadata: { a, b, c } })
      expect(fires({ ...detection, condition: 'a or b and not c' }, event)).toBe(Boolean(a || (b && !c)))
      expect(fires({ ...detection, condition: 'NOT a AND b OR c' }, event)).toBe(Boolean((!a && b) || c))
    }
  })

  test('joins selections by name: 1 of and all of, with * anywhere, and them without those that begin with _', () => {
    const detection = { sel_a: { 'metadata.a': 1 }, sel_b: { 'metadata.b': 1 }, _c: { 'metadata.c': 1 } }
    const event = (...keys: string[]) => logged({ metadata: Object.fromEntries(keys.map((key) => [key, 1])) })
    const says = (condition: string, ...keys: string[]) =>
      fires({ ...detection, condition: `${condition} or (_c and sel_a and sel_b and not _c)` }, event(...keys))
    expect(says('1 of sel_*', 'b')).toBe(true)
    expect(says('all of sel_*', 'b')).toBe(false)
    expect(says('all of s*_*', 'a', 'b')).toBe(true)
    expect(says('1 of them', 'c')).toBe(false)
    expect(says('all of them', 'a', 'b')).toBe(true)
    expect(says('1 of *_c', 'c')).toBe(true)
  })
})

describe('a value', () => {
  test.each([
    [String.raw`a\*b`, 'a*b', true],
    [String.raw`a\*b`, 'axb', false],
    [String.raw`a\\*`, String.raw`a\xyz`, true],
    [String.raw`a\\*`, 'axyz', false],
    [String.raw`a\\\*`, String.raw`a\*`, true],
    [String.raw`c:\dir`, String.raw`c:\dir`, true],
    [String.raw`c:\\dir`, String.raw`C:\DIR`, true],
    [String.raw`x\\\\y`, String.raw`x\\y`, true],
    ['a?c', 'a😀c', true],
    ['a?c', 'ac', false],
    ['*', '', true],
    ['', '', true],
    ['', 'a', false],
    ['a*b*c', 'a--b--b--c', true],
    ['a*bc', 'abcb', false],
  ])('%j compared with %j: %s', (value, text, expected) => {
    expect(matches('metadata.a', value, text)).toBe(expected)
  })

  test('is the same as a number or as text, but numbers are ordered as numbers alone', () => {
    expect(matches('metadata.a', 4625, '4625')).toBe(true)
    expect(matches('metadata.a', '4625', 4625)).toBe(true)
    expect(matches('metadata.a|gte', 10, 9)).toBe(false)
    expect(matches('metadata.a|gte', 10, 10)).toBe(true)
    expect(matches('metadata.a|gte', 10, '10')).toBe(false)
  })

  test('null is a missing field or null, and exists asks for presence alone', () => {
    const missing = logged({ metadata: {} })
    expect(fires({ one: { 'metadata.a': null }, condition: 'one' }, missing)).toBe(true)
    expect(matches('metadata.a', null, null)).toBe(true)
    expect(matches('metadata.a', null, '')).toBe(false)
    expect(matches('metadata.a|exists', true, null)).toBe(true)
    expect(fires({ one: { 'metadata.a|exists': false }, condition: 'one' }, missing)).toBe(true)
    expect(fires({ one: { 'metadata.toString|exists': true }, condition: 'one' }, missing)).toBe(false)
  })

  test.each([
    ['10.0.0.0/8', '10.255.0.1', true],
    ['10.0.0.0/8', '11.0.0.1', false],
    ['2001:db8::/32', '2001:db8:1::1', true],
    ['2001:db8::/32', '10.0.0.1', false],
    ['0.0.0.0/0', 'no address', false],
  ])('cidr %s holds %s: %s', (network, address, expected) => {
    expect(matches('metadata.a|cidr', network, address)).toBe(expected)
  })

  test.each([
    ['host', 'Evil.example', 'evil.example', true],
    ['host', 'evil.example', 'https://u@EVIL.example.:8443/x?good.example', true],
    ['host', 'evil.example', 'http://evil.example\\@good.example', true],
    ['host', 'evil.example', 'bob@evil.example', true],
    ['host', 'evil.example', 'a.evil.example', false],
    ['host', 'evil.example', 'https://good.example/evil.example', false],
    ['host', ['good.example', '169.254.169.254'], 'http://0xa9fea9fe/latest', true],
    ['host', '::1', 'http://[::1]:80/', true],
    ['host', '::1', '0:0::1', true],
    ['host', 'evil.example', 'no host at all', false],
    ['host', 'evil.example', 7, false],
    ['domain', 'evil.example', 'a.b.evil.example', true],
    ['domain', 'evil.example', 'ssh://evil.example/x', true],
    ['domain', 'evil.example', 'notevil.example', false],
    ['domain', ['x.example', 'evil.example'], ['good.example', 'a.evil.example'], true],
    ['domain', 'bücher.example', 'www.xn--bcher-kva.example', true],
  ])('%s %s holds %s: %s', (modifier, wanted, given, expected) => {
    expect(matches(`metadata.a|${modifier}`, wanted, given)).toBe(expected)
  })

  test('re is case-sensitive and finds a part, i, m and s change that', () => {
    expect(matches('metadata.a|re', 'b+', 'abbc')).toBe(true)
    expect(matches('metadata.a|re', 'B+', 'abbc')).toBe(false)
    expect(matches('metadata.a|re|i', 'B+', 'abbc')).toBe(true)
    expect(matches('metadata.a|re|m', '^b$', 'a\nb\nc')).toBe(true)
    expect(matches('metadata.a|re|s', 'a.b', 'a\nb')).toBe(true)
  })

  test.each([
    ['a|cased', 'Admin', 'Admin', true],
    ['a|cased', 'Admin', 'admin', false],
    ['a|contains|cased', 'dm?n', 'AdmiN', false],
    ['a|contains|cased', 'dm?N', 'AdmiN', true],
    ['a|cased|all', ['A*', '*z'], 'Abz', true],
    ['a|neq', 'x', 'y', true],
    ['a|neq', 'x', 'X', false],
    ['a|cased|neq', 'x', 'X', true],
    ['a|cased', 5, 5, true],
    ['a|cased', ['x', '5'], [5], true],
    ['a|cased', true, true, true],
    ['a|cased', 5, 55, false],
    ['a|cased|all', [5, true], [true, 5], true],
    ['a|neq', ['x', 'y'], 'y', false],
    ['a|neq', 5, 5, false],
    ['a|neq', 5, '6', true],
    ['a|startswith|neq', 'ab', 'abc', false],
    ['a|neq', 'x', null, false],
    ['a|gte', [5, 9], 6, true],
    ['a|lt', [5, 9], 9, false],
    // The hyphen of a word is no option.
    ['a|contains|windash', ' -f x-y', 'rm /f x-y', true],
    ['a|contains|windash', ' /f', 'rm \u2013f', true],
    ['a|contains|windash', ' -f', 'rm \u2015f', true],
    ['a|contains|windash', ' -f x-y', 'rm -f x/y', false],
    ['a|contains|all|windash', ['-a', '-b'], 'x /a \u2014b', true],
    ['a|contains|all|windash', ['-a', '-b'], 'x /a', false],
    ['a|base64', 'foobar', 'Zm9vYmFy', true],
    ['a|utf16le|base64|contains', 'cmd', Buffer.from('cmd', 'utf16le').toString('base64'), true],
    ['a|utf16be|base64|contains', 'cmd', Buffer.from('cmd', 'utf16le').swap16().toString('base64'), true],
    ['a|utf16|base64|contains', 'cmd', '//5jAG0AZAA=', true],
    ['a|wide|base64offset|contains', 'http://', Buffer.from('xyzhttp://evil', 'utf16le').toString('base64'), true],
    ['a|base64offset|contains', '\\*x', Buffer.from('ab*xyz').toString('base64'), true],
    ['a|contains', 'ΟΔΟΣ', 'ΟΔΟΣΑ', true],
    ['a', 'ΟΔΟΣ', 'οδος', true],
    ['a|cidr', '::/0', '10.0.0.1', false],
    ['a|cidr', '::/0', '2001:db8::1', true],
    ['a|cidr', ['::/1', '10.0.0.0/8'], '10.1.2.3', true],
    ['a|re', '\\.env$', '/app/.env\n', true],
    ['a|re', '\\.env$', '/app/.env\nx', false],
    ['a|re', '^\\x{2060}+$', '\u2060\u2060', true],
  ])('%s: %j holds %j: %s', (name, wanted, given, expected) => {
    expect(matches(`metadata.${name}`, wanted, given)).toBe(expected)
  })

  test('base64offset finds a text wherever it begins in an encoded one', () => {
    for (const before of ['', 'a', 'ab', 'abc', 'abcd']) {
      for (const after of ['', 'x', 'xy', 'xyz']) {
        const given = Buffer.from(`${before}/bin/sh -i${after}`).toString('base64')
        expect(matches('metadata.a|base64offset|contains', '/bin/sh -i', given), `${before}…${after}`).toBe(true)
        expect(matches('metadata.a|base64offset|contains', '/bin/zsh -i', given)).toBe(false)
      }
    }
  })

  test('fieldref compares two fields, also lists and other fields than those of the metadata', () => {
    const event = logged({ instance_id: 'bot-1', metadata: { owner: 'BOT-1', list: ['x', 'bot-1'], other: 'y' } })
    const fired = (selection: object) => fires({ one: selection, condition: 'one' }, event)
    expect(fired({ 'metadata.owner|fieldref': 'instance_id' })).toBe(true)
    expect(fired({ 'metadata.owner|cased|fieldref': 'instance_id' })).toBe(false)
    expect(fired({ 'metadata.list|fieldref': 'metadata.owner' })).toBe(true)
    expect(fired({ 'metadata.other|fieldref': 'metadata.owner' })).toBe(false)
    expect(fired({ 'metadata.other|fieldref|neq': 'metadata.owner' })).toBe(true)
    expect(fired({ 'metadata.missing|fieldref|neq': 'metadata.owner' })).toBe(false)
    expect(fired({ 'metadata.owner|fieldref|neq': 'metadata.missing' })).toBe(true)
  })

  // A Sunday in New York, a Monday in Berlin.
  test.each([
    ['time|hour', 2, 'UTC', true],
    ['time|hour', 3, 'Europe/Berlin', true],
    ['time|hour|lt', 22, 'America/New_York', true],
    ['time|minute', 30, 'Asia/Kolkata', false],
    ['time|minute', 0, 'Asia/Kolkata', true],
    ['time|weekday', 1, 'Europe/Berlin', true],
    ['time|weekday|gte', 6, 'America/New_York', true],
    ['time|day', [4, 7], 'America/New_York', true],
    ['time|week', 2, 'Europe/Berlin', true],
    ['time|week', 1, 'America/New_York', true],
    ['time|month', 1, 'UTC', true],
    ['time|year|neq', 2025, 'UTC', true],
    ['metadata.at|hour', 23, 'Europe/Berlin', true],
    ['metadata.bad|hour', 0, 'UTC', false],
  ])('%s: %j in %s: %s', (key, wanted, timezone, expected) => {
    const created_at = '2026-01-05T02:30:00.000Z'
    const event = logged({ created_at, metadata: { at: '2026-03-29T21:15:00', bad: '2026-13-01T00:00:00Z' } })
    expect(fires({ one: { [key]: wanted }, condition: 'one' }, event, { timezone })).toBe(expected)
  })

  test('a field whose name looks like a part of a date has its own answer', () => {
    const name = 'metadata.at|hour in UTC'
    const event = logged({
      created_at: '2026-01-05T02:30:00.000Z',
      metadata: { at: '2026-03-29T21:15:00', 'at|hour in UTC': 'x', same: 'x' },
    })
    expect(fires({ one: { 'metadata.at|hour': 21 }, condition: 'one' }, event)).toBe(true)
    expect(fires({ one: { 'metadata.same|fieldref': name }, condition: 'one' }, event)).toBe(true)
  })

  test('keywords are found in every text of an event, and by their modifiers', () => {
    const event = logged({
      description: 'Reads a file',
      metadata: { deep: [{ er: 'an Evil.example host' }], count: 4625, yes: true },
    })
    const fired = (one: unknown) => fires({ one, condition: 'one' } as never, event)
    for (const word of ['evil.EXAMPLE', 'reads a', 4625, 'e*host']) expect(fired([word]), String(word)).toBe(true)
    expect(fired(['nothing', 'evil'])).toBe(true)
    expect(fired('evil')).toBe(true)
    expect(fired({ '|all': ['evil', 'reads'] })).toBe(true)
    expect(fired({ '|all': ['evil', 'writes'] })).toBe(false)
    expect(fired({ '|re': 'Evil\\.\\w+' })).toBe(true)
    expect(fired({ '|contains|cased': 'evil' })).toBe(false)
    expect(fired(['nothing', { description: 'Reads*' }])).toBe(true)
    expect(fired(['deep'])).toBe(false)
  })

  test('metrics.<name> is a number of session_metrics', () => {
    const metrics = (description: string, event_type = 'session_metrics') =>
      fires({ one: { 'metrics.tool_calls_per_5min|gt': 60 }, condition: 'one' }, logged({ event_type, description }))
    expect(metrics('{"tool_calls_per_5min":61}')).toBe(true)
    expect(metrics('{"tool_calls_per_5min":60}')).toBe(false)
    expect(metrics('{"tool_calls_per_5min":"61"}')).toBe(false)
    expect(metrics('{"tool_calls_per_5min":61}', 'tool_call')).toBe(false)
    for (const broken of ['', 'null', '[61]', '{"tool', '"x"']) expect(metrics(broken)).toBe(false)
  })

  test('a name in metadata may contain dots itself', () => {
    const metadata = { 'gen_ai.tool.name': 'shell', a: { 'b.c': [{ 'd.e': 'x' }] }, 'f.g': { h: 'y' } }
    const fired = (selection: object) => fires({ one: selection, condition: 'one' }, logged({ metadata }))
    expect(fired({ 'metadata.gen_ai.tool.name': 'shell' })).toBe(true)
    expect(fired({ 'metadata.a.b.c.d.e': 'x' })).toBe(true)
    expect(fired({ 'metadata.f.g.h': 'y' })).toBe(true)
    expect(fired({ 'metadata.gen_ai.tool': 'shell' })).toBe(false)
  })

  test('lists within metadata match by any element, by path as well', () => {
    const event = logged({ metadata: { files: [{ path: '/a' }, { path: ['/etc/shadow'] }] }, tags: ['env:prod', 'eu'] })
    expect(fires({ one: { 'metadata.files.path|endswith': 'shadow', tags: 'env:*' }, condition: 'one' }, event)).toBe(
      true,
    )
    expect(fires({ one: { 'tags|all': ['eu', 'env:prod'] }, condition: 'one' }, event)).toBe(true)
    expect(fires({ one: { 'tags|all': ['eu', 'env:dev'] }, condition: 'one' }, event)).toBe(false)
  })

  test('tool is the tool by any of its names, hour that of the event in UTC', () => {
    const event = logged({ at: 3 * 3_600_000, metadata: { tool_name: 'shell-exec' } })
    expect(fires({ one: { tool: 'shell-exec', hour: 3 }, condition: 'one' }, event)).toBe(true)
    expect(fires({ one: { 'hour|gt': 3 }, condition: 'one' }, event)).toBe(false)
  })
})

const rule = (detection: string, more = '') => `title: x\nseverity: info\n${more}detection:\n${detection}\n`

describe('a rule that cannot be compiled is refused by place and name:', () => {
  test.each([
    ['  a: {event_type|like: x}\n  condition: a', '4:7 The modifier like is not supported'],
    [
      '  a: {event_type|contains|endswith: x}\n  condition: a',
      '4:7 The modifiers contains and endswith cannot be combined.',
    ],
    ['  a: {event_type|contains|all: x}\n  condition: a', '4:7 all needs a list of at least two values.'],
    ['  a: {event_type: [x, null]}\n  condition: a', '4:7 null cannot be in a list'],
    ['  a: {event_type: []}\n  condition: a', '4:7 The list of values is empty.'],
    ['  a: {Image: x}\n  condition: a', '4:7 Events have no field Image'],
    ['  a: {metadata.a|gt: "1"}\n  condition: a', '4:7 gt needs a number without quotes.'],
    [
      '  a: {metadata.a|cidr: 10.0.0.0/33}\n  condition: a',
      '4:7 cidr needs a network such as 10.0.0.0/8, not 10.0.0.0/33.',
    ],
    [
      '  a: {metadata.a|host: https://evil.example/x}\n  condition: a',
      '4:7 host needs the name of a host such as files.example, not https://evil.example/x.',
    ],
    [
      '  a: {metadata.a|domain: 10.0.0.1}\n  condition: a',
      '4:7 domain needs the name of a domain such as files.example, not 10.0.0.1.',
    ],
    ['  a: {metadata.a|host: "*.example"}\n  condition: a', '4:7 host needs the name of a host'],
    ['  a: {metadata.a|re: "(?=x)"}\n  condition: a', '4:7 The regular expression (?=x) cannot be compiled'],
    [
      '  a: {metadata.a|cased|cidr: 10.0.0.0/8}\n  condition: a',
      '4:7 The modifiers cased and cidr cannot be combined.',
    ],
    ['  a: {metadata.a|neq|all: [x, y]}\n  condition: a', '4:7 The modifiers neq and all cannot be combined.'],
    ['  a: {metadata.a|wide|re: x}\n  condition: a', '4:7 The modifiers wide and re cannot be combined.'],
    ['  a: {time|hour|contains: 3}\n  condition: a', '4:7 The modifiers hour and contains cannot be combined.'],
    ['  a: {metadata.a|fieldref|contains: tool}\n  condition: a', '4:7 The modifiers fieldref and contains cannot'],
    ['  a: {metadata.a|fieldref: nothing}\n  condition: a', '4:7 Events have no field nothing'],
    ['  a: {metadata.a|windash: "-a -b -c -d -e"}\n  condition: a', '4:7 windash allows at most 4 options in a value.'],
    ['  a: {}\n  condition: a', '4:3 The selection has no field.'],
    ['  a: {event_type: x}\n  condition: a and b', '5:20 The condition names the selection b, which is missing.'],
    ['  a: {event_type: x}\n  b: {event_type: x}\n  condition: a', '5:3 The selection b is not used by the condition.'],
    ['  a: {event_type: x}\n  condition: a | count() > 5', '5:16 Aggregations after | are not supported'],
    ['  a: {event_type: x}\n  condition: a near a', '5:16 near is not supported'],
    ['  a: {event_type: x}\n  condition: 2 of a*', '5:14 2 of is not supported'],
    ['  a: {event_type: x}\n  condition: 1 of b*', '5:19 1 of b* matches no selection.'],
    ['  a: {event_type: x}\n  condition: (a', '5:14 This bracket is not closed.'],
    ['  a: {event_type: x}\n  condition: a and', '5:19 The condition ends where a selection is expected.'],
    ['  a: {event_type: x}\n  condition: a a', '5:16 and, or or the end is expected here, not a.'],
    ['  a: {event_type: x}', '3:1 The detection needs a condition.'],
    ['  and: {event_type: x}\n  condition: and', '4:3 A selection cannot be called and'],
    ['  a: {event_type: x, event_type: y}\n  condition: a', '4:22 event_type is given twice.'],
    ['  a: {event_type: !!binary eA==}\n  condition: a', '4:28 The tag tag:yaml.org,2002:binary is not supported.'],
    [
      '  a: {metadata.a: 12345678901234567890}\n  condition: a',
      '4:19 12345678901234567890 is a number that cannot be compared exactly',
    ],
  ])('%s', (detection, expected) => {
    expect(faultsOf(rule(detection)).join('\n')).toContain(expected)
  })

  test('every fault of a document and of the others in the text is listed', () => {
    const text = `${rule('  a: {Image: x}\n  b: {event_type|expand: x}\n  condition: a')}---\n${rule('  a: {event_type: x}\n  condition: c')}`
    expect(faultsOf(text)).toHaveLength(4)
  })

  test('unknown fields of the document stand at their place', () => {
    expect(faultsOf('title: x\nseverity: info\nactions: []\ndetection: {a: {event_type: x}, condition: a}')).toEqual([
      '3:1 actions is not a known field.',
    ])
    expect(faultsOf('title: x\nseverity: high\ndetection: {}')).toEqual([
      '2:1 severity must be info, warning, critical, or breach.',
    ])
  })

  test('responses name what they need, and nothing else', () => {
    const more =
      'response: [{action: suspend_tag}, {action: alert, for: 5m}]\nexceptions: [{who: {}, reason: x, until: 2026-13-01}]\n'
    expect(faultsOf(rule('  a: {event_type: x}\n  condition: a', more))).toEqual([
      '3:12 The action suspend_tag needs tag.',
      '3:51 for is not an option of the action alert.',
      expect.stringContaining('who needs instances or tags.'),
      expect.stringContaining('2026-13-01 is not a date.'),
    ])
  })
})

test('JSON is read like YAML', () => {
  const document = { title: 'x', severity: 'info', detection: { a: { event_type: 'x' }, condition: 'a' } }
  expect(faultsOf(JSON.stringify(document, null, 2))).toEqual([])
})

test('exceptions pass over instances and tags until their end', () => {
  const until = '2026-01-05T01:00:00Z'
  const exempt = compiled({
    detection: { a: { event_type: 'test' }, condition: 'a' },
    exceptions: [{ who: { instances: ['ci-*'], tags: ['team:qa'] }, reason: 'load test', until }],
  })
  const firings = (event: RuleEvent) => step(exempt, ruleStates.start(exempt), event, new ValueMemory()).length
  expect(firings(logged({ instance_id: 'ci-7' }))).toBe(0)
  expect(firings(logged({ tags: ['team:qa'] }))).toBe(0)
  expect(firings(logged({ instance_id: 'bot-1' }))).toBe(1)
  expect(firings(logged({ instance_id: 'ci-7', at: 3_600_000 }))).toBe(1)
})

// Attack: a rule that takes the service's time or memory instead of running.
describe('a hostile document ends in a sentence:', () => {
  const bomb = [
    'a: &a [x]',
    ...Array.from(
      { length: 30 },
      (_, index) =>
        `b${index}: &b${index} [*${index === 0 ? 'a' : `b${index - 1}`}, *${index === 0 ? 'a' : `b${index - 1}`}]`,
    ),
  ].join('\n')
  test.each([
    ['aliases that double thirty times', bomb, 'Aliases (*a) are not supported'],
    ['brackets', '['.repeat(60_000), 'nested more than 20 levels deep'],
    ['maps in maps on one line', '{a: '.repeat(15_000), 'nested more than 20 levels deep'],
    ['lists in lists on one line', '- '.repeat(30_000), 'nested more than 20 levels deep'],
    [
      'levels by indentation',
      Array.from({ length: 300 }, (_, index) => `${' '.repeat(index)}a:`).join('\n'),
      'nested more than 20 levels deep',
    ],
    ['more signs than any rule', `a: [${'1,'.repeat(31_000)}]`, 'more than 15000 names, values and signs'],
    ['a text that is too long', `a: ${'x'.repeat(70_000)}`, 'at most 65536 are read'],
    ['documents without end', '--- a\n'.repeat(5_000), 'more than 100 documents'],
    [
      'a list of too many values',
      rule(`  a: {event_type: [${'1,'.repeat(ruleLimits.values + 1)}]}\n  condition: a`),
      `A list has at most ${ruleLimits.values} values.`,
    ],
    [
      'a value that is too long',
      rule(`  a: {event_type: ${'x'.repeat(1_001)}}\n  condition: a`),
      'A value has at most 1000 characters.',
    ],
    [
      'too many selections',
      rule(
        `${Array.from({ length: 51 }, (_, index) => `  s${index}: {event_type: x}\n`).join('')}  condition: 1 of them`,
      ),
      'at most 50 selections',
    ],
    [
      'a condition of brackets',
      rule(`  a: {event_type: x}\n  condition: ${'('.repeat(400)}a${')'.repeat(400)}`),
      'nested more than 20 levels deep',
    ],
    [
      'a condition of nots',
      rule(`  a: {event_type: x}\n  condition: ${'not '.repeat(200)}a`),
      'nested more than 20 levels deep',
    ],
    ['a prototype', rule('  __proto__: {event_type: x}\n  condition: a'), 'names the selection a, which is missing'],
    ['nothing', '', 'The text has no rule.'],
  ])('%s', (_name, text, expected) => {
    expect(faultsOf(text).join('\n')).toContain(expected)
  })

  const withExpressions = (...expressions: string[]) =>
    JSON.stringify({
      title: 'x',
      severity: 'info',
      detection: { a: { 'metadata.a|re': expressions }, condition: 'a' },
    })

  test.each([
    ['(((a{10}){10}){10}){10}', 'takes 12358 passes over a text; at most 3000 are possible'],
    ['a{1001}', 'has the invalid repetition {1001}: at most 1000 are possible'],
    ['('.repeat(400), 'has more than 100 groups in one another'],
  ])('the regular expression %s', (expression, sentence) => {
    expect(faultsOf(withExpressions(expression)).join('\n')).toContain(sentence)
  })

  test('more regular expressions than a rule may cost', () => {
    const expressions = Array.from({ length: 20 }, (_, index) => `(((${'abcdefghijklmnopqrst'[index]}x){10}){10}){5}`)
    expect(faultsOf(withExpressions(...expressions)).join('\n')).toMatch(
      /The regular expressions of this rule cost an event of 16 KiB up to [\d.]+ ms so far; at most \d+ ms are possible/,
    )
  })

  // With an engine of states they are too large.
  test.each([
    ['(a{1,50}){1,50}$', 'a'.repeat(2_500)],
    [`^(${'\\pL'.repeat(100)}){20}$`, 'é'.repeat(2_000)],
    [`^${'(a|b){99}'.repeat(40)}$`, 'ab'.repeat(1_980)],
  ])('the expression %s is small enough', (expression, text) => {
    expect(matches('metadata.a|re', expression, text)).toBe(true)
    expect(matches('metadata.a|re', expression, `${text}1`)).toBe(false)
  })

  // Attack: an agent that sends the text on which a careless expression takes exponential time. With a backtracking engine
  // none of these end.
  test.each(['(a+)+$', '(a|aa)+$', '([a-z]+)*!$', '^(a?){30}a{30}$'])(
    'the expression %s on 100,000 characters',
    (expression) => {
      expect(matches('metadata.a|re', expression, `${'a'.repeat(100_000)}\u0001`)).toBe(false)
    },
  )

  test('wildcards on 100,000 characters', () => {
    expect(matches('metadata.a', `*${'a*'.repeat(300)}b`, 'a'.repeat(100_000))).toBe(false)
    expect(matches('metadata.a', `*${'a?*'.repeat(300)}b`, 'a'.repeat(100_000))).toBe(false)
  })
})
