import { randomBytes } from 'node:crypto'
import { keyTypes } from '@wardline/contract'
import fc from 'fast-check'
import { describe, expect, it, test } from 'vitest'
import { atOnce } from '../../testing/work.ts'
import { WorkBudget } from '../../work-turns.ts'
import { type GeneratedDecoy, generateDecoyKey } from '../honeypots/decoy-keys.ts'
import { keyCheckUnits } from '../honeypots/decoy-search.ts'
import { KeySearch, maxKeyInputLength } from '../honeypots/key-extraction.ts'
import { AnswerTexts } from './answer-texts.ts'
import { KeyReader, KeyTexts } from './key-texts.ts'

/** Returns the texts that are searched when a text arrives in these parts. */
function textsOf(parts: Iterable<string>): string[] {
  const texts: string[] = []
  const found = new KeyTexts((text) => texts.push(text))
  const reader = new KeyReader(found)
  for (const part of parts) reader.push(part)
  reader.end()
  found.flush()
  return texts
}

/** Returns the texts that are searched when an answer arrives in these chunks. */
function answerTextsOf(chunks: Iterable<Buffer>, isStream: boolean): string[] {
  const texts: string[] = []
  const reader = new AnswerTexts(new KeyTexts((text) => texts.push(text)), isStream, () => {})
  const budget = new WorkBudget(Infinity)
  for (const chunk of chunks) atOnce(reader.read(chunk, budget))
  atOnce(reader.end(budget))
  return texts
}

function isFound(texts: readonly string[], decoy: GeneratedDecoy): boolean {
  return texts.some((text) => {
    expect(text.length).toBeLessThanOrEqual(maxKeyInputLength)
    const candidates = new Set(atOnce(new KeySearch(text, new WorkBudget(keyCheckUnits)).writtenCandidates()))
    return decoy.fingerprintForms.some((form) => candidates.has(form))
  })
}

const bodyOf = (content: string) => JSON.stringify({ model: 'm-1', messages: [{ role: 'user', content }] })
const escaped = (text: string) =>
  [...text].map((one) => `\\u00${one.charCodeAt(0).toString(16).padStart(2, '0')}`).join('')

/** How a prompt can have a key. */
const writings: Record<string, (value: string) => string> = {
  'in a sentence': (value) => bodyOf(`The key is ${value}, said the file.`),
  'in an env file': (value) => bodyOf(`A=1\nAPI_KEY=${value}\nB=2`),
  'in the arguments of a tool': (value) => bodyOf(JSON.stringify({ key: value, next: ['x'] })),
  'in the middle of a long list without spaces': (value) =>
    bodyOf(['', value, ''].join(`${'\n2f7b6c1a0e9d'.repeat(200)}\n`)),
  'with each character escaped': (value) => bodyOf('K').replace('K', escaped(value)),
  'escaped in the arguments of a tool': (value) => bodyOf('K').replace('K', escaped(value).replaceAll('\\', '\\\\')),
  'without spaces, between words of another alphabet': (value) => bodyOf(`Schlüssel:${value}ß日本`),
}

// A URL is found by its fetch.
const types = keyTypes.filter((type) => type !== 'url')

describe.each(Object.entries(writings))('a decoy key %s', (_, written) => {
  it.each(types)('is found: %s', (type) => {
    const decoy = generateDecoyKey(type)
    expect(isFound(textsOf([written(decoy.value)]), decoy)).toBe(true)
    expect(isFound(answerTextsOf([Buffer.from(written(decoy.value))], false), decoy)).toBe(true)
  })
})

test.each(types)('a decoy key is found in two chunks that are cut at any byte, and byte for byte: %s', (type) => {
  const decoy = generateDecoyKey(type)
  const body = Buffer.from(bodyOf(`a: ${decoy.value} b`)).toString('latin1')
  for (let cut = 0; cut <= body.length; cut++) {
    expect(isFound(textsOf([body.slice(0, cut), body.slice(cut)]), decoy)).toBe(true)
  }
  expect(isFound(textsOf(body), decoy)).toBe(true)
})

