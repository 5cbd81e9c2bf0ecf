import { expect, it } from 'vitest'
import { seededChoices } from '../../../../../test-servers/seeded-draws.ts'
import { FieldsToRead, JsonFields, type WantedFields } from './answer-fields.ts'

const wanted: WantedFields = {
  usage: { input: true, details: { cached: true } },
  choices: { reason: true, delta: { calls: { name: true } } },
  status: true,
}
const fieldsToRead = new FieldsToRead(wanted, new Set(['text', 'content']))

interface Read {
  values: unknown[]
  textBytes: number
}

/** Reads a text in pieces of this many bytes. */
function read(text: string, size = Infinity): Read {
  const bytes = Buffer.from(text)
  const values: unknown[] = []
  const fields = new JsonFields(fieldsToRead, (value) => values.push(value))
  for (let at = 0; at < bytes.length; at += size) fields.push(bytes, at, Math.min(bytes.length, at + size))
  fields.end()
  return { values, textBytes: fields.textBytes }
}

/** Returns what is wanted of a value, as JSON.parse reads it. */
function picked(value: unknown, of: true | WantedFields): unknown {
  if (Array.isArray(value)) return of === true ? undefined : value.map((each) => picked(each, of)).filter(isKept)
  if (typeof value !== 'object' || value === null) {
    return of === true && (value === null || typeof value === 'string' || typeof value === 'number') ? value : undefined
  }
  if (of === true) return undefined
  const fields = Object.entries(value).map(([key, field]) => {
    const inner = Object.hasOwn(of, key) ? of[key]! : undefined
    return [key, inner && picked(field, inner)] as const
  })
  return Object.fromEntries(fields.filter(([, field]) => isKept(field)))
}
const isKept = (value: unknown) => value !== undefined

it('reads the fields that JSON.parse reads, in random values and pieces', () => {
  const seed = Number(process.env.SEED ?? Date.now() % 100_000)
  const { between, pick } = seededChoices(seed)
  const keys = ['usage', 'input', 'details', 'cached', 'choices', 'reason', 'delta', 'calls', 'name', 'status']
  const others = ['text', 'content', 'x', '', 'us\\age', '"', 'é☂', '__proto__', 'k'.repeat(2_000)]
  const value = (depth: number): unknown => {
    const kind = between(0, depth > 4 ? 3 : 7)
    if (kind === 0) return pick(['a"\\\n{}[]:,', '', 'é☂🎉', '"usage":{"input":9}', 'end'])
    if (kind === 1) return pick([0, -1.5e30, 7, 123_456_789])
    if (kind === 2) return pick([null, true, false])
    if (kind === 3) return 'a'
    const list = Array.from({ length: between(0, 4) }, () => value(depth + 1))
    // A list in a list is never wanted.
    if (kind === 4) return list.filter((each) => !Array.isArray(each))
    return Object.fromEntries(list.map((each) => [pick(between(0, 3) > 0 ? keys : others), each]))
  }
  for (let round = 0; round < 3_000; round++) {
    const isList = round % 3 === 0
    const one = () => Object.fromEntries(Array.from({ length: between(0, 5) }, () => [pick(keys), value(1)]))
    const whole = isList ? Array.from({ length: between(0, 3) }, one) : one()
    const json = JSON.stringify(whole, null, between(0, 2))
    // Characters of keys can be escaped.
    const text =
      round % 2 === 0 ? json : json.replaceAll('"usage"', '"\\u0075sage"').replaceAll('"input"', '"inpu\\u0074"')
    const expected = isList ? (whole as unknown[]).map((each) => picked(each, wanted)) : [picked(whole, wanted)]
    const found = read(text, between(1, 30))
    expect(found.values, `SEED=${seed}: ${text}`).toEqual(expected)
    expect(found, `SEED=${seed}: ${text}`).toEqual(read(text))
  }
})

it('counts the bytes of texts wherever they are, also of one that is cut', () => {
  expect(read('{"a":[{"text":"é\\n"},{"content" : "xy","b":"text"}],"text":["no"]}').textBytes).toBe(6)
  for (const size of [1, 3, Infinity]) expect(read('{"choices":[{"content":"half of', size).textBytes).toBe(7)
})

it.each([
  '{"usage":{"input":1}',
  '{"usage":{"input":1}]',
  '{"usage":{"input":1}}{"usage":{}}',
  '{"usage":{"input":1}}]',
  '[DONE]',
  '"usage"',
  'null',
  '',
])('reads nothing of %s', (text) => {
  for (const size of [1, Infinity]) expect(read(text, size).values).toEqual([])
})

it('keeps no more than the fields: long texts and what is deep or in long lists is passed over', () => {
  const many = `{"choices":[${'{"reason":"a","x":[[[]]]},'.repeat(5_000)}{}],"usage":{"input":3}}`
  expect(read(many, 999).values).toMatchObject([{ usage: { input: 3 }, choices: { length: 1_000 } }])
  const deep = `{"choices":${'['.repeat(100_000)}${']'.repeat(100_000)},"usage":{"input":3}}`
  expect(read(deep, 999).values).toEqual([{ usage: { input: 3 }, choices: [] }])
  expect(read(`{"status":"${'a'.repeat(100_000)}","usage":{"input":3}}`, 999).values).toEqual([{ usage: { input: 3 } }])
})
