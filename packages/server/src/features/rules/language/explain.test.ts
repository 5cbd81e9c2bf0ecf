import { expect, test } from 'vitest'
import { compiled, logged } from '../../../testing/rules.ts'
import { explainMatch } from './explain.ts'

const call = (metadata: Record<string, unknown>, more = {}) => logged({ event_type: 'tool_call', metadata, ...more })

/** The explanation, with each part in brackets. */
function shown(detection: object, event: ReturnType<typeof logged>, more = {}): string[] {
  return explainMatch(compiled({ detection, ...more }), event).map(({ selection, field, value, start, end }) => {
    const text = value === null ? 'missing' : `${value.slice(0, start)}[${value.slice(start, end)}]${value.slice(end)}`
    return `${selection} ${field}: ${text}`
  })
}

const one = (field: string, value: unknown) => ({ a: { [field]: value }, condition: 'a' })

test.each<[string, unknown, Record<string, unknown>, string[]]>([
  ['metadata.command|contains', '.ENV', { command: 'cat /app/.env.local' }, ['cat /app/[.env].local']],
  ['metadata.command|contains', ['ssh', '.env'], { command: 'cat .env' }, ['cat [.env]']],
  ['metadata.command|contains|all', ['cat', 'env'], { command: 'cat .env' }, ['[cat] .env', 'cat .[env]']],
  ['metadata.command|startswith', 'rm ', { command: 'rm -rf /' }, ['[rm ]-rf /']],
  ['metadata.command|endswith', '/', { command: 'rm -rf /' }, ['rm -rf [/]']],
  ['metadata.command', 'rm * /', { command: 'rm -rf /' }, ['[rm -rf /]']],
  ['metadata.command', '*-r?*', { command: 'rm -rf /' }, ['rm [-rf] /']],
  ['metadata.command|re', 'r[mf]+ -\\w+', { command: 'x; rm -rf /' }, ['x; [rm -rf] /']],
  ['metadata.command|re|i', ['ssh', 'RM'], { command: 'x; rm' }, ['x; [rm]']],
  ['metadata.command|contains', 'ß', { command: 'İİ😀Straẞe😀' }, ['İİ😀Stra[ẞ]e😀']],
  ['metadata.command|contains', '\u{1f600}', { command: 'a😀b' }, ['a[😀]b']],
  ['metadata.command|base64offset|contains', 'secret', { command: 'echo c2VjcmV0 | x' }, ['echo [c2VjcmV0] | x']],
  ['metadata.paths|endswith', '.env', { paths: ['/readme', '/a/.env', '/b/.env'] }, ['/a/[.env]', '/b/[.env]']],
  ['metadata.hosts', ['a.example', 'b.example'], { hosts: ['b.example', 'c'] }, ['[b.example]']],
  ['metadata.hosts|cidr', '10.0.0.0/8', { hosts: ['10.1.2.3', '11.1.1.1'] }, ['[10.1.2.3]']],
  ['metadata.hosts|domain', 'evil.example', { hosts: ['a.evil.example'] }, ['[a.evil.example]']],
  ['metadata.hosts|neq', 'a.example', { hosts: ['b.example'] }, ['[b.example]']],
  ['metadata.size|gt', 5, { size: [3, 9] }, ['[9]']],
  ['metadata.hosts', null, {}, ['missing']],
  ['metadata.a.b', 'x', { a: [{ b: 'y' }, { b: 'x' }] }, ['[x]']],
])('%s: %j marks what decided in %j', (field, value, metadata, parts) => {
  const name = field.split('|')[0]
  expect(shown(one(field, value), call(metadata))).toEqual(parts.map((part) => `a ${name}: ${part}`))
})

test('names the selections that decide a condition, and none that it excludes', () => {
  const detection = {
    shell: { tool: 'bash' },
    read: { tool: 'read' },
    secret: [{ 'metadata.paths|endswith': '.env' }, { 'metadata.paths|endswith': '.pem', source: 'nobody' }],
    local: { 'metadata.hosts': 'localhost' },
    words: ['evil'],
    condition: '(shell or read) and secret and not local and words',
  }
  const metadata = { toolName: 'Read', paths: ['/a.pem', '/.env'], note: 'evil plan' }
  expect(shown(detection, call(metadata))).toEqual([
    'read tool: [Read]',
    'secret metadata.paths: /[.env]',
    'words null: [evil] plan',
  ])
  expect(shown(detection, call({ ...metadata, hosts: ['localhost'] }))).toEqual([])
})

test('explains the step of a correlation that an event is', () => {
  const detection = { read: { tool: 'read' }, sent: { tool: 'send' } }
  const correlation = { type: 'temporal_ordered', rules: ['read', 'sent'], timespan: '5m' }
  expect(shown(detection, call({ tool: 'Send' }), { correlation })).toEqual(['sent tool: [Send]'])
})

// An agent chooses how long its values are and how many; a rule may compare thousands.
test('stays within bounds for the longest values', () => {
  const text = `${'a'.repeat(15_000)}needle`
  const values = Array.from({ length: 1_999 }, (_, index) => `no ${index}`)
  const detection = one('metadata.command|contains', [...values, 'needle'])
  const [match] = explainMatch(compiled({ detection }), call({ command: text }))
  expect(match!.value).toHaveLength(2_000)
  expect(match!.value!.slice(match!.start, match!.end)).toBe('needle')
  const paths = Array.from({ length: 2_000 }, (_, index) => `x${index}`)
  expect(explainMatch(compiled({ detection: one('metadata.paths|contains', 'x') }), call({ paths }))).toHaveLength(20)
})
