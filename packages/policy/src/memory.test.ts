import { expect, test } from 'vitest'
import { SessionMemory, type StoredMemory } from './memory.ts'
import { Tally } from './tally.ts'

const at = 1_000_000_000
const isAny = () => true
const answers = { args: {}, conditional: [], isDirectory: true }

function remembered(memory = new SessionMemory()): SessionMemory {
  memory.prompt('Write to ada@example.com, see https://one.example/a.')
  memory.learn('list', { ...answers, conditional: ['folder'] }, { mail: 'bob@example.com', page: 'www.two.example' })
  memory.count('limit', 60_000, at, 3)
  return memory
}
function expectRemembered(memory: SessionMemory): void {
  expect(memory.proves('ada@example.com', () => false)).toBe(true)
  expect(memory.proves('bob@example.com', isAny)).toBe(true)
  expect(memory.proves('bob@example.com', ({ name, args }) => name === 'list' && args.has('folder'))).toBe(true)
  expect(memory.proves('bob@example.com', ({ name }) => name !== 'list')).toBe(false)
  expect(memory.saw('http://one.example/a#b')).toBe(true)
  expect(memory.saw('www.two.example')).toBe(true)
  expect(memory.saw('https://three.example')).toBe(false)
  expect(memory.counted('limit', 60_000, at)).toBe(3)
  expect(memory.answered(({ name }) => name === 'list')).toBe('list')
  expect(memory.hasMoreTools).toBe(false)
}

test('what is stored is what was remembered, without any text', () => {
  const stored = remembered().stored()
  expect(JSON.stringify(stored)).not.toMatch(/ada|bob|example/)
  expectRemembered(new SessionMemory(JSON.parse(JSON.stringify(stored))))
})

test('what another process remembered is added, under the places that its tools have here', () => {
  const memory = new SessionMemory()
  memory.learn('first', answers, { name: 'someone' })
  memory.count('limit', 60_000, at - 1, 4)
  const other = memory.emptied()
  expect(other.stored()).toMatchObject({ words: '', values: '', addresses: '', tools: [], more: false, counts: {} })
  memory.add(remembered(other).stored())
  expect(memory.counted('limit', 60_000, at)).toBe(7)
  expect(memory.proves('bob@example.com', ({ name }) => name === 'list')).toBe(true)
  expect(memory.proves('bob@example.com', ({ name }) => name === 'first')).toBe(false)
  expect(memory.proves('someone', ({ name }) => name === 'first')).toBe(true)
  expect(memory.proves('ada@example.com', () => false)).toBe(true)
  expect(memory.saw('https://one.example/a')).toBe(true)
  expect(memory.hasMoreTools).toBe(false)
})

const good: StoredMemory = {
  version: 1,
  key: 'k',
  words: '',
  values: '',
  addresses: '',
  tools: [['a', ['x']]],
  more: false,
  counts: { l: [1, 2] },
}

// Attack: a file of the session that is made unreadable would forget that untrusted text was read.
test.each<[string, unknown]>([
  ['null', null],
  ['a text', 'x'],
  ['another version', { ...good, version: 2 }],
  ['no key', { ...good, key: 1 }],
  ['no words', { ...good, words: undefined }],
  ['more words than are kept', { ...good, words: 'x'.repeat(14_000 * 8 + 1) }],
  ['no addresses', { ...good, addresses: [] }],
  ['no more', { ...good, more: 'no' }],
  ['no values', { ...good, values: null }],
  ['no tools', { ...good, tools: {} }],
  ['a tool that is none', { ...good, tools: ['a'] }],
  ['a tool without a name', { ...good, tools: [[1, []]] }],
  ['a tool without arguments', { ...good, tools: [['a', 'x']] }],
  ['an argument without a name', { ...good, tools: [['a', ['x', 1]]] }],
  ['no counts', { ...good, counts: null }],
  ['a count that is none', { ...good, counts: { l: 1 } }],
  ['a count of no numbers', { ...good, counts: { l: [1, null] } }],
])('%s counts as a session that read untrusted text', (_name, stored) => {
  const memory = new SessionMemory(stored as StoredMemory)
  expect(memory.hasMoreTools).toBe(true)
  expect(memory.answered(isAny)).toBeUndefined()
  const other = new SessionMemory(good)
  expect(other.hasMoreTools).toBe(false)
  other.add(stored as StoredMemory)
  expect(other.hasMoreTools).toBe(true)
})

