import { describe, expect, it } from 'vitest'
import { type CallBody, CallBodyReader } from './call-body.ts'

function read(text: string | Buffer, size = Infinity, headers = {}): CallBody {
  const bytes = Buffer.from(text as string)
  const reader = new CallBodyReader(headers)
  for (let at = 0; at < bytes.length; at += size) reader.push(bytes.subarray(at, at + size))
  return reader.end()
}

describe('the reader of a call', () => {
  it.each<[string, Partial<CallBody>]>([
    ['{"model":"m-1"}', { model: 'm-1' }],
    [' {\n "a" : [ {"model":"x"}, "model" ], "b":{"model":"y"}, "model" : "m-1" , "c": -1.5e3 }\n', { model: 'm-1' }],
    ['{"mod\\u0065l":"m\\u002d1"}', { model: 'm-1' }],
    ['{"x":"\\\\","y":"\\"model\\":\\"z\\"","model":"é/🎉"}', { model: 'é/🎉' }],
    ['{"max_tokens":10,"max_completion_tokens":20,"n":3}', { maxOutputTokens: 20, choices: 3 }],
    ['{"max_tokens":10,"max_tokens":5,"n":null}', { maxOutputTokens: 10, choices: 1 }],
    ['{"max_output_tokens":"30","max_tokens":-1}', { maxOutputTokens: 30 }],
    [
      '{"generationConfig":{"a":{"maxOutputTokens":9},"maxOutputTokens":7,"candidateCount":2},"model":"m"}',
      { maxOutputTokens: 7, choices: 2, model: 'm' },
    ],
    ['{"generation_config":{"max_output_tokens":8}}', { maxOutputTokens: 8 }],
    [
      '{"generationConfig":[{"maxOutputTokens":7}],"x":{"generationConfig":{"maxOutputTokens":9}}}',
      { maxOutputTokens: undefined },
    ],
    ['{"model":"m","models":["x"]}', { namesFallbacks: true, model: 'm' }],
    ['{"model":"m","fallbacks":"x"}', { namesFallbacks: true }],
    ['{}', { model: undefined, namesFallbacks: false, choices: 1 }],
    [`{"${'k'.repeat(5_000)}":1,"model":"m"}`, { model: 'm' }],
    [`{"model":"${'m'.repeat(5_000)}"}`, { model: undefined }],
  ])('reads %s, in whatever pieces it arrives', (text, found) => {
    for (const size of [1, 2, 7, Infinity]) expect(read(text, size)).toMatchObject({ fault: undefined, ...found })
  })

  // Of two models the provider takes one and this reader could take the other.
  it.each([
    ['{"model":"a","model":"b"}', 'more than once'],
    ['{"model":"a","MODEL":"b"}', 'more than once'],
    ['{"model":"a","mod\\u0065l":"b"}', 'more than once'],
    ['{"model":"a","m_odel":["b"]}', 'more than once'],
    ['{"a":[/*"*/1,/*"*/],"model":"b"}', 'JSON'],
    ["{'model':'b'}", 'JSON'],
    ['{"model":"a"}{"model":"b"}', 'JSON'],
    ['[{"model":"a"}]', 'JSON'],
    ['\ufeff{"model":"a"}', 'JSON'],
    ['{"model":"a",}', 'JSON'],
    ['{"model" "a"}', 'JSON'],
    ['{"a":}', 'JSON'],
    ['{"model":"a"', 'JSON'],
    ['{"a":"', 'JSON'],
    ['', 'JSON'],
    ['model=a', 'JSON'],
  ])('finds %s ambiguous', (text, fault) => {
    for (const size of [1, 3, Infinity]) {
      expect(read(text, size).fault).toContain(fault)
      expect(read(text, size).model).toBeUndefined()
    }
  })

  it.each([
    ['a body that is compressed', { 'content-encoding': 'br' }, 'compressed'],
    ['another charset', { 'content-type': 'application/json; charset=utf-7' }, 'UTF-8'],
    ['a form', { 'content-type': 'multipart/form-data; boundary=b' }, 'JSON'],
  ])('does not trust %s', (_, headers, fault) => {
    expect(read('{"model":"a"}', Infinity, headers)).toMatchObject({
      fault: expect.stringContaining(fault),
      model: undefined,
    })
  })

  it('reads what JSON.parse reads, in random bodies', () => {
    const seed = Math.floor(Math.random() * 2 ** 31)
    let state = seed
    const random = (below: number) => {
      state = (state * 48_271) % 2_147_483_647
      return state % below
    }
    const value = (depth: number): unknown =>
      [
        () => 'a"\\\n{}[]model,:é'.slice(random(8)),
        () => random(1_000) / 7,
        () => null,
        () => true,
        () => Array.from({ length: random(4) }, () => (depth > 3 ? 1 : value(depth + 1))),
        () =>
          Object.fromEntries(
            ['model', 'a', 'max_tokens'].slice(random(3)).map((key) => [key, depth > 3 ? 1 : value(depth + 1)]),
          ),
      ][random(6)]!()
    for (let round = 0; round < 500; round++) {
      const model = `m-${random(100)}`
      const fields = [
        ['a', value(0)],
        ['model', model],
        ['b"\\', value(0)],
        ['max_tokens', random(100)],
      ] as const
      const body = Object.fromEntries(fields.slice(random(2)).sort(() => random(2) - 0.5))
      const text = JSON.stringify(body, null, random(3))
      const found = read(text, 1 + random(20))
      expect(found, `seed ${seed}: ${text}`).toMatchObject({
        fault: undefined,
        model,
        maxOutputTokens: body.max_tokens,
      })
    }
  })
})
