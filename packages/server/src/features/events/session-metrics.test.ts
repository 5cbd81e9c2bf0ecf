import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseSessionMetrics } from './session-metrics.ts'

describe('parseSessionMetrics', () => {
  it('reads an object of numbers', () => {
    expect(parseSessionMetrics('{"tool_calls_per_5min": 12, "shell_exec_count": 0, "custom.metric": -1.5e3}')).toEqual({
      tool_calls_per_5min: 12,
      shell_exec_count: 0,
      'custom.metric': -1500,
    })
    expect(parseSessionMetrics('{}')).toEqual({})
  })

  it.each([
    ['', 'must be a JSON object'],
    ['tool calls: 5', 'must be a JSON object'],
    ['{"a":1', 'must be a JSON object'],
    ['[1,2]', 'must be a JSON object'],
    ['null', 'must be a JSON object'],
    ['7', 'must be a JSON object'],
    ['"{}"', 'must be a JSON object'],
    ['{"a":"1"}', 'must contain finite numbers; "a" is not one'],
    ['{"a":null}', 'must contain finite numbers; "a" is not one'],
    ['{"a":true}', 'must contain finite numbers; "a" is not one'],
    ['{"ok":1,"a":{"b":1}}', 'must contain finite numbers; "a" is not one'],
    ['{"a":NaN}', 'must be a JSON object'],
    ['{"a":1e999}', 'must contain finite numbers; "a" is not one'],
    ['{"a":-1e999}', 'must contain finite numbers; "a" is not one'],
    ['{"":1}', 'names of 1 to 100 characters'],
  ])('refuses %s', (description, sentence) => {
    expect(parseSessionMetrics(description)).toContain(sentence)
  })

  it('accepts 64 metrics and names of 100 characters, and no more', () => {
    const many = (count: number) =>
      JSON.stringify(Object.fromEntries(Array.from({ length: count }, (_, at) => [`m${at}`, at])))
    expect(parseSessionMetrics(many(64))).toBeTypeOf('object')
    expect(parseSessionMetrics(many(65))).toContain('at most 64')
    expect(parseSessionMetrics(JSON.stringify({ ['🦀'.repeat(100)]: 1 }))).toBeTypeOf('object')
    expect(parseSessionMetrics(JSON.stringify({ ['x'.repeat(101)]: 1 }))).toContain('names of 1 to 100 characters')
  })

  // Copying a metric named __proto__ into an object could change the prototype of the object.
  it('rejects the name __proto__', () => {
    expect(parseSessionMetrics('{"__proto__":1}')).toContain('must not have the name')
    expect(parseSessionMetrics('{"a":1,"\\u005f_proto__":1}')).toContain('must not have the name')
  })

  // A name that the database refuses would turn a report into an internal error, and so blind the detector.
  it('refuses a name that a database cannot store', () => {
    expect(parseSessionMetrics('{"a\\u0000b":1}')).toContain('must not have the name')
    expect(parseSessionMetrics('{"\\ud800":1}')).toContain('must not have the name')
  })

  it('returns finite numbers or one sentence for any text', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.json(),
          fc.dictionary(fc.string(), fc.double()).map((all) => JSON.stringify(all)),
        ),
        (text) => {
          const metrics = parseSessionMetrics(text)
          if (typeof metrics === 'string') expect(metrics).toMatch(/\.$/)
          else expect(Object.values(metrics).every(Number.isFinite)).toBe(true)
        },
      ),
      { numRuns: 1_000 },
    )
  })
})
