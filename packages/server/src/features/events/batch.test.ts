import fc from 'fast-check'
import { expect, test } from 'vitest'
import { atOnce } from '../../testing/work.ts'
import { sliceUnits, WorkBudget } from '../../work-turns.ts'
import { batchItems } from './batch.ts'

const endless = () => new WorkBudget(Number.MAX_SAFE_INTEGER)
const itemsOf = (text: string, isLines = false) => atOnce(batchItems(Buffer.from(text), isLines, endless()))

function valuesOrFault(read: () => unknown[]): unknown {
  try {
    return read()
  } catch {
    return 'refused'
  }
}
const bySlices = (text: string) =>
  valuesOrFault(() => itemsOf(text).map((item) => ('value' in item ? item.value : item.fault)))
const byParser = (text: string) =>
  valuesOrFault(() => {
    const values = JSON.parse(text.replace(/^\ufeff/, ''))
    if (!Array.isArray(values) || values.length === 0) throw new Error('refused')
    return values
  })

const array = fc
  .array(fc.jsonValue({ maxDepth: 6 }), { maxLength: 12 })
  .map((values) => JSON.stringify(values, null, values.length % 3))
  .filter((text) => !text.includes('\\') && !text.includes('__proto__'))

test('splits an array into the same values as JSON.parse', () => {
  fc.assert(
    fc.property(array, (text) => {
      expect(bySlices(text)).toEqual(byParser(text))
    }),
  )
})

test('ignores a byte order mark before the body, but not before a later line or within white space', () => {
  const mark = '\ufeff'
  expect(itemsOf(`${mark}[1]`)).toEqual([{ value: 1 }])
  expect(itemsOf(`${mark}1\r\n \t2 \n\n`, true)).toEqual([{ value: 1 }, { value: 2 }])
  const fault = { fault: 'The line must be JSON.' }
  expect(itemsOf(`1\n${mark}2\n3${mark}\n\u00a04\n${mark}\n5`, true)).toEqual([
    { value: 1 },
    ...Array(4).fill(fault),
    { value: 5 },
  ])
  expect(itemsOf(`${mark}${mark}1`, true)).toEqual([fault])
  for (const text of [`${mark}${mark}[1]`, `[1]${mark}`, `[${mark}]`, `\u00a0[1]`, `[1]\u2028`]) {
    expect(() => itemsOf(text), JSON.stringify(text)).toThrow('The body must be a JSON array of events.')
  }
})

// If two parsers read one body differently, an event could bypass one of them.
test('rejects an array with changed characters exactly when JSON.parse does', () => {
  const sign = fc.constantFrom(
    '',
    '[',
    ']',
    '{',
    '}',
    ',',
    ':',
    '"',
    '\\"',
    '\\',
    ' ',
    '0',
    'x',
    '\n',
    '\u00a0',
    '\ufeff',
  )
  fc.assert(
    fc.property(array, fc.nat(), fc.nat(2), sign, (text, place, removed, inserted) => {
      const at = place % (text.length + 1)
      const changed = text.slice(0, at) + inserted + text.slice(at + removed)
      // JSON that only the service rejects, such as 1e999, is rejected item by item.
      fc.pre(!/\\u|__proto__|\d[eE]/.test(changed))
      expect(bySlices(changed)).toEqual(byParser(changed))
    }),
    { numRuns: 500 },
  )
})

test.each([
  ['an array', 'x', false],
  ['lines', 'x', true],
  ['an array of escaped quotes', '"', false],
])('reads a MiB of %s in slices', (_form, character, isLines) => {
  const event = JSON.stringify({ severity: 'info', description: character.repeat(900) })
  const events = Array.from({ length: 1_000 }, () => event)
  const text = isLines ? events.join('\n') : `[${events}]`
  const work = batchItems(Buffer.from(text), isLines, endless())
  let slices = 1
  for (let step = work.next(); !step.done; step = work.next()) slices++
  expect(slices).toBeGreaterThan((text.length * 10) / sliceUnits)
})

test('finds the end of a text of a MiB of escaped quotes in slices', () => {
  const work = batchItems(Buffer.from(`["${'\\"'.repeat(512 * 1024)}`), false, endless())
  let slices = 1
  expect(() => {
    for (let step = work.next(); !step.done; step = work.next()) slices++
  }).toThrow('must be a JSON array')
  expect(slices).toBeGreaterThan((512 * 1024 * 40) / sliceUnits / 2)
})

test('rejects only the event that is too long or has too many fields', () => {
  const long = JSON.stringify({ description: 'x'.repeat(256 * 1024) })
  const many = `[${'0,'.repeat(20_001)}0]`
  for (const [text, isLines] of [
    [`[1,${long},${many},2]`, false],
    [`1\n${long}\n${many}\n2`, true],
  ] as const) {
    expect(itemsOf(text, isLines)).toEqual([
      { value: 1 },
      { fault: 'The event must have at most 256 KiB.' },
      { fault: expect.stringMatching(/^The (?:event|line) must contain at most 20000 fields/) },
      { value: 2 },
    ])
  }
})
