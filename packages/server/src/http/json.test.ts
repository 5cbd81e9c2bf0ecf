import type { EventRow } from '@wardline/contract'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { EventFields } from '../db/schema/events.ts'
import { AppError } from '../errors.ts'
import { eventRowJson, parseEventRow } from '../features/events/event-row.ts'
import { adminKey, openTestService, type TestService } from '../testing/service.ts'
import { bodyText, parseJson } from './json.ts'

const faultOf = (work: () => unknown): string => {
  try {
    work()
  } catch (fault) {
    expect(fault).toBeInstanceOf(AppError)
    return (fault as AppError).message
  }
  throw new Error('It was accepted.')
}
const nested = (depth: number) => `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`
const nestedList = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`

describe('parseJson', () => {
  it('returns the value of the JSON', () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 8 }), (text) => {
        fc.pre(!text.includes('\\u') && !text.includes('__proto__'))
        expect(parseJson(text)).toEqual(JSON.parse(text))
      }),
    )
  })

  it.each([
    ['', 'The body must be JSON.'],
    ['{', 'The body must be JSON.'],
    ['NaN', 'The body must be JSON.'],
    ["{'a':1}", 'The body must be JSON.'],
    ['{"a":1}{"a":1}', 'The body must be JSON.'],
    ['{"a":1e400}', 'a must be a finite number.'],
    ['{"a":{"b":[0,-1e999]}}', 'a.b.1 must be a finite number.'],
    ['{"a":"x\\u0000y"}', 'a must not contain the NUL character.'],
    ['{"a":"\\ud800"}', 'a must be well-formed Unicode.'],
    ['{"a":["\\udc00\\ud800"]}', 'a.0 must be well-formed Unicode.'],
    ['"\\u0000"', 'The body must not contain the NUL character.'],
    ['{"a":{"b\\u0000":1}}', 'A field of a must not contain the NUL character.'],
    ['{"a":{"\\udfff":1}}', 'A field of a must be well-formed Unicode.'],
  ])('refuses %s', (text, sentence) => {
    expect(faultOf(() => parseJson(text))).toBe(sentence)
  })

  // Copying a field of this name into an object would set the object's prototype.
  it.each(['{"a":{"__proto__":{"admin":true}}}', '{"a":{"\\u005f_proto__":1}}', '{"a":[{"b":{"__proto__":null}}]}'])(
    'refuses a __proto__ field: %s',
    (text) => {
      expect(faultOf(() => parseJson(text))).toContain('must not be named __proto__')
    },
  )

  // Very deep JSON can be parsed but not serialized again, so one event would break every list.
  it('refuses more than 16 levels and survives any depth', () => {
    expect(parseJson(nested(16))).toEqual(JSON.parse(nested(16)))
    expect(parseJson(nestedList(16))).toEqual(JSON.parse(nestedList(16)))
    for (const depth of [17, 100, 100_000]) {
      expect(faultOf(() => parseJson(`{"metadata":${nested(depth)}}`))).toMatch(
        /^metadata must not be nested deeper|^The body must (?:be JSON|contain at most)/,
      )
      expect(faultOf(() => parseJson(nestedList(depth)))).toMatch(
        /must (?:not be nested deeper than 16|contain at most .*) levels/,
      )
    }
  })
})

// Some systems write one before every file. Agents must not get another answer for a single event than for a batch.
it('a byte order mark before a body is ignored by every endpoint and refused anywhere else', async () => {
  await using service = await openTestService()
  const event = JSON.stringify({ severity: 'info', source: 'bot', event_type: 'note', description: 'x' })
  const rule = 'title: T\nseverity: info\ndetection:\n  one:\n    event_type: note\n  condition: one\n'
  const bodies: [string, string, string, number][] = [
    ['/api/events', 'application/json', event, 201],
    // Not on the direct path.
    ['/api/events', 'application/json;charset=utf-8', event, 201],
    ['/api/events/batch', 'application/json', `[${event}]`, 200],
    ['/api/events/batch', 'application/x-ndjson', `${event}\n`, 200],
    ['/api/rules', 'application/yaml', rule, 201],
  ]
  const base = await service.app.listen({ host: '127.0.0.1', port: 0 })
  const post = async (path: string, type: string, body: string) => {
    const headers = { 'x-monitor-key': adminKey, 'content-type': type }
    const answer = await fetch(`${base}${path}`, { method: 'POST', headers, body: Buffer.from(body) })
    return { status: answer.status, text: await answer.text() }
  }
  for (const [path, type, text, status] of bodies) {
    for (const sent of [text, `\ufeff${text}`]) expect(await post(path, type, sent), type).toMatchObject({ status })
  }
  const twice = `\ufeff\ufeff${event}`
  const single = await post('/api/events', 'application/json', twice)
  expect(single).toEqual({ status: 400, text: '{"error":"The body must be JSON."}' })
  const lines = await post('/api/events/batch', 'application/x-ndjson', twice)
  expect(lines.text).toContain('The line must be JSON.')
})

describe('bodyText', () => {
  it('refuses bytes that are not UTF-8', () => {
    expect(bodyText(Buffer.from('gr\u00fc\u00df \u{1F980}'))).toBe('gr\u00fc\u00df \u{1F980}')
    for (const bytes of [[0xff], [0xc3, 0x28], [0xed, 0xa0, 0x80], [0xf0, 0x9f, 0xa6]]) {
      expect(faultOf(() => bodyText(Buffer.from(bytes)))).toBe('The body must be UTF-8.')
    }
  })
})

describe('a value in the metadata of an event', () => {
  let service: TestService
  let announced: EventFields[]
  beforeAll(async () => {
    service = await openTestService()
    service.deps.bus.onEvents((rows) => {
      announced = [...rows]
    }, parseEventRow)
  })
  afterAll(() => service[Symbol.asyncDispose]())

  const send = (text: string, batch: boolean) =>
    service.call<{ error?: string; errors?: { error: string }[] }>('POST', `/api/events${batch ? '/batch' : ''}`, {
      body: batch ? `[${text}]` : text,
    })

  it('is refused with one sentence, or listed and streamed exactly as sent', async () => {
    const anyCharacter = fc.oneof(fc.nat(0x7f), fc.nat(0x10ffff)).map((code) => String.fromCodePoint(code))
    const anyString = fc.string({ unit: anyCharacter, maxLength: 12 })
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { depthSize: 'small', maxDepth: 18, withCrossShrink: true },
        fc.constantFrom(null, true, false, 0, -0, 1e308, 5e-324, 2 ** 53, '\u2028', '</script>', '\\', '"', '\r\n\n'),
        anyString,
        fc.string({
          unit: fc.integer({ min: 0xd7ff, max: 0xe001 }).map((code) => String.fromCharCode(code)),
          maxLength: 3,
        }),
        fc.double(),
        fc.array(tie('value'), { maxLength: 3 }),
        fc.dictionary(fc.oneof(anyString, fc.constantFrom('__proto__', 'constructor', 'toString', '1')), tie('value'), {
          maxKeys: 3,
        }),
      ),
    }))
    let stored = 0
    await fc.assert(
      fc.asyncProperty(fc.dictionary(anyString, value, { maxKeys: 4 }), fc.boolean(), async (metadata, batch) => {
        const event = { severity: 'info', source: 's', event_type: 'note', description: 'd', metadata }
        const text = JSON.stringify(event)
        const { status, body } = await send(text, batch)
        const fault = batch ? body.errors?.[0]?.error : body.error
        if (fault !== undefined) {
          expect(status).toBe(batch ? 200 : 400)
          expect(fault).toMatch(/ must (not |be |have ).*\.$/s)
          return
        }
        stored += 1
        const listed = await service.call<{ events: EventRow[] }>('GET', '/api/events?limit=1')
        const expected = (JSON.parse(text) as { metadata: object }).metadata
        expect(listed.body.events[0]!.metadata).toEqual(expected)
        const streamed = eventRowJson(announced.at(-1)!)
        expect(streamed).not.toMatch(/[\r\n]/)
        expect(JSON.parse(streamed)).toEqual(listed.body.events[0])
      }),
      { numRuns: 150 },
    )
    expect(stored).toBeGreaterThan(30)
  })

  it('has at most 16 KiB as JSON in bytes', async () => {
    const event = (metadata: object) =>
      JSON.stringify({ severity: 'info', source: 's', event_type: 'note', description: 'd', metadata })
    expect((await send(event({ a: 'x'.repeat(16 * 1024 - 8) }), false)).status).toBe(201)
    for (const text of ['x'.repeat(16 * 1024 - 7), '\u00fc'.repeat(8 * 1024)]) {
      const { status, body } = await send(event({ a: text }), false)
      expect([status, body.error]).toEqual([400, 'metadata must have at most 16 KiB as JSON.'])
    }
  })
})