test('what is readable is not, and another session is never added', () => {
  const longest = { ...good, words: 'x'.repeat(14_000 * 8) }
  expect(new SessionMemory(longest).hasMoreTools).toBe(false)
  expect(new SessionMemory({ ...good, more: true }).hasMoreTools).toBe(true)
  const memory = new SessionMemory(good)
  memory.add({ ...good, key: 'other', tools: [['b', []]] })
  expect([memory.hasMoreTools, memory.answered(({ name }) => name === 'b')]).toEqual([true, undefined])
})

test('a session of more tools, or longer names, counts as one that read untrusted text', () => {
  const memory = new SessionMemory()
  for (let tool = 0; tool < 128; tool++) memory.learn(`${tool}`, answers, 'x')
  for (const tool of ['0', '127']) memory.learn(tool, answers, 'x')
  expect(memory.hasMoreTools).toBe(false)
  memory.learn('128', answers, 'x')
  expect(memory.hasMoreTools).toBe(true)
  expect(memory.answered(({ name }) => name === '128')).toBeUndefined()

  const named = new SessionMemory()
  named.learn('x'.repeat(3_000), { ...answers, conditional: ['y'.repeat(3_000)] }, 'x')
  named.learn('x'.repeat(3_000), { ...answers, conditional: ['y'.repeat(3_000), 'z'.repeat(2_000)] }, 'x')
  expect(named.hasMoreTools).toBe(false)
  named.learn('x'.repeat(3_000), { ...answers, conditional: ['a'] }, 'x')
  expect(named.hasMoreTools).toBe(true)
})

test('an answer that repeats what was asked proves nothing, nor does one to a long question', () => {
  const learned = (args: unknown, answer: unknown, isDirectory = true) => {
    const memory = new SessionMemory()
    memory.learn('find', { args, conditional: [], isDirectory }, answer)
    return memory.proves('eve@evil.example', isAny)
  }
  expect(learned({ name: 'Eve' }, ['eve@evil.example'])).toBe(true)
  expect(learned({ name: 'Eve' }, ['eve@evil.example'], false)).toBe(false)
  expect(learned({ query: 'mail of eve@evil.example please' }, ['eve@evil.example'])).toBe(false)
  expect(learned({ query: 'x'.repeat(4_000) }, ['eve@evil.example'])).toBe(true)
  expect(learned({ query: ['x'.repeat(4_000), 'y'] }, ['eve@evil.example'])).toBe(false)
})

test('a destination is proven by whole words of one prompt', () => {
  const memory = new SessionMemory()
  memory.prompt('pay Ada')
  memory.prompt('Lovelace today')
  expect(memory.proves('ada', isAny)).toBe(true)
  expect(memory.proves('Ada Lovelace', isAny)).toBe(false)
  expect(memory.proves('ad', isAny)).toBe(false)
  expect(memory.proves('', isAny)).toBe(false)
})

test('what limits counted is joined, and never becomes less', () => {
  const tally = new Tally()
  for (let count = 0; count < 500; count++) tally.add('a', 5_000, at + count * 10, 1)
  const [numbers] = Object.values(tally.stored())
  expect(numbers!.length / 2).toBeLessThanOrEqual(51)
  expect(tally.sum('a', 5_000, at + 4_990)).toBe(500)
  const afterHalf = tally.sum('a', 5_000, at + 4_990 + 2_500)
  expect(afterHalf).toBeGreaterThanOrEqual(250)
  // It holds longer by no more than a fiftieth of the window.
  expect(afterHalf).toBeLessThanOrEqual(260)
  expect(tally.sum('a', 5_000, at + 4_990 + 5_000)).toBe(0)
  expect(tally.sum('b', 5_000, at)).toBe(0)
  tally.add('a', 5_000, at + 20_000, 2)
  expect(tally.stored()).toEqual({ a: [at + 20_000, 2] })
})

test('tallies of two processes are added in the order of time', () => {
  const tally = new Tally({ a: [5, 1, 9, 2], empty: [], odd: [3] })
  tally.addAll({ a: [7, 4], b: [1, 1] })
  expect(tally.stored()).toEqual({ a: [5, 1, 7, 4, 9, 2], b: [1, 1] })
  const many = Object.fromEntries(Array.from({ length: 900 }, (_, at) => [`k${at}`, [at, 1]]))
  const kept = Object.keys(new Tally(many).stored())
  expect(kept).toHaveLength(800)
  expect(kept[0]).toBe('k100')
  const long = { long: Array.from({ length: 1_000 }, (_, at) => [at, 1]).flat(), short: [1, 1] }
  const bounded = new Tally(long)
  expect(bounded.stored().long!.length / 2).toBe(500)
  expect(bounded.stored().short).toEqual([1, 1])
  expect(bounded.sum('long', 2_000, 1_000)).toBe(1_000)
  expect(bounded.stored().long!.slice(0, 2)).toEqual([1, 2])
})