/** How the providers stream a piece of a text. */
const events: Record<string, (piece: string, index: number) => object> = {
  'chat completions': (content, index) => ({ id: 'chatcmpl-1', choices: [{ index, delta: { content } }] }),
  'arguments of chat completions': (piece, index) => ({
    choices: [{ index: 0, delta: { tool_calls: [{ index, function: { arguments: piece } }] } }],
  }),
  responses: (delta, index) => ({ type: 'response.output_text.delta', output_index: index, content_index: 0, delta }),
  messages: (text, index) => ({ type: 'content_block_delta', index, delta: { type: 'text_delta', text } }),
  'arguments of messages': (piece, index) => ({
    type: 'content_block_delta',
    index,
    delta: { type: 'input_json_delta', partial_json: piece },
  }),
  gemini: (text, index) => ({ candidates: [{ content: { role: 'model', parts: [{ text }] }, index }] }),
}

describe.each(Object.entries(events))('in a stream of %s', (_, event) => {
  const stream = (pieces: readonly [string, number][]) =>
    Buffer.from(
      pieces.map(([piece, index]) => `event: x\r\ndata: ${JSON.stringify(event(piece, index))}\r\n\r\n`).join(''),
    )

  it('a decoy key is found in two events that are cut at any character, beside another text', () => {
    const decoy = generateDecoyKey('anthropic')
    for (let cut = 0; cut <= decoy.value.length; cut++) {
      const bytes = stream([
        [`Key: "${decoy.value.slice(0, cut)}`, 0],
        ['Another text', 1],
        [`${decoy.value.slice(cut)}".`, 0],
      ])
      expect(isFound(answerTextsOf([bytes], true), decoy)).toBe(true)
    }
  })

  it('a decoy key is found in events of one character each, in chunks of any size', () => {
    const decoy = generateDecoyKey('ssh_private_key')
    const bytes = stream([...`Here:\n${decoy.value}\n`].map((piece) => [piece, 0]))
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 1, maxLength: 5 }), (sizes) => {
        const chunks: Buffer[] = []
        for (let at = 0, index = 0; at < bytes.length; index++) {
          const size = sizes[index % sizes.length]!
          chunks.push(bytes.subarray(at, at + size))
          at += size
        }
        return isFound(answerTextsOf(chunks, true), decoy)
      }),
      { numRuns: 20 },
    )
  })
})

// Attack: the key stands in a picture or other data that is one run of megabytes, or behind as much of it.
test.each(['A', 'sk-ant-api03-', '\\u0041', '\\', 'eyJ.', '-----BEGIN '])(
  'a decoy key is found in megabytes of %j',
  (filler) => {
    const decoy = generateDecoyKey('anthropic')
    const half = filler.repeat(Math.ceil(300_000 / filler.length))
    for (const shift of [0, 1, 4_095, 24_570]) {
      expect(isFound(textsOf([`${half}${'x'.repeat(shift)}.${decoy.value}.${half}`]), decoy)).toBe(true)
    }
  },
)

// A picture in a prompt has thousands of parts that could be keys without a mark.
test('looks only for marks in a picture, and finds the key beside it', () => {
  const decoy = generateDecoyKey('generic')
  const picture = randomBytes(2_000_000).toString('base64')
  const texts = textsOf([bodyOf(`data:image/png;base64,${picture}`), bodyOf(decoy.value)])
  expect(texts.join('').length).toBeLessThan(20_000)
  expect(isFound(texts, decoy)).toBe(true)
})

test('keeps little of a text that has no keys, and texts of a bounded size of one that is full of keys', () => {
  const prose = 'The quick brown fox jumps over the lazy dog, and import { readFile } from "node:fs" is code.\\n'
  expect(textsOf(new Array<string>(10_000).fill(prose)).join('')).toBe('')
  const long = new Array<string>(100).fill('QUJD'.repeat(10_000))
  for (const text of textsOf(long)) expect(text.length).toBeLessThanOrEqual(maxKeyInputLength)
})

// Attack: a model writes a run that never ends, in events of one character, each of which has the run read again.
test('reads a long run about ten times, however small its pieces are', () => {
  const run = 'sk-proj-'.repeat(2_000)
  expect(textsOf(run).join('').length).toBeLessThan(15 * run.length)
  const decoy = generateDecoyKey('github')
  for (const before of [4_000, 4_090, 4_600, 5_000]) {
    expect(isFound(textsOf(`${'QUJD'.repeat(before / 4)}=${decoy.value} and`), decoy)).toBe(true)
  }
})
